"""Carries out what the machine decides: files in the workspace, probes and scores through the services."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from trainsmith.episode.calls import BaselineScores, Call, EditFile, ListFiles, ReadFile, WriteFile
from trainsmith.episode.frozen import FrozenJob
from trainsmith.episode.machine import AcceptJob, Command, EpisodeState, RunProbe, decide, needs_job
from trainsmith.episode.names import WorkspaceError
from trainsmith.episode.outcomes import (
    Accepted,
    Edited,
    Listed,
    Outcome,
    Probed,
    Refused,
    Scored,
    Stopped,
    WasRead,
    Written,
)
from trainsmith.episode.services import EpisodeServices
from trainsmith.episode.workspace import Workspace
from trainsmith.errors import AgentError
from trainsmith.records import Check, ProbeReport, Verdict

_NO_JOB = FrozenJob(files=())


class Execution:
    """The hands of one episode."""

    def __init__(self, workspace: Workspace, services: EpisodeServices, validations: Path) -> None:
        """`validations` is the folder that keeps each probed job, under the number of its probe."""
        self._workspace, self._services, self._validations = workspace, services, validations

    async def carry_out(self, state: EpisodeState, call: Call) -> Outcome:
        """What came of `call`. Raises MachineError; whatever the agent did wrong is a `Refused`."""
        try:
            frozen = self._workspace.freeze() if needs_job(call) else _NO_JOB
            command = decide(state, call, frozen.fingerprint)
            if isinstance(command, RunProbe):
                return await self._probe(command, frozen)
            return await self._do(command)
        except WorkspaceError as error:
            return Refused(error=f"{error.where}: {error.what}", fix=error.fix)

    def job(self, attempt: int) -> Path:
        """The folder of the job that was probed as the `attempt`-th."""
        return self._validations / str(attempt)

    async def _do(self, command: Command | Refused | Stopped) -> Outcome:
        match command:
            case Refused() | Stopped():
                return command
            case ListFiles():
                return Listed(files=self._workspace.files())
            case ReadFile():
                return WasRead(path=command.path, content=self._workspace.read(command.path))
            case WriteFile():
                return Written(file=self._workspace.write(command.path, command.content))
            case EditFile():
                entry, line = self._workspace.edit(command.path, command.old, command.new)
                return Edited(file=entry, line=line)
            case BaselineScores():
                return Scored(scores=await self._services.baseline_scores())
            case AcceptJob():
                return Accepted(job=command.job)
            case RunProbe():
                raise AssertionError("probes are run by carry_out")
            case _:
                assert_never(command)

    async def _probe(self, command: RunProbe, frozen: FrozenJob) -> Probed:
        """Probe a copy of the frozen job, which stays as it is whatever happens in the workspace."""
        folder = self.job(command.attempt)
        frozen.write(folder)
        try:
            report = await self._services.probe(folder)
        except AgentError as error:
            check = Check(name="job", verdict=Verdict.FAIL, evidence=str(error))
            report = ProbeReport(checks=(check,), seconds=0.0)
        return Probed(attempt=command.attempt, submit=command.submit, job=command.job, report=report)
