"""Open an author's environment in a jail and play its rollouts.

Everything here runs in the caller's event loop, and the jail dies with the thread that opened it. Leaving the
`async with` (also by an exception or a cancellation) ends every process of the jail.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

from trainsmith.errors import AgentError, MachineError
from trainsmith.jail import snapshot
from trainsmith.jail.base import Jail
from trainsmith.jail.border.crew import Crew
from trainsmith.jail.border.failure import EnvironmentFailed, Reason
from trainsmith.jail.border.nursery import Order
from trainsmith.jail.border.records import (
    EnvironmentInfo,
    EnvironmentRollout,
    Generate,
    GenerateCall,
    GenerateReply,
    TaskView,
    TimeLimits,
)
from trainsmith.jail.border.worker import messages as wire
from trainsmith.jail.limits import JailLimits
from trainsmith.jobs.limits import MAX_TURNS
from trainsmith.records import Message

MAX_TASKS = 100_000


class Environment:
    """An open environment."""

    def __init__(self, crew: Crew, info: EnvironmentInfo, times: TimeLimits) -> None:
        self._crew = crew
        self._times = times
        self.info = info

    async def tasks(self, start: int, stop: int) -> tuple[TaskView, ...]:
        """Tasks [start, stop), cut to those that exist. Raises EnvironmentFailed."""
        start, stop = max(0, start), min(stop, self.info.tasks)
        rows = await self._crew.nursery.rows(start, stop)
        return tuple(_view(start + place, row) for place, row in enumerate(rows))

    async def rollout(
        self, index: int, generate: Generate, *, sample: int = 0, seconds: float | None = None
    ) -> EnvironmentRollout:
        """Play task `index` once; call it many times at once.

        `sample` tells rollouts of one task apart; `seconds` bounds the environment's own time. A rollout that
        fails is a result; what `generate` raises is raised here, and so are EnvironmentFailed and
        MachineError when nothing can run.
        """
        if not 0 <= index < self.info.tasks:
            raise IndexError(f"task {index} of {self.info.tasks}")
        limit = self._times.rollout_seconds if seconds is None else seconds
        return await self._crew.rollout(index, sample, generate, limit)

    async def score(
        self, index: int, reply: str, *, sample: int = 0, seconds: float | None = None
    ) -> EnvironmentRollout:
        """The same with a canned reply to every call: no model."""

        async def say(call: GenerateCall) -> GenerateReply:
            prompt = sum(len(message.content) for message in call.messages)
            return GenerateReply(
                text=reply, finish="stop", prompt_tokens=prompt, completion_tokens=len(reply)
            )

        return await self.rollout(index, say, sample=sample, seconds=seconds)

    @property
    def output_tail(self) -> str:
        """The end of what the author's code printed, 16 KB at most."""
        return self._crew.nursery.output_tail

    @property
    def printed_bytes(self) -> int:
        """How much the author's code printed."""
        return self._crew.nursery.printed

    def kill(self) -> None:
        """End every process of the jail. May be called from any thread; rollouts in flight fail."""
        self._crew.kill()


@contextlib.asynccontextmanager
async def open_environment(
    package_dir: Path,
    package: str,
    taskset_args: str = "{}",
    *,
    jail: Jail,
    limits: JailLimits | None = None,
    times: TimeLimits | None = None,
    workers: int = 1,
    fast: bool = True,
    max_tasks: int = MAX_TASKS,
    max_turns: int = MAX_TURNS,
    hash_seed: int = 0,
) -> AsyncIterator[Environment]:
    """Import and load a package in a jail.

    `package_dir` is the folder that holds the package (a job's `environment/`), `taskset_args` a JSON object
    for the taskset's config, `fast=False` sends plain single-turn tasks down the general path too,
    `hash_seed` is Python's inside: with another one, sets of strings come in another order.

    Raises EnvironmentFailed for the author's mistakes and MachineError when the jail does not run.
    """
    times = times or TimeLimits()
    _check(package_dir, package, taskset_args)
    order = Order(
        files=_files(package_dir),
        package=package,
        arguments=taskset_args,
        limits=limits or JailLimits(),
        times=times,
        fast=fast,
        max_tasks=max_tasks,
        max_turns=max_turns,
        hash_seed=hash_seed,
    )
    crew = Crew(jail, order, workers)
    try:
        yield Environment(crew, _info(await crew.open()), times)
    finally:
        crew.kill()
        await asyncio.shield(crew.close())


def _files(package_dir: Path) -> snapshot.Snapshot:
    try:
        return snapshot.read(package_dir)
    except AgentError as error:
        raise EnvironmentFailed(Reason.TOO_LARGE, error.what, where=error.where, fix=error.fix) from None
    except OSError as error:
        raise MachineError(f"the package cannot be read: {error}", where=str(package_dir)) from error


def _check(package_dir: Path, package: str, taskset_args: str) -> None:
    if not package.isidentifier() or not (package_dir / package / "__init__.py").is_file():
        raise EnvironmentFailed(
            Reason.BAD_PACKAGE,
            f"there is no package {package!r}",
            where=f"{package_dir.name}/{package}/__init__.py",
            fix="write the package's __init__.py",
        )
    try:
        arguments = json.loads(taskset_args)
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict) or len(taskset_args) > wire.MAX_TEXT:
        what = f"the taskset's arguments are no JSON object of at most {wire.MAX_TEXT} characters"
        raise EnvironmentFailed(Reason.BAD_ARGUMENTS, what)


def _info(ready: wire.Ready) -> EnvironmentInfo:
    return EnvironmentInfo(
        tasks=ready.tasks,
        taskset=ready.taskset,
        env=ready.env,
        single_turn=ready.single_turn,
        fast=ready.fast,
        rewards=ready.rewards,
        weights=ready.weights,
        metrics=ready.metrics,
        agents=ready.agents,
        truncated=ready.truncated,
        notes=ready.notes,
    )


def _view(index: int, row: wire.Row) -> TaskView:
    messages = None
    if row.messages is not None:
        messages = tuple(
            Message.model_validate({"role": item.role, "content": item.content}) for item in row.messages
        )
    return TaskView(index=index, key=row.key, messages=messages, fields=row.fields)
