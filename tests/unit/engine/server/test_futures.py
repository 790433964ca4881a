"""The life of an answer."""

import asyncio
import json

import pytest

from trainsmith.engine.server.errors import HttpError
from trainsmith.engine.server.tinker import futures as module
from trainsmith.engine.server.tinker.futures import Futures, json_payload
from trainsmith.errors import MachineError, UserError


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def futures(clock):
    return Futures(clock)


async def answer(value=1):
    return json_payload({"value": value})


async def ask(futures, request="r", patience=5.0):
    payload = await futures.retrieve(request, patience, asyncio.Event())
    return None if payload is None else json.loads(payload.content)


async def test_an_answer_can_be_asked_for_again_and_is_then_freed(futures, clock):
    """Guards against an answer lost with its connection, and against answers that pile up."""
    futures.begin("r", "s", answer())
    assert await ask(futures) == await ask(futures) == {"value": 1}
    clock.now += module.FETCHED_SECONDS - 1
    futures.sweep()
    assert len(futures) == 1
    clock.now += 2
    futures.sweep()
    assert len(futures) == 0
    with pytest.raises(HttpError) as gone:
        await ask(futures)
    assert gone.value.status == 410


async def test_an_answer_that_nobody_fetches_is_freed_later(futures, clock):
    """Guards against memory held for clients that have died."""
    futures.begin("r", "s", answer())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    clock.now += module.FETCHED_SECONDS + 1
    futures.sweep()
    assert "r" in futures
    clock.now += module.KEPT_SECONDS
    futures.sweep()
    assert "r" not in futures


async def test_work_goes_on_while_somebody_asks(futures, clock):
    """Guards against slow work that is abandoned under a client that waits for it."""
    done = asyncio.Event()

    async def slow():
        await done.wait()
        return await answer()

    futures.begin("r", "s", slow(), abandonable=True)
    asking = asyncio.create_task(ask(futures))
    await asyncio.sleep(0)
    clock.now += 10 * module.ABANDONED_SECONDS
    futures.sweep()
    done.set()
    assert await asking == {"value": 1}


async def test_work_that_nobody_asks_for_is_abandoned(futures, clock):
    """Guards against samples for clients that have died; training is never cut short in this way."""
    never = asyncio.Event()
    cancelled = []

    async def slow(name):
        try:
            await never.wait()
        except asyncio.CancelledError:
            cancelled.append(name)
            raise
        return await answer()

    futures.begin("r", "s", slow("r"), abandonable=True)
    futures.begin("t", "s", slow("t"))
    assert await ask(futures, patience=0.01) is None
    clock.now += module.ABANDONED_SECONDS + 1
    futures.sweep()
    await asyncio.sleep(0.01)
    assert cancelled == ["r"]
    with pytest.raises(HttpError):
        await ask(futures)
    futures.cancel_all("s")
    await asyncio.sleep(0.01)
    assert cancelled == ["r", "t"] and len(futures) == 0


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (UserError("u"), "user"),
        (HttpError(404, "h"), "user"),
        (MachineError("m"), "server"),
        (OSError(), "server"),
    ],
)
async def test_failures_are_answers(futures, error, category):
    """Guards against a failure that leaves the client waiting, or blames the wrong side."""

    async def broken():
        raise error

    futures.begin("r", "s", broken())
    assert (await ask(futures))["category"] == category


async def test_a_stopping_server_answers_at_once(futures):
    """Guards against an end that waits for long polls."""
    stopping = asyncio.Event()
    futures.begin("r", "s", asyncio.sleep(60))
    asking = asyncio.create_task(futures.retrieve("r", 60, stopping))
    await asyncio.sleep(0)
    stopping.set()
    assert await asking is None
    futures.cancel_all()
