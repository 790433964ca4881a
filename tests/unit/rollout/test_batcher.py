"""Coalescing of generation requests."""

import asyncio
from collections.abc import Sequence

import pytest

from trainsmith.engine.records import Completion, SampleRequest
from trainsmith.rollout.batcher import Batcher


class Recorder:
    """A sampler that echoes each prompt and remembers its batches."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        self.batches.append([request.seed for request in requests])
        return [Completion(request.prompt, (0.0,) * len(request.prompt), "stop") for request in requests]


def request(seed: int) -> SampleRequest:
    return SampleRequest((seed,), 4, 1.0, seed)


async def one(batcher: Batcher, seed: int, delay: float = 0.0) -> Completion:
    await asyncio.sleep(delay)
    try:
        return await batcher.generate((seed, 0, 0, 0), request(seed))
    finally:
        batcher.leave()


async def test_rollouts_that_wait_together_are_one_sorted_batch() -> None:
    """Guards against many small sampler calls, and against batches that depend on arrival."""
    recorder = Recorder()
    batcher = Batcher(recorder.sample, patience=30)
    batcher.enter(3)
    replies = await asyncio.gather(one(batcher, 2, 0.02), one(batcher, 0, 0.01), one(batcher, 1))
    assert recorder.batches == [[0, 1, 2]]
    assert [reply.tokens for reply in replies] == [(2,), (0,), (1,)]


async def test_a_rollout_that_never_asks_does_not_hold_the_others() -> None:
    """Guards against a batch that waits for ever for a rollout busy with its own code."""
    recorder = Recorder()
    batcher = Batcher(recorder.sample, patience=0.05)
    batcher.enter(2)
    await asyncio.wait_for(one(batcher, 5), 2)
    assert recorder.batches == [[5]]


async def test_the_end_of_one_rollout_releases_the_batch() -> None:
    """Guards against waiting out the patience when the last busy rollout has ended."""
    recorder = Recorder()
    batcher = Batcher(recorder.sample, patience=30)
    batcher.enter(2)
    waiting = asyncio.create_task(one(batcher, 1))
    await asyncio.sleep(0.01)
    batcher.leave()
    await asyncio.wait_for(waiting, 2)


async def test_a_sampler_fault_reaches_every_waiting_rollout() -> None:
    """Guards against rollouts that hang when the sampler fails."""

    async def broken(_: Sequence[SampleRequest]) -> list[Completion]:
        raise MemoryError("no room")

    batcher = Batcher(broken)
    batcher.enter(2)
    results = await asyncio.gather(one(batcher, 1), one(batcher, 2), return_exceptions=True)
    assert [type(result) for result in results] == [MemoryError, MemoryError]


async def test_closing_refuses_what_is_pending() -> None:
    """Guards against a rollout that outlives its batcher."""
    batcher = Batcher(Recorder().sample, patience=30)
    batcher.enter(2)
    waiting = asyncio.create_task(one(batcher, 1))
    await asyncio.sleep(0.01)
    await batcher.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
