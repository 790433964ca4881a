"""Whole episodes of the scripted agents, on a real workspace, with services that only look at files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from trainsmith.agents.broken import broken
from trainsmith.agents.reference import reference
from trainsmith.agents.script import ScriptedAgent, call
from trainsmith.episode import EpisodeServices, Stop, Turn, run_episode, trace
from trainsmith.episode.machine import EpisodeState, Phase, replay
from trainsmith.errors import AgentError, MachineError, UserError
from trainsmith.records import EpisodeRecord, Start, Status, Task
from trainsmith.records.job import JobFile

pytestmark = pytest.mark.component

Services = Callable[..., EpisodeServices]


def play(task: Task, agent: ScriptedAgent, services: EpisodeServices, folder: Path) -> EpisodeRecord:
    return asyncio.run(run_episode("e1", task, agent, services, folder / "e1"))


def test_reference_submits_its_job_at_once(
    task: Task, files: tuple[JobFile, ...], services_for: Services, tmp_path: Path
) -> None:
    """Fault: the expert's job, written through the tools, is not the job that is probed and trained."""
    services = services_for(task)
    record = play(task, reference(files), services, tmp_path)
    assert (record.status, record.validation_attempt, record.validations) == (Status.OK, 1, 1)
    assert record.reward is not None
    assert record.reward.validation == 1.0
    trained = tmp_path / "e1" / record.job
    assert services.trained == [(trained, 1)]
    assert {str(path.relative_to(trained)) for path in trained.rglob("*") if path.is_file()} == {
        file.path for file in files
    }
    assert all((trained / file.path).read_text() == file.content for file in files)
    assert {entry.path for entry in record.files} == {"GUIDE.md", *(file.path for file in files)}


def test_broken_ends_with_a_valid_job_on_its_last_probe(
    task: Task, files: tuple[JobFile, ...], services_for: Services, tmp_path: Path
) -> None:
    """Fault: one of the typical mistakes ends the episode, or costs a probe that it should not."""
    turns: list[Turn] = []
    services = services_for(task)
    record = asyncio.run(
        run_episode("e1", task, broken(files), services, tmp_path / "e1", watcher=turns.append)
    )
    assert (record.status, record.validation_attempt, record.validations) == (Status.OK, 3, 3)
    assert [report.passed for report in record.probes] == [False, False, True]
    assert record.reward is not None
    assert record.reward.validation == pytest.approx(1 / 3)
    told = "\n".join(turn.observation.text for turn in turns)
    for error in (
        "there is no tool 'run_job'",
        "the arguments are not JSON",
        "argument 'content' is missing",
        "../../../../etc/passwd",
        "GUIDE.md: is read-only",
        "the nearest line is",
        "Validation 1 failed",
        "Validation 2 failed. Not submitted.",
        "group",
        "Validation 3 passed. Submitted.",
    ):
        assert error in told, error
    assert all(turn.note for turn in turns)


def test_trace_replays_to_the_same_state(
    task: Task, files: tuple[JobFile, ...], services_for: Services, tmp_path: Path
) -> None:
    """Fault: the journal misses something, so that a resumed episode stands elsewhere than it stood."""
    turns: list[Turn] = []
    asyncio.run(
        run_episode("e1", task, broken(files), services_for(task), tmp_path / "e1", watcher=turns.append)
    )
    read = list(trace.read(tmp_path / "e1"))
    assert read == turns
    state = replay(EpisodeState(limits=task.limits), [turn.outcome for turn in read])
    assert (state.phase, state.turns, state.validations) == (Phase.SUBMITTED, len(read), 3)


def test_damaged_trace_is_refused(task: Task, services_for: Services, tmp_path: Path) -> None:
    """Fault: a damaged journal is replayed as far as it goes; a torn last line is no damage."""
    play(task, ScriptedAgent("lister", [call("", "list_files")] * 2), services_for(task), tmp_path)
    path = tmp_path / "e1" / "trace.jsonl"
    lines = path.read_text()
    path.write_text(lines + '{"number": 4, "no')
    assert len(list(trace.read(tmp_path / "e1"))) == 3
    path.write_text('{"number": 1}\n' + lines)
    with pytest.raises(MachineError, match="damaged"):
        list(trace.read(tmp_path / "e1"))


