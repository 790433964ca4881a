"""Workers and the rollouts that they play: gives out work, notices trouble, and mends it.

A worker that dies takes nobody along: `blame` decides who fails, and the others are played again with the
same replies. When the whole jail dies it is built anew, a few times; after that every rollout gets the
reason.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections import deque
from collections.abc import Coroutine

from trainsmith.errors import MachineError, TrainsmithError
from trainsmith.jail.base import Jail
from trainsmith.jail.border.blame import Verdict, judge
from trainsmith.jail.border.failure import EnvironmentFailed, Reason
from trainsmith.jail.border.nursery import Nursery, Order
from trainsmith.jail.border.records import EnvironmentRollout, Generate
from trainsmith.jail.border.run import Run
from trainsmith.jail.border.slot import Slot
from trainsmith.jail.border.worker import messages as wire
from trainsmith.jail.border.worker.frames import BadFrame
from trainsmith.jail.watch import PERIOD_SECONDS, Excess, excess, sentence

_TICK_SECONDS = 0.1
_LAG_SECONDS = 0.3
"""A tick that comes this late means that this side was busy, not the worker."""
_EXIT_SECONDS = 0.2
"""How long the zygote's word about a worker's end may lag behind the end of its stream."""
_MAX_RESTARTS, _ROLLOUTS_A_RESTART = 12, 500
"""It takes three to find one guilty rollout."""
_CAREFUL_RESTARTS = 2
_MAX_GUILTY, _MAX_GUILTY_SHARE = 50, 0.05
_MAX_STILLBORN = 3
_STILLBORN_SECONDS = 0.3
_KILL_SECONDS = 5.0
"""How long the zygote may take to end a worker before the whole jail goes."""
_WORKER_ROLLOUTS = 256
_JAIL_ENDED = "the whole jail had to be ended"
_REASONS = {
    Excess.MEMORY: Reason.MEMORY,
    Excess.PROCESSES: Reason.FORKED,
    Excess.DISK: Reason.TOO_LARGE,
    Excess.WALL: Reason.HUNG,
}


class Crew:
    """All workers of one environment."""

    def __init__(self, jail: Jail, order: Order, workers: int) -> None:
        self._jail = jail
        self._order = order
        self._workers = workers
        self._numbers = itertools.count()
        self._slots: dict[int, Slot] = {}
        self._queue: deque[Run] = deque()
        self._solo: deque[Run] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._restarts = self._guilty = self._stillborn = self._finished = 0
        self._no_room = 0.0
        """Since when there is no room for another process; 0 while there is."""
        self._failure: TrainsmithError | None = None
        self._opened = False
        self._closing = False
        self._restarting = False
        self._born = time.monotonic()
        self.nursery = self._new_nursery()

    # ---- life

    async def open(self) -> wire.Ready:
        """Build the jail and load the package. Raises EnvironmentFailed or MachineError."""
        ready = await self.nursery.open()
        self._opened = True
        self._spawn(self._tick())
        for _ in range(self._workers):
            self._hire()
        return ready

    def kill(self) -> None:
        """End everything inside. Thread-safe; returns at once."""
        self._closing = True
        self.nursery.kill()

    async def close(self) -> None:
        """End everything, and wait until it is dead."""
        self.kill()
        for task in list(self._tasks):
            task.cancel()
        self._fail_all(_closed())
        self._drop_slots()
        await self.nursery.close()

    async def rollout(
        self, index: int, sample: int, generate: Generate, seconds: float
    ) -> EnvironmentRollout:
        """Play one rollout. Raises what `generate` raises, EnvironmentFailed or MachineError."""
        if self._failure is not None:
            raise self._failure
        if self._closing:
            raise _closed()
        future: asyncio.Future[EnvironmentRollout] = asyncio.get_running_loop().create_future()
        run = Run(next(self._numbers), index, sample, generate, seconds, future)
        self._queue.append(run)
        self._give_out()
        try:
            result = await future
            self._finished += 1
            return result
        except BaseException:
            self._abandon(run)
            raise

    def _abandon(self, run: Run) -> None:
        """Nobody waits for a run any more: end what is left of it."""
        run.fail(asyncio.CancelledError())
        for queue in (self._queue, self._solo):
            if run in queue:
                queue.remove(run)
        for slot in self._slots.values():
            if run.number in slot.runs and run.cancelled_at is None:
                slot.cancel(run)

    # ---- work

    def _give_out(self) -> None:
        if self._closing or self._restarting:
            return
        if self._restarts >= _CAREFUL_RESTARTS and (self._solo or self._suspect_plays()):
            self._play_one_alone()
            return
        ready = [slot for slot in self._slots.values() if slot.up and not slot.killed]
        solo = sum(1 for slot in self._slots.values() if slot.solo)
        for _ in range(min(len(self._solo), self._workers - solo)):
            self._hire(solo=True)
        for slot in ready:
            if slot.solo and not slot.runs and self._solo:
                slot.play(self._solo.popleft())
        normal = [slot for slot in ready if not slot.solo]
        while self._queue and normal:
            slot = min(normal, key=lambda item: len(item.runs))
            if len(slot.runs) >= _WORKER_ROLLOUTS:
                break
            slot.play(self._queue.popleft())

    def _suspect_plays(self) -> bool:
        return any(slot.solo and slot.runs for slot in self._slots.values())

    def _play_one_alone(self) -> None:
        """The jail died more than once: a suspect plays with nobody beside it, so the next death tells."""
        if not self._solo or any(slot.runs for slot in self._slots.values()):
            return
        solo = [slot for slot in self._slots.values() if slot.solo]
        ready = [slot for slot in solo if slot.up and not slot.killed]
        if ready:
            ready[0].play(self._solo.popleft())
        elif not solo:
            self._hire(solo=True)

    def _hire(self, solo: bool = False) -> None:
        slot = Slot(next(self._numbers), solo, self._give_out, self._ended)
        self._slots[slot.number] = slot
        self._spawn(self._fork(slot))

    async def _fork(self, slot: Slot) -> None:
        if not await self.nursery.fork(slot.number, slot.theirs) and slot.number in self._slots:
            self._no_room = self._no_room or time.monotonic()
            self._lose(slot, "no room for another process")
        slot.theirs.close()

    # ---- trouble

    def _ended(self, slot: Slot, error: Exception | None) -> None:
        """A worker's stream ended: kill it if it broke the protocol, and wait for the zygote's word."""
        if error is not None and not isinstance(error, BadFrame):
            self._give_up(MachineError(f"the border failed: {error!r}"))
            return
        slot.killed = slot.killed or str(error or "")
        self.nursery.kill_worker(slot.number)
        asyncio.get_running_loop().call_later(_EXIT_SECONDS, self._lose, slot, "")

    def _exited(self, number: int, status: int) -> None:
        slot = self._slots.get(number)
        if slot is None:
            return
        if not slot.up and os.waitstatus_to_exitcode(status) == wire.NO_ROOM:
            self._no_room = self._no_room or time.monotonic()
        self._lose(slot, _ending(status))

    def _end(self, slot: Slot, why: str) -> None:
        """Kill a worker; if that does not work, the jail."""
        if not slot.killed:
            slot.killed = why
            self.nursery.kill_worker(slot.number)
            asyncio.get_running_loop().call_later(_KILL_SECONDS, self._still_there, slot)

    def _still_there(self, slot: Slot) -> None:
        if slot.number in self._slots and not self._closing:
            for other in self._slots.values():
                other.killed = other.killed or _JAIL_ENDED
            self._gone()

    def _lose(self, slot: Slot, why: str) -> None:
        """A worker is dead: judge its rollouts and hire another."""
        if self._slots.pop(slot.number, None) is None or self._closing:
            return
        slot.close()
        reason, text = _reason(slot, why)
        self._judge(slot, reason, text, alone=len(slot.runs) == 1)
        if slot.up:
            self._stillborn, self._no_room = 0, 0.0
        elif not self._no_room:
            self._stillborn += 1
        crowded = bool(self._no_room) and time.monotonic() - self._no_room > self._order.times.open_seconds
        if self._guilty > max(_MAX_GUILTY, _MAX_GUILTY_SHARE * self._finished):
            what = f"{self._guilty} rollouts of {self._finished} ended their worker, at last: {text}"
            self._give_up(EnvironmentFailed(reason, what, fix="correct what the rollouts say"))
        elif crowded or self._stillborn > _MAX_STILLBORN * self._workers:
            self._give_up(EnvironmentFailed(Reason.FORKED, f"no worker comes up any more: {why or text}"))
        elif not slot.solo:
            asyncio.get_running_loop().call_later(0.0 if slot.up else _STILLBORN_SECONDS, self._replace)
        self._give_out()

    def _replace(self) -> None:
        if not self._closing and not self._restarting and self._failure is None:
            self._hire()

    def _judge(self, slot: Slot, reason: Reason, why: str, *, alone: bool) -> None:
        for run in slot.runs.values():
            run.losses += 1
            waiting = run.waiting
            run.drop_calls()
            if run.future.done():
                continue
            suspected = slot.suspect == run.number
            verdict = judge(suspected=suspected, alone=alone, waiting=waiting, losses=run.losses)
            if verdict is Verdict.GUILTY:
                self._guilty += 1
                run.lost(reason, f"{why} ({slot.place})" if suspected and slot.place else why)
            else:
                (self._queue if verdict is Verdict.AGAIN else self._solo).appendleft(run)
        slot.runs.clear()

    def _gone(self, error: Exception | None = None) -> None:
        """The zygote, and with it every worker, is dead or useless: build the jail anew."""
        if self._closing:
            self._fail_all(_closed())
        if error is not None and not isinstance(error, BadFrame):
            self._give_up(MachineError(f"the border failed: {error!r}"))
        if not self._opened or self._closing or self._restarting or self._failure is not None:
            return
        self._restarting = True
        alone = sum(len(slot.runs) for slot in self._slots.values()) == 1
        for slot in list(self._slots.values()):
            self._slots.pop(slot.number)
            slot.close()
            if slot.suspect is not None:
                slot.killed = slot.killed or _JAIL_ENDED
            reason, why = _reason(slot, "the whole jail ended")
            self._judge(slot, reason, why, alone=alone)
        self._restarts += 1
        if self._restarts > _MAX_RESTARTS + self._finished // _ROLLOUTS_A_RESTART:
            what = f"the environment ended its jail {self._restarts} times"
            self._give_up(EnvironmentFailed(Reason.EXITED, what, output=self.nursery.output_tail))
            return
        self._spawn(self._restart())

    async def _restart(self) -> None:
        try:
            await self.nursery.close()
            self.nursery = self._new_nursery()
            await self.nursery.open()
        except TrainsmithError as error:
            self._give_up(error)
            return
        if self._closing:
            self.nursery.kill()  # asked for from another thread while the new one started
            self._fail_all(_closed())
            return
        self._restarting = False
        for _ in range(self._workers):
            self._hire()
        self._give_out()

    def _give_up(self, failure: TrainsmithError) -> None:
        """Nothing more can run."""
        self._failure = failure
        self.nursery.kill()
        self._fail_all(failure)

    def _fail_all(self, failure: TrainsmithError) -> None:
        for run in [
            *self._queue,
            *self._solo,
            *(run for slot in self._slots.values() for run in slot.runs.values()),
        ]:
            run.fail(failure)
        self._queue.clear()
        self._solo.clear()

    def _drop_slots(self) -> None:
        for slot in self._slots.values():
            slot.close()
        self._slots.clear()

    # ---- clock

    async def _tick(self) -> None:
        last = watched = time.monotonic()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            now = time.monotonic()
            if now - last - _TICK_SECONDS > _LAG_SECONDS:
                self._forgive(now - last - _TICK_SECONDS)
            last = now
            for slot in list(self._slots.values()):
                self._look_at(slot, now)
            if now - watched > PERIOD_SECONDS and not self._restarting:
                watched = now
                self._watch()

    def _forgive(self, seconds: float) -> None:
        for slot in self._slots.values():
            slot.seen += seconds
            for run in slot.runs.values():
                run.forgive(seconds)

    def _look_at(self, slot: Slot, now: float) -> None:
        times = self._order.times
        patience = times.block_seconds if slot.up else times.open_seconds
        if now - slot.seen > patience:
            self._end(slot, f"silent for {now - slot.seen:.1f} s" if slot.up else "it did not come up")
            return
        for run in list(slot.runs.values()):
            if run.cancelled_at is not None:
                if now - run.cancelled_at > times.block_seconds:
                    slot.suspect, slot.place = run.number, "it does not heed its cancellation"
                    self._end(slot, "a rollout ran out of time")
            elif run.environment_seconds > run.seconds:
                slot.cancel(run)

    def _watch(self) -> None:
        """What the kernel's limits do not cover."""
        limits = self._order.limits
        passed = excess(self.nursery.process, limits, time.monotonic() - self._born)
        if passed is not None:
            what = f"the environment is stopped: {sentence(passed, limits)}"
            self._give_up(EnvironmentFailed(_REASONS[passed], what, fix="let it use less"))

    # ---- small

    def _new_nursery(self) -> Nursery:
        return Nursery(self._jail, self._order, self._exited, self._gone)

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._spawned)

    def _spawned(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._failure is None:
            known = (
                error if isinstance(error, TrainsmithError) else MachineError(f"the border failed: {error!r}")
            )
            self._give_up(known)


def _ending(status: int) -> str:
    """A wait status in words."""
    code = os.waitstatus_to_exitcode(status)
    return f"exit status {code}" if code >= 0 else f"signal {-code}"


def _closed() -> MachineError:
    return MachineError("the environment is closed")


def _reason(slot: Slot, why: str) -> tuple[Reason, str]:
    if slot.broke_protocol:
        return Reason.PROTOCOL, f"the worker broke the protocol: {slot.killed}"
    if slot.killed:
        return Reason.HUNG, f"the rollout holds its worker: {slot.killed}"
    return Reason.EXITED, f"the rollout ends its worker{': ' + why if why else ''}"
