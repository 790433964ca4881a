"""The session as a server uses it: calls from outside, at any time and in any number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from trainsmith.agents.reference import writes
from trainsmith.agents.script import call
from trainsmith.episode import EpisodeServices, Session, trace
from trainsmith.errors import MachineError
from trainsmith.records import Observation, Start, Status, Task
from trainsmith.records.job import JobFile

pytestmark = pytest.mark.component

Services = Callable[..., EpisodeServices]


def open_session(task: Task, services: EpisodeServices, folder: Path) -> Session:
    return Session("e1", task, "client", services, folder / "e1")


def test_briefing_tells_what_an_agent_needs_and_no_more(
    task: Task, files: tuple[JobFile, ...], services_for: Services, tmp_path: Path
) -> None:
    """Fault: the briefing lacks a limit or a base, or shows something of the reference job."""
    with open_session(task, services_for(task), tmp_path) as session:
        brief = session.briefing
    for part in (
        task.brief,
        "smollm2-135m-28l",
        "60 steps",
        "3 validations",
        "edit_file(path, old, new)",
        "stone",
    ):
        assert part in brief.text, part
    assert [entry.path for entry in brief.files] == ["GUIDE.md"]
    assert brief.start is Start.EMPTY
    assert not any(file.content in brief.model_dump_json() for file in files)


def test_calls_at_once_wait_for_each_other(
    task: Task, files: tuple[JobFile, ...], services_for: Services, tmp_path: Path
) -> None:
    """Fault: a client that sends two calls at once spends two probes on one, or tears the journal."""

    async def run(session: Session) -> list[Observation]:
        for action in writes(files):
            await session.step(action)
        return await asyncio.gather(*(session.step(call("", "validate_job")) for _ in range(4)))

    services = services_for(task)
    with open_session(task, services, tmp_path) as session:
        seen = asyncio.run(run(session))
        assert session.state.validations == 1
    assert [observation.ok for observation in seen] == [True, False, False, False]
    assert len(services.probed) == 1
    assert [turn.number for turn in trace.read(tmp_path / "e1")] == list(range(1, len(files) + 5))


def test_calls_after_the_end_are_answered_and_not_counted(
    task: Task, services_for: Services, tmp_path: Path
) -> None:
    """Fault: a client that goes on after the end gets a crash, or another probe."""

    async def run(session: Session) -> Observation:
        for _ in range(task.limits.max_validations + 2):
            seen = await session.step(call("", "submit_job"))
        return seen

    services = services_for(task)
    with open_session(task, services, tmp_path) as session:
        seen = asyncio.run(run(session))
        record = asyncio.run(session.finish())
    assert seen.done
    assert "over" in seen.text
    assert len(services.probed) == record.turns == task.limits.max_validations
    assert record.status is Status.INVALID


def test_closed_before_the_end(task: Task, services_for: Services, tmp_path: Path) -> None:
    """Fault: a client that disconnects leaves an episode without an outcome."""
    with open_session(task, services_for(task), tmp_path) as session:
        record = asyncio.run(session.finish())
    assert record.status is Status.INVALID


def test_void_session_answers_and_stays_void(task: Task, services_for: Services, tmp_path: Path) -> None:
    """Fault: after a fault of the machine the agent goes on in a broken episode."""
    services = services_for(task, baseline_scores=MachineError("no memory"))
    with open_session(task, services, tmp_path) as session:
        first = asyncio.run(session.step(call("", "baseline_scores")))
        second = asyncio.run(session.step(call("", "baseline_scores")))
        record = asyncio.run(session.finish())
    assert first == second
    assert first.done
    assert record.status is Status.VOID
    assert list(trace.read(tmp_path / "e1")) == []


def test_link_in_the_workspace_costs_the_turn_not_the_episode(
    task: Task, files: tuple[JobFile, ...], services_for: Services, tmp_path: Path
) -> None:
    """Fault: a planted link voids the episode (a free retry), or reaches the probe."""

    async def run(session: Session) -> tuple[Observation, Observation]:
        for action in writes(files):
            await session.step(action)
        link = tmp_path / "e1" / "workspace" / "notes.md"
        link.symlink_to("/etc/passwd")
        refused = await session.step(call("", "submit_job"))
        link.unlink()
        return refused, await session.step(call("", "submit_job"))

    services = services_for(task)
    with open_session(task, services, tmp_path) as session:
        refused, taken = asyncio.run(run(session))
    assert not refused.ok
    assert not refused.done
    assert refused.validations_left == 3
    assert "notes.md: is a symbolic link" in refused.text
    assert taken.done
    assert taken.ok
    assert len(services.probed) == 1


def test_long_files_are_cut_in_what_is_shown(task: Task, services_for: Services, tmp_path: Path) -> None:
    """Fault: one read_file floods the agent's context."""

    async def run(session: Session) -> Observation:
        await session.step(call("", "write_file", {"path": "notes.md", "content": "x" * 500_000}))
        return await session.step(call("", "read_file", {"path": "notes.md"}))

    with open_session(task, services_for(task), tmp_path) as session:
        seen = asyncio.run(run(session))
    assert len(seen.text) < 33_000
    assert "of 500000 characters" in seen.text
