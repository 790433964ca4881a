"""Answers that take a while: begun by one request, asked for by others, then freed.

A future holds a payload until it has been fetched, and a little longer in case the answer was lost on its
way. Sampling that nobody has asked for is abandoned, since the SDK asks all the time. Free of torch.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from trainsmith.engine.server.errors import HttpError, log
from trainsmith.errors import MachineError, UserError

FETCHED_SECONDS = 30.0
"""How long an answer is kept once it was fetched."""
KEPT_SECONDS = 900.0
"""How long an answer is kept that nobody fetches."""
ABANDONED_SECONDS = 60.0
"""Work that may be abandoned is, once nobody has asked for it this long."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A finished answer."""

    content: bytes
    media_type: str = "application/json"


def json_payload(document: dict[str, object]) -> Payload:
    """An answer in JSON."""
    return Payload(json.dumps(document, allow_nan=False).encode())


def protobuf_payload(content: bytes) -> Payload:
    """An answer in protobuf."""
    return Payload(content, "application/x-protobuf")


@dataclass(slots=True)
class _Future:
    owner: str
    """The session that it ends with."""
    abandonable: bool
    asked: float
    """When it was begun or last asked for."""
    task: asyncio.Task[Payload]
    asking: int = 0
    """Requests that wait for it now."""
    fetched: bool = False
    ended: float | None = None


class Futures:
    """All futures of the server, by request id."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._futures: dict[str, _Future] = {}

    def __len__(self) -> int:
        return len(self._futures)

    def __contains__(self, request: str) -> bool:
        return request in self._futures

    def begin(
        self, request: str, owner: str, work: Coroutine[None, None, Payload], *, abandonable: bool = False
    ) -> None:
        """Start the work of a request. One of the same id must not be there."""
        assert request not in self._futures, "ids of requests are unique"
        task = asyncio.create_task(_answered(work))
        self._futures[request] = _Future(owner, abandonable, self._clock(), task)
        task.add_done_callback(lambda _: self._ended(request))

    async def retrieve(self, request: str, patience: float, stopping: asyncio.Event) -> Payload | None:
        """The answer; None when it is not there within `patience` seconds or before the server stops.

        Raises HttpError 410 when there is no such future, or none any more.
        """
        future = self._futures.get(request)
        if future is None:
            raise HttpError(410, f"the answer to {request} is gone")
        future.asking += 1
        stop = asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait({future.task, stop}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            future.asking -= 1
            future.asked = self._clock()
        if not future.task.done():
            return None
        if future.task.cancelled():
            raise HttpError(410, f"{request} was cancelled")
        future.fetched = True
        return future.task.result()

    def cancel(self, request: str) -> None:
        """Stop the work of a request, if it is still going on."""
        if request in self._futures:
            self._futures[request].task.cancel()

    def cancel_all(self, owner: str | None = None) -> None:
        """Stop and forget what a session has begun, or everything."""
        for request, future in list(self._futures.items()):
            if owner is None or future.owner == owner:
                future.task.cancel()
                del self._futures[request]

    def sweep(self) -> None:
        """Free answers whose time is over; abandon work that nobody waits for."""
        now = self._clock()
        for request, future in list(self._futures.items()):
            silent = 0.0 if future.asking else now - future.asked
            if future.ended is None:
                if future.abandonable and silent > ABANDONED_SECONDS:
                    future.task.cancel()
            elif silent > (FETCHED_SECONDS if future.fetched else KEPT_SECONDS):
                del self._futures[request]

    def _ended(self, request: str) -> None:
        if request in self._futures:
            self._futures[request].ended = self._clock()


async def _answered(work: Coroutine[None, None, Payload]) -> Payload:
    """The work's answer, or its failure in the form that the SDK raises as RequestFailedError."""
    try:
        return await work
    except (UserError, HttpError) as error:
        return json_payload({"error": str(error), "category": "user"})
    except MachineError as error:
        log.warning("%s", error)
        return json_payload({"error": str(error), "category": "server"})
    except Exception as error:  # noqa: BLE001 - one request fails, the server lives on
        log.exception("a request failed")
        return json_payload({"error": f"{type(error).__name__}: {error}", "category": "server"})
