"""The scripted agents and the starts on every built-in task, with services that only look at files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from trainsmith import agents, families, jobs
from trainsmith.agents.script import ScriptedAgent, call
from trainsmith.episode import EpisodeServices, Session, guide, run_episode
from trainsmith.records import Start, Status
from trainsmith.records.job import JobFile

pytestmark = pytest.mark.component

Services = Callable[..., EpisodeServices]
TASKS = families.task_ids()


@pytest.mark.parametrize("task_id", TASKS)
@pytest.mark.parametrize(("name", "attempt"), [("reference", 1), ("broken", 3)])
def test_scripted_agents_finish(
    services_for: Services, tmp_path: Path, task_id: str, name: str, attempt: int
) -> None:
    """Fault: a reference job cannot be written through the tools, or lacks what the mistakes are made of."""
    task = families.task(task_id)
    agent = agents.create(name, task)
    record = asyncio.run(run_episode("e", task, agent, services_for(task), tmp_path / "e"))
    assert (record.status, record.agent, record.validation_attempt) == (Status.OK, name, attempt)
    submitted = tmp_path / "e" / record.job
    assert jobs.load(submitted, task)
    written = {file.path: file.content for file in families.reference_job(task)}
    assert {path: (submitted / path).read_text() for path in written} == written


@pytest.mark.parametrize("task_id", TASKS)
def test_working_start_can_be_edited_and_submitted(
    services_for: Services, tmp_path: Path, task_id: str
) -> None:
    """Fault: the start that small agents need does not pass, or its learning rate is in no line to edit."""
    task = families.task(task_id)
    line = next(line for line in _toml(families.working_job(task)).splitlines() if line.startswith("lr = "))
    edit = {"path": "rl.toml", "old": line, "new": "lr = 2e-5"}
    agent = ScriptedAgent("editor", [call("", "edit_file", edit), call("", "submit_job")])
    record = asyncio.run(
        run_episode("e", task, agent, services_for(task), tmp_path / "e", start=Start.WORKING)
    )
    assert (record.status, record.turns) == (Status.OK, 2)
    job = jobs.load(tmp_path / "e" / record.job, task)
    assert job.config.trainer.optim.lr == 2e-5


@pytest.mark.parametrize("start", list(Start))
@pytest.mark.parametrize("task_id", TASKS[:2])
def test_agents_are_not_shown_the_reference(
    services_for: Services, tmp_path: Path, task_id: str, start: Start
) -> None:
    """Fault: the briefing or the workspace gives the expert's settings away."""
    task = families.task(task_id)
    with Session("e", task, "x", services_for(task), tmp_path / "e", start=start) as session:
        shown = session.briefing.model_dump_json() + guide.text()
    texts = [path.read_text() for path in (tmp_path / "e" / "workspace").rglob("*") if path.is_file()]
    assert _toml(families.reference_job(task)) not in [*texts, shown]
    assert {entry.path for entry in session.briefing.files} == {
        str(path.relative_to(tmp_path / "e" / "workspace"))
        for path in (tmp_path / "e" / "workspace").rglob("*")
        if path.is_file()
    }


def test_guide_teaches_another_skill() -> None:
    """Fault: the guide's example is the solution of a task."""
    kinds = {families.task(task_id).kind for task_id in TASKS}
    assert "initials" not in kinds
    assert not any(f"/{kind.replace('-', '_')}/" in guide.text() for kind in kinds)


def _toml(files: tuple[JobFile, ...]) -> str:
    return next(file.content for file in files if file.path == "rl.toml")
