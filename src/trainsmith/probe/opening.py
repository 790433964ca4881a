"""Opens the job's environment in two fresh jails at once and reads the first tasks of each.

Strings hash differently in the two, so that whatever depends on the order of a set shows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from trainsmith.config.probe import ProbeConfig
from trainsmith.jail.border import Environment, EnvironmentFailed, TaskView, TimeLimits, open_environment
from trainsmith.jobs.limits import MAX_TURNS
from trainsmith.probe.observations import Opening, fault_of
from trainsmith.probe.package import Package
from trainsmith.probe.services import ProbeServices

PAGE = 64
"""Tasks read at once."""


@dataclass(frozen=True, slots=True)
class Opened:
    """One environment, None if it could not be opened, and what was seen of it."""

    environment: Environment | None
    opening: Opening


class Holder:
    """Opens one environment and holds it in a task of its own until that is cancelled."""

    def __init__(self, package: Package, services: ProbeServices, hash_seed: int) -> None:
        self._package = package
        self._services = services
        self._hash_seed = hash_seed
        self._opened: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold())

    async def opened(self) -> Opened:
        """Wait until the environment is open or has failed. Raises MachineError when no jail can start."""
        return await asyncio.shield(self._opened)

    async def close(self) -> None:
        """End the jail."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._opened.cancel()
        await asyncio.gather(self._opened, return_exceptions=True)  # its error, if any, was for `opened`

    async def _hold(self) -> None:
        began = time.monotonic()
        package = self._package
        limits = self._services.limits
        try:
            async with open_environment(
                package.folder,
                package.name,
                package.arguments,
                jail=self._services.jail,
                hash_seed=self._hash_seed,
                times=time_limits(limits),
                max_turns=package.max_turns or MAX_TURNS,
            ) as environment:
                tasks = await _read(environment, limits)
                printed = environment.printed_bytes
                opening = Opening(environment.info, tasks, printed=printed, seconds=time.monotonic() - began)
                self._opened.set_result(Opened(environment, opening))
                await asyncio.Event().wait()
        except EnvironmentFailed as error:
            failed = Opening(None, (), fault_of(error), seconds=time.monotonic() - began)
            self._settle(Opened(None, failed))
        except Exception as error:  # noqa: BLE001 - raised again by whoever waits for the opening
            if not self._opened.done():
                self._opened.set_exception(error)

    def _settle(self, opened: Opened) -> None:
        if not self._opened.done():
            self._opened.set_result(opened)


async def _read(environment: Environment, limits: ProbeConfig) -> tuple[TaskView, ...]:
    """The first tasks, as many as are to be examined."""
    tasks: list[TaskView] = []
    characters = 0
    wanted = min(environment.info.tasks, limits.examined_tasks)
    while len(tasks) < wanted and characters < limits.examined_characters:
        page = await environment.tasks(len(tasks), min(wanted, len(tasks) + PAGE))
        characters += sum(len(t.fields) + sum(len(m.content) for m in t.messages or ()) for t in page)
        tasks += page
    return tuple(tasks)


def time_limits(limits: ProbeConfig) -> TimeLimits:
    """The border's limits; canned replies have a shorter one of their own."""
    return TimeLimits(
        open_seconds=limits.open_seconds,
        rollout_seconds=limits.signal_reply_seconds,
        hook_seconds=limits.signal_reply_seconds,
        block_seconds=limits.reply_seconds,
    )


@asynccontextmanager
async def open_twice(package: Package, services: ProbeServices) -> AsyncIterator[tuple[Holder, Holder]]:
    """Two holders that open the environment at the same time; both jails are ended on leaving."""
    holders = Holder(package, services, 1), Holder(package, services, 2)
    try:
        yield holders
    finally:
        for holder in holders:
            await holder.close()
