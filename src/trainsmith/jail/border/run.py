"""One rollout in progress on the trusted side: its calls, its clock, its result."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from trainsmith.jail.border.failure import Reason
from trainsmith.jail.border.journal import Journal
from trainsmith.jail.border.records import (
    EnvironmentRollout,
    Generate,
    GenerateCall,
    GenerateRefused,
    GenerateReply,
    Metric,
    RewardValue,
    TraceResult,
)
from trainsmith.jail.border.worker import messages as wire
from trainsmith.jail.border.worker.frames import BadFrame
from trainsmith.records import Message, Role

Answer = Callable[[bytes], None]
"""Sends a frame back to the worker that asked."""
MAX_OPEN_CALLS = 8
MAX_CALLS = 512


@dataclass(slots=True)
class Run:
    """One rollout from its order to its result, over all its attempts."""

    number: int
    index: int
    sample: int
    generate: Generate
    seconds: float
    """Limit of the environment's own time."""
    future: asyncio.Future[EnvironmentRollout]
    losses: int = 0
    replayed: int = 0
    cancelled_at: float | None = None
    journal: Journal = field(default_factory=Journal)
    _calls: int = 0
    _open: set[asyncio.Task[None]] = field(default_factory=set)
    _used: float = 0.0
    _running_since: float | None = None

    # ---- clock

    def start(self) -> None:
        """Begin an attempt."""
        self.journal.restart()
        self.cancelled_at = None
        self._calls, self._used, self._running_since = 0, 0.0, time.monotonic()

    @property
    def waiting(self) -> bool:
        """Whether it waits for tokens, so that none of its code runs."""
        return bool(self._open)

    @property
    def environment_seconds(self) -> float:
        """Seconds of this attempt in which its own code could run."""
        running = 0.0 if self._running_since is None else time.monotonic() - self._running_since
        return self._used + running

    def forgive(self, seconds: float) -> None:
        """Leave out time in which this side did not listen."""
        if self._running_since is not None:
            self._running_since += seconds
        if self.cancelled_at is not None:
            self.cancelled_at += seconds

    # ---- calls

    def call(self, order: wire.Generate, answer: Answer) -> None:
        """Serve a call. Raises BadFrame when the worker keeps too many open."""
        if len(self._open) >= MAX_OPEN_CALLS:
            raise BadFrame(f"more than {MAX_OPEN_CALLS} calls open in one rollout")
        self._calls += 1
        if self._calls > MAX_CALLS:
            answer(wire.pack(wire.Refuse(order.call, f"more than {MAX_CALLS} model calls in one rollout")))
            return
        if not self._open:
            self._used, self._running_since = self.environment_seconds, None
        task = asyncio.get_running_loop().create_task(self._serve(order, answer))
        self._open.add(task)
        task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        if task not in self._open:
            return  # dropped
        self._open.discard(task)
        if not self._open and self._running_since is None:
            self._running_since = time.monotonic()
        if self.future.done():
            return
        if task.cancelled():
            self.future.cancel()  # whoever samples was cancelled
        elif (error := task.exception()) is not None:
            self.future.set_exception(error)

    async def _serve(self, order: wire.Generate, answer: Answer) -> None:
        place = self.journal.place(order.trace, order.agent, order.messages)
        self.replayed += not place.new
        call = GenerateCall(
            index=self.index,
            sample=self.sample,
            call=place.call,
            trace=str(order.trace),
            agent=order.agent,
            messages=tuple(
                Message.model_construct(role=cast(Role, item.role), content=item.content)
                for item in order.messages
            ),
            max_tokens=order.max_tokens,
            previous=place.previous,
            known=place.known,
        )
        try:
            reply = await self.journal.reply(place.call, lambda: asyncio.ensure_future(self._sample(call)))
        except GenerateRefused as refused:
            answer(wire.pack(wire.Refuse(order.call, str(refused)[: wire.MAX_ERROR])))
            return
        self.journal.commit(order.trace, place, reply.text)
        answer(
            wire.pack(
                wire.Reply(order.call, reply.text, reply.finish, reply.prompt_tokens, reply.completion_tokens)
            )
        )

    async def _sample(self, call: GenerateCall) -> GenerateReply:
        return await self.generate(call)

    def drop_calls(self) -> None:
        """The worker is gone: nobody waits for the answers; the samples go on."""
        dropped, self._open = self._open, set()
        for task in dropped:
            task.cancel()
        self._running_since = None

    # ---- result

    def done(self, end: wire.Done) -> None:
        """The worker's word about the finished rollout."""
        self._settle(
            EnvironmentRollout(
                index=self.index,
                sample=self.sample,
                ok=end.ok,
                timed_out=end.timed_out,
                errors=end.errors,
                traces=tuple(self._trace(trace) for trace in end.traces),
                environment_seconds=self.environment_seconds,
                replayed=self.replayed,
            )
        )

    def lost(self, reason: Reason, why: str) -> None:
        """The rollout ended its worker."""
        self._settle(
            EnvironmentRollout(
                index=self.index,
                sample=self.sample,
                ok=False,
                timed_out=reason is Reason.HUNG,
                errors=(why,),
                traces=(),
                failure=reason,
                environment_seconds=self.environment_seconds,
                replayed=self.replayed,
            )
        )

    def fail(self, error: BaseException) -> None:
        """No result at all."""
        if not self.future.done():
            self.future.set_exception(error)
        self._stop()

    def _settle(self, result: EnvironmentRollout) -> None:
        if not self.future.done():
            self.future.set_result(result)
        self._stop()

    def _stop(self) -> None:
        self.drop_calls()
        self.journal.close()

    def _trace(self, end: wire.TraceEnd) -> TraceResult:
        calls = self.journal.calls(end.number)
        errors = [*end.errors, *_objections(end)]
        if end.turns > len(calls):
            errors.append(f"the worker counts {end.turns} turns where {len(calls)} replies were given")
        reward = None if errors or not end.ok or not end.rewards else _weighted_sum(end.rewards)
        return TraceResult(
            id=str(end.number),
            agent=end.agent,
            trainable=end.trainable,
            ok=end.ok,
            reward=reward,
            rewards=tuple(
                RewardValue(name=item.name, value=item.value, weight=item.weight) for item in end.rewards
            ),
            metrics=tuple(Metric(name=item.name, value=item.value) for item in end.metrics),
            turns=end.turns,
            timed_out=end.timed_out,
            stop=end.stop,
            calls=calls,
            errors=tuple(errors),
        )


def _objections(end: wire.TraceEnd) -> list[str]:
    """What is wrong with the rewards of a run that claims to be ok."""
    wrong = []
    for item in end.rewards:
        if item.value is None:
            wrong.append(f"reward {item.name!r} was not scored")
        elif not math.isfinite(item.value) or not math.isfinite(item.weight):
            wrong.append(f"reward {item.name!r} is not finite: {item.value} with weight {item.weight}")
    if not wrong and end.rewards and not math.isfinite(_weighted_sum(end.rewards)):
        wrong.append("the sum of the rewards is not finite")
    return wrong


def _weighted_sum(rewards: tuple[wire.Signal, ...]) -> float:
    return sum((item.value or 0.0) * item.weight for item in rewards)
