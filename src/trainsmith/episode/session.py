"""One episode in progress: one action at a time, journaled, from the briefing to the finished record.

For whoever holds the agent: `driver` asks an agent for actions, a server is handed them by its client; both
call `step` until the episode is over and then `finish`. The rules are in `machine`, their execution in
`execution`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from trainsmith.config.reward import RewardConfig
from trainsmith.episode import closing
from trainsmith.episode.briefing import briefing
from trainsmith.episode.calls import Action, Stop
from trainsmith.episode.execution import Execution
from trainsmith.episode.machine import EpisodeState, observe
from trainsmith.episode.names import WorkspaceError
from trainsmith.episode.outcomes import Probed, Refused
from trainsmith.episode.services import EpisodeServices
from trainsmith.episode.speech import over
from trainsmith.episode.start import furnish
from trainsmith.episode.trace import Trace, Turn
from trainsmith.errors import AgentError, MachineError, UserError
from trainsmith.records import Briefing, EpisodeRecord, FileEntry, Observation, ProbeReport, Start, Task

WORKSPACE = "workspace"
VALIDATIONS = "validations"
Watcher = Callable[[Turn], None]


def unwatched(_: Turn) -> None:
    """Show nothing."""


class Session:
    """An episode and its folder. Use it as a context manager, or `close` it."""

    def __init__(
        self,
        episode: str,
        task: Task,
        agent: str,
        services: EpisodeServices,
        folder: Path,
        *,
        start: Start = Start.EMPTY,
        reward_config: RewardConfig | None = None,
        watcher: Watcher = unwatched,
    ) -> None:
        """Make the episode's `folder` with its workspace. `agent` is a name for the record.

        Raises UserError if `folder` exists, MachineError if it cannot be made.
        """
        if folder.exists():
            raise UserError(
                "the episode's folder exists", where=str(folder), fix="give the episode another id"
            )
        self._episode, self._task, self._agent, self._start = episode, task, agent, start
        self._services, self._reward_config, self._watcher = services, reward_config, watcher
        self._workspace = furnish(folder / WORKSPACE, task, start)
        self._execution = Execution(self._workspace, services, folder / VALIDATIONS)
        self._trace = Trace(folder)
        self._turns: tuple[Turn, ...] = ()
        self._fault: MachineError | None = None
        self._lock = asyncio.Lock()
        self._began = time.monotonic()
        self.state = EpisodeState(limits=task.limits)
        self.briefing: Briefing = briefing(episode, task, start, self._workspace.files())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the workspace; its files stay."""
        self._workspace.close()

    @property
    def over(self) -> bool:
        """True when `step` does nothing more."""
        return self.state.over or self._fault is not None

    def look(self) -> Observation:
        """Where the episode stands, without an action: what an agent sees first, and after the end."""
        if self._fault:
            text = "The episode is void: the infrastructure failed, which is not the agent's fault."
            return Observation(text=text, ok=False, done=True, turns_left=0, validations_left=0)
        if self.over:
            return observe(self.state, Refused(error=over(self.state.end)))[1]
        left = {"turns_left": self.state.turns_left, "validations_left": self.state.validations_left}
        return Observation(text="", ok=True, done=False, **left)

    def spoil(self, error: MachineError) -> None:
        """The infrastructure failed: the episode is void. The first fault is kept."""
        self._fault = self._fault or error

    async def step(self, action: Action, thinking: float = 0.0) -> Observation:
        """Carry out one action and tell what came of it; `thinking` is the agent's wall time in seconds.

        Never raises for what an agent does; a MachineError makes the episode void. Concurrent calls wait.
        """
        async with self._lock:
            if self.over:
                return self.look()
            try:
                return await self._act(action, thinking)
            except MachineError as error:
                self.spoil(error)
                return self.look()

    async def finish(self) -> EpisodeRecord:
        """Run the submitted job and sum up. An episode that is still open ends without a submission."""
        if not self.over:
            await self.step(Action(call=Stop(reason="the session was closed")))
        ending = await self._ending()
        submitted = self.state.submitted
        return EpisodeRecord(
            id=self._episode,
            task=self._task.id,
            agent=self._agent,
            start=self._start,
            status=ending.status,
            reason=ending.reason,
            turns=self.state.turns,
            validations=self.state.validations,
            validation_attempt=self.state.first_pass,
            probes=self._reports(),
            job=f"{VALIDATIONS}/{submitted.attempt}" if submitted else "",
            result=ending.result,
            reward=ending.reward,
            files=self._files(),
            seconds=time.monotonic() - self._began,
        )

    async def _act(self, action: Action, thinking: float) -> Observation:
        began = time.monotonic()
        outcome = await self._execution.carry_out(self.state, action.call)
        state, observation = observe(self.state, outcome)
        turn = Turn(
            number=len(self._turns) + 1,
            note=action.note,
            call=action.call,
            outcome=outcome,
            observation=observation,
            thinking=thinking,
            seconds=time.monotonic() - began,
        )
        self._trace.append(turn)
        self.state, self._turns = state, (*self._turns, turn)
        self._watcher(turn)
        return observation

    async def _ending(self) -> closing.Ending:
        submitted, first_pass = self.state.submitted, self.state.first_pass
        if self._fault:
            return closing.spoilt(self._fault)
        if submitted is None or first_pass is None:
            return closing.invalid(self.state)
        try:
            job = self._execution.job(submitted.attempt)
            return closing.ran(await self._services.run_job(job, first_pass))
        except MachineError as error:
            return closing.spoilt(error)
        except AgentError as error:
            return closing.failed(error, self.state, self._task, self._reward_config)

    def _reports(self) -> tuple[ProbeReport, ...]:
        return tuple(turn.outcome.report for turn in self._turns if isinstance(turn.outcome, Probed))

    def _files(self) -> tuple[FileEntry, ...]:
        """The workspace at the end; nothing if somebody left a link or the like in it."""
        with suppress(WorkspaceError, MachineError):
            return self._workspace.files()
        return ()
