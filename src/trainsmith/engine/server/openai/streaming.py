"""Replies that come piece by piece: rows as one stream, server-sent events, and clients that leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse

from trainsmith.engine.records import Completion, SampleRequest
from trainsmith.engine.server.errors import log
from trainsmith.engine.server.host import ModelHost
from trainsmith.engine.server.openai.refusal import Refused, error_json
from trainsmith.engine.server.openai.wire import Json
from trainsmith.errors import TrainsmithError, UserError

T = TypeVar("T")

Item = tuple[int, float] | Completion
"""A token with its logprob, or a row's end."""


async def until_gone(request: Request, work: Coroutine[None, None, T]) -> T:
    """The result of `work`, which is cancelled when the client leaves. Raises ClientDisconnect then.

    The body must have been read.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnect
    finally:
        task.cancel()
        gone.cancel()


async def interleaved(
    host: ModelHost, weights: str | None, requests: Sequence[SampleRequest]
) -> AsyncGenerator[tuple[int, Item]]:
    """The items of all rows as they come, each with its row's index. Closing ends the rows."""
    queue: asyncio.Queue[tuple[int, Item] | Exception] = asyncio.Queue()
    tasks = [
        asyncio.ensure_future(_feed(host, weights, request, index, queue))
        for index, request in enumerate(requests)
    ]
    try:
        left = len(requests)
        while left:
            item = await queue.get()
            if isinstance(item, Exception):
                raise item
            left -= isinstance(item[1], Completion)
            yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def event_stream(events: AsyncGenerator[Json]) -> StreamingResponse:
    """Server-sent events; a failure on the way is the last event."""
    return StreamingResponse(
        _lines(events), media_type="text/event-stream", headers={"cache-control": "no-cache"}
    )


async def _lines(events: AsyncGenerator[Json]) -> AsyncGenerator[bytes]:
    try:
        async for event in events:
            yield _line(event)
    except UserError as error:
        yield _line(error_json(Refused(str(error))))
    except Exception as error:  # noqa: BLE001 - the status has been sent; the client must hear of it
        log.exception("a stream failed")
        what = str(error) if isinstance(error, TrainsmithError) else "internal error; the server's log has it"
        inner = {"message": what, "type": "server_error", "param": None, "code": None}
        yield _line({"error": inner})
    yield b"data: [DONE]\n\n"


def _line(event: object) -> bytes:
    text = json.dumps(event, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return b"data: " + text.encode() + b"\n\n"


async def _feed(
    host: ModelHost,
    weights: str | None,
    request: SampleRequest,
    index: int,
    queue: asyncio.Queue[tuple[int, Item] | Exception],
) -> None:
    try:
        async with aclosing(host.stream(weights, request)) as items:
            async for item in items:
                queue.put_nowait((index, item))
    except Exception as error:  # noqa: BLE001 - whoever reads the queue raises it
        queue.put_nowait(error)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
