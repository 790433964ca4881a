"""The guide's examples as jobs: they load, run under verifiers in the jail, and pass the probe."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from trainsmith import bases, families, jobs, probe
from trainsmith.config.engine import EngineConfig
from trainsmith.episode import guide
from trainsmith.jail import choose
from trainsmith.jail.border import EnvironmentRollout, GenerateCall, GenerateReply, open_environment
from trainsmith.records import ProbeReport, Task, Tier
from trainsmith.rollout.policies import Policies

pytestmark = pytest.mark.component

SINGLE, MULTI = "single-turn", "multi-turn"
RIGHT = "the right reply"


@pytest.fixture
def examples(tmp_path: Path) -> Mapping[str, Path]:
    """Both examples as job folders; the second is the first with the Env put below."""
    toml, single, addition = (
        re.findall(rf"```{language}\n(.*?)```", guide.text(), re.DOTALL)[index]
        for language, index in (("toml", 0), ("python", 0), ("python", 1))
    )
    place = re.search(r"`(environment/\w+/__init__\.py)`", guide.text())
    assert place is not None
    folders = {}
    for name, code in ((SINGLE, single), (MULTI, f"{single}\n\n{addition}")):
        folders[name] = tmp_path / name
        (tmp_path / name / place[1]).parent.mkdir(parents=True)
        (tmp_path / name / place[1]).write_text(code)
        (tmp_path / name / "rl.toml").write_text(toml)
    return folders


@pytest.mark.parametrize("name", [SINGLE, MULTI])
@pytest.mark.parametrize("task_id", families.task_ids(Tier.MICRO))
def test_examples_load(examples: Mapping[str, Path], task_id: str, name: str) -> None:
    """Fault: an agent that copies the guide's example gets an error for it."""
    job = jobs.load(examples[name], families.task(task_id))
    assert job.package == "initials"
    assert jobs.refusals(job.config, "embedded") == ()
    assert jobs.refusals(job.config, "prime_rl") == ()


Played = tuple[EnvironmentRollout, list[GenerateCall]]


async def play(folder: Path, *dialogues: tuple[str, ...]) -> list[Played]:
    """A rollout of the first task for each dialogue of replies; RIGHT stands for the right one."""
    arguments = '{"num_tasks": 64}'
    async with open_environment(folder / "environment", "initials", arguments, jail=choose()) as environment:
        assert environment.info.tasks == 64
        played = []
        for number, replies in enumerate(dialogues):
            script = Script(replies)
            played.append((await environment.rollout(0, script.generate, sample=number), script.calls))
        return played


class Script:
    """Replies in turn."""

    def __init__(self, replies: tuple[str, ...]) -> None:
        self.replies = replies
        self.calls: list[GenerateCall] = []

    async def generate(self, call: GenerateCall) -> GenerateReply:
        self.calls.append(call)
        text = self.replies[len(self.calls) - 1]
        if text == RIGHT:
            name = next(m.content for m in call.messages[5:] if m.role == "user")
            text = "".join(word[0] for word in name.split())
        return GenerateReply(text=text, finish="stop", prompt_tokens=1, completion_tokens=1)


def test_single_turn_example_scores(examples: Mapping[str, Path]) -> None:
    """Fault: the example does not run under the pinned verifiers, or its rewards are not what it says."""
    (wrong, calls), (right, _) = asyncio.run(play(examples[SINGLE], ("no idea",), (RIGHT,)))
    assert [message.role for message in calls[0].messages] == ["system", *["user", "assistant"] * 2, "user"]
    assert wrong.traces[0].reward == 0.0
    assert right.traces[0].reward == pytest.approx(1.0)


def test_multi_turn_example_gives_a_second_try(examples: Mapping[str, Path]) -> None:
    """Fault: the example's Env does not speak, ends too early, or goes on after the right reply."""
    dialogues = (("no idea", "none"), ("no idea", RIGHT), (RIGHT,))
    (wrong, calls), (second, _), (first, once) = asyncio.run(play(examples[MULTI], *dialogues))
    assert len(calls) == 2
    assert calls[1].messages[-1].content.startswith("Wrong")
    assert wrong.traces[0].reward == 0.0
    assert second.traces[0].reward == pytest.approx(1.0)
    assert first.traces[0].reward == pytest.approx(1.0)
    assert len(once) == 1


async def probed(folder: Path, task: Task) -> ProbeReport:
    policies = Policies(EngineConfig())
    try:
        services = probe.ProbeServices(
            jail=choose(),
            tokenizer=lambda base: tokenizer(policies, base),
            policy=policies.get,
            context=lambda base: bases.get(base).context,
        )
        return await probe.run(folder, task, services)
    finally:
        policies.close()


async def tokenizer(policies: Policies, base: str) -> probe.services.PromptTokenizer:
    return (await policies.get(base)).tokenizer


@pytest.mark.slow
@pytest.mark.parametrize("name", [SINGLE, MULTI])
def test_examples_pass_the_probe(examples: Mapping[str, Path], task: Task, name: str) -> None:
    """Fault: the guide teaches something that validation refuses."""
    report = asyncio.run(probed(examples[name], task))
    assert report.passed, report.failures


@pytest.mark.slow
def test_guide_has_at_most_2000_tokens() -> None:
    """Fault: the guide eats the context of a small agent."""
    from tokenizers import Tokenizer

    tokens = Tokenizer.from_file(str(bases.fetch("smollm2-135m") / "tokenizer.json"))
    assert len(tokens.encode(guide.text(), add_special_tokens=False).ids) <= 2_000