@pytest.mark.parametrize("service", ["probe", "baseline_scores", "run_job"])
def test_fault_of_the_machine_voids(
    task: Task, files: tuple[JobFile, ...], services_for: Services, tmp_path: Path, service: str
) -> None:
    """Fault: a full disk or a dead jail is scored as the agent's 0."""
    services = services_for(task, **{service: MachineError("the disk is full")})
    record = play(task, reference(files), services, tmp_path)
    assert (record.status, record.reward) == (Status.VOID, None)
    assert "disk is full" in record.reason


def test_agent_error_of_the_probe_is_a_failed_check(
    task: Task, files: tuple[JobFile, ...], services_for: Services, tmp_path: Path
) -> None:
    """Fault: an author's mistake that a probe raises crashes the run."""
    services = services_for(task, probe=AgentError("the package exits", fix="remove sys.exit"))
    record = play(task, reference(files), services, tmp_path)
    assert (record.status, record.validation_attempt) == (Status.OK, 2)
    assert "remove sys.exit" in record.probes[0].checks[0].evidence


def test_agent_error_of_the_run_is_scored(
    task: Task, files: tuple[JobFile, ...], services_for: Services, tmp_path: Path
) -> None:
    """Fault: an author who crashes the training gets a void episode, and another try for free."""
    services = services_for(task, run_job=AgentError("the environment exits"))
    record = play(task, reference(files), services, tmp_path)
    assert record.status is Status.FAILED
    assert record.reward is not None
    assert (record.reward.validation, record.reward.quality) == (1.0, 0.0)


def test_stopping_without_a_job_earns_nothing(task: Task, services_for: Services, tmp_path: Path) -> None:
    """Fault: an agent that stops is void, or waits for ever."""
    record = play(task, ScriptedAgent("idle", []), services_for(task), tmp_path)
    assert record.status is Status.INVALID
    assert record.reward is not None
    assert record.reward.total == 0.0
    assert "stopped" in record.reason


class Failing:
    """An agent whose endpoint fails, or whose own budget is spent."""

    name = "failing"

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def begin(self, briefing: object) -> None:
        pass

    async def act(self, observation: object) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "status"),
    [(MachineError("the endpoint is down"), Status.VOID), (AgentError("out of tokens"), Status.INVALID)],
)
def test_faults_of_the_agent_itself(
    task: Task, services_for: Services, tmp_path: Path, error: Exception, status: Status
) -> None:
    """Fault: a dead endpoint counts as a bad agent, or a spent budget as a dead endpoint."""
    record = asyncio.run(run_episode("e1", task, Failing(error), services_for(task), tmp_path / "e1"))
    assert record.status is status
    assert (record.reward is None) == (status is Status.VOID)
    if status is Status.INVALID:
        last = list(trace.read(tmp_path / "e1"))[-1]
        assert last.call == Stop(reason="out of tokens")


def test_folder_of_another_episode_is_refused(task: Task, services_for: Services, tmp_path: Path) -> None:
    """Fault: two episodes of the same id overwrite each other."""
    play(task, ScriptedAgent("idle", []), services_for(task), tmp_path)
    with pytest.raises(UserError):
        play(task, ScriptedAgent("idle", []), services_for(task), tmp_path)


def test_job_changed_behind_the_back_is_not_trained(
    task: Task, files: tuple[JobFile, ...], services_for: Services, tmp_path: Path
) -> None:
    """Fault: files changed between the probe and the submission are trained without a probe."""

    def tamper(turn: Turn) -> None:
        if turn.call.tool == "validate_job":
            (tmp_path / "e1" / "workspace" / "rl.toml").write_text(files[0].content.replace("20", "50", 1))

    services = services_for(task)
    asyncio.run(run_episode("e1", task, reference(files), services, tmp_path / "e1", watcher=tamper))
    (trained, attempt) = services.trained[0]
    assert len(services.probed) == 2
    assert attempt == 1
    assert "max_steps = 50" in (trained / "rl.toml").read_text()


def test_skeleton_start_does_not_pass(task: Task, services_for: Services, tmp_path: Path) -> None:
    """Fault: the skeleton is a valid job, so that submitting it untouched pays."""
    agent = ScriptedAgent("hasty", [call("", "list_files"), call("", "submit_job")])
    turns: list[Turn] = []
    record = asyncio.run(
        run_episode(
            "e1", task, agent, services_for(task), tmp_path / "e1", start=Start.SKELETON, watcher=turns.append
        )
    )
    assert record.status is Status.INVALID
    assert "rl.toml" in turns[0].observation.text
    assert "environment/" in turns[0].observation.text
