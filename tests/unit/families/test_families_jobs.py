"""The jobs that kinds bring, as text."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass, replace

import pytest

from trainsmith import families
from trainsmith.errors import MachineError
from trainsmith.families.environment import _value, environment
from trainsmith.families.tasks import source_of

IDS = families.task_ids()
KINDS = pytest.mark.parametrize("task_id", IDS)


@KINDS
def test_the_environment_holds_the_rule(task_id: str) -> None:
    """Fault: the written file makes another rule than the task's."""
    for seed in (0, 1, 2, 3):
        task = families.task(task_id.replace("@0", f"@{seed}"))
        text = families.reference_job(task)[1].content
        assert "$" not in text
        tree = ast.parse(text)
        kept = [node for node in tree.body if {getattr(node, "name", ""), *_targets(node)} & {"Rule", "RULE"}]
        space: dict[str, object] = {"dataclass": dataclass, "__name__": __name__}
        exec(compile(ast.Module(kept, []), "environment", "exec"), space)
        assert vars(space["RULE"]) == vars(source_of(task.id).rule)


def _targets(node: ast.stmt) -> set[str]:
    if not isinstance(node, ast.Assign):
        return set()
    return {target.id for target in node.targets if isinstance(target, ast.Name)}


@KINDS
def test_the_environment_is_short_and_plain(task_id: str) -> None:
    """Fault: the exemplary file is too long, or reaches for what a jail does not have."""
    text = families.reference_job(families.task(task_id))[1].content
    code = [line for line in text.splitlines() if line.strip()]
    assert len(code) < 80
    assert max(map(len, code)) <= 130
    imports = {
        name.name if isinstance(node, ast.Import) else str(node.module)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert imports <= {"__future__", "random", "math", "dataclasses", "verifiers.v1"}


@KINDS
def test_the_working_job_differs_in_settings_alone(task_id: str) -> None:
    """Fault: the start for small agents is as good as the reference, or has another environment."""
    task = families.task(task_id)
    reference, working = families.reference_job(task), families.working_job(task)
    assert reference[1] == working[1]
    good, weak = tomllib.loads(reference[0].content), tomllib.loads(working[0].content)
    assert weak["trainer"]["optim"]["lr"] == 1e-6
    assert weak["max_steps"] < good["max_steps"]
    assert {good["model"]["name"], weak["model"]["name"]} <= set(task.bases)


@KINDS
def test_the_budget_has_room_for_the_reference_job(task_id: str) -> None:
    """Fault: the expert's own job is cut off."""
    task = families.task(task_id)
    config = tomllib.loads(families.reference_job(task)[0].content)
    rollouts = config["max_steps"] * config["orchestrator"]["batch_size"]
    assert config["max_steps"] <= task.budget.max_steps
    assert 2 * rollouts * task.evaluation.max_tokens <= task.budget.max_tokens
    assert config["orchestrator"]["train"]["sampling"]["max_completion_tokens"] == task.evaluation.max_tokens


@pytest.mark.parametrize(
    "words", [(), ("one",), ("it's",), ("a b", "c"), tuple("abcdefgh") * 20, ("x y",) * 40]
)
def test_values_are_written_as_they_are(words: tuple[str, ...]) -> None:
    """Fault: a long list of words with blanks in them falls apart."""
    assert ast.literal_eval(_value(words)) == words if "split" not in _value(words) else True
    assert eval(_value(words)) == words


def test_a_kind_that_needs_more_than_the_file_has_is_refused() -> None:
    """Fault: a reference job breaks in the jail, since its functions use names of their old module."""
    source = source_of(IDS[0])
    needy = source._replace(kind=replace(source.kind, reward=_needy))
    with pytest.raises(MachineError, match="uses IDS"):
        environment(needy, families.task(IDS[0]).prefix)


def _needy(reply: str, answer: str) -> float:
    return float(reply == answer and len(IDS) > 0)
