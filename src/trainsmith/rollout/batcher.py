"""Gathers the generation requests of many rollouts into few calls of the sampler.

A batch leaves when every rollout in flight waits for tokens, or when no request has come for `patience`
seconds. Requests are sorted by their key first, so a batch does not depend on the order of arrival.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from trainsmith.engine.records import Completion, SampleRequest

Sampler = Callable[[Sequence[SampleRequest]], Awaitable[list[Completion]]]
SortKey = tuple[int, int, int, int]
"""(task index, sample, how-maniest trace of the rollout, turn)"""


@dataclass(frozen=True, slots=True)
class _Pending:
    key: SortKey
    request: SampleRequest
    reply: asyncio.Future[Completion]


class Batcher:
    """Serves one set of rollouts that run at the same time."""

    def __init__(self, sample: Sampler, *, patience: float = 0.25) -> None:
        self._sample = sample
        self._patience = patience
        self._pending: list[_Pending] = []
        self._running = 0
        self._timer: asyncio.TimerHandle | None = None
        self._batches: set[asyncio.Task[None]] = set()

    def enter(self, rollouts: int) -> None:
        """Count `rollouts` that start now."""
        self._running += rollouts

    def leave(self) -> None:
        """Count one rollout that has ended; the others may now all be waiting."""
        self._running -= 1
        self._maybe_send()

    async def generate(self, key: SortKey, request: SampleRequest) -> Completion:
        """The completion of one request, sampled together with its contemporaries."""
        reply: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._pending.append(_Pending(key, request, reply))
        self._maybe_send()
        return await reply

    async def close(self) -> None:
        """Wait for the batch in flight and refuse what is still pending."""
        self._stop_timer()
        for pending in self._pending:
            pending.reply.cancel()
        self._pending.clear()
        await asyncio.gather(*self._batches, return_exceptions=True)

    def _maybe_send(self) -> None:
        self._stop_timer()
        if not self._pending:
            return
        if len(self._pending) >= self._running:
            self._send()
        else:
            self._timer = asyncio.get_running_loop().call_later(self._patience, self._send)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self) -> None:
        batch, self._pending = sorted(self._pending, key=lambda pending: pending.key), []
        task = asyncio.get_running_loop().create_task(self._run(batch))
        self._batches.add(task)
        task.add_done_callback(self._batches.discard)

    async def _run(self, batch: list[_Pending]) -> None:
        try:
            completions = await self._sample([pending.request for pending in batch])
        except Exception as error:  # noqa: BLE001 - handed to every rollout that waits for this batch
            for pending in batch:
                if not pending.reply.done():
                    pending.reply.set_exception(error)
            return
        for pending, completion in zip(batch, completions, strict=True):
            if not pending.reply.done():
                pending.reply.set_result(completion)
