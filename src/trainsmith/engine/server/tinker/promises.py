"""Requests that are promised and done later, each once and in its turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.responses import JSONResponse, Response

from trainsmith.engine.server.tinker.clients import LiveRun
from trainsmith.engine.server.tinker.context import Context
from trainsmith.engine.server.tinker.futures import Payload


def promise(request: str, run: str) -> Response:
    """What the SDK asks for the answer with."""
    return JSONResponse({"request_id": request, "model_id": run})


def in_turn(
    context: Context, run: LiveRun, given: int | None, work: Callable[[], Awaitable[Payload]]
) -> Response:
    """Promise the work, which is done when all requests of lower numbers are over.

    A request that is posted again, since its answer was lost, is not done again.
    """
    number = run.line.number(given)
    request = f"{run.record.id}:{number}"

    async def turn() -> Payload:
        async with run.line.turn(number):
            return await work()

    if request not in context.futures and not run.line.is_over(number):
        context.futures.begin(request, run.record.session, turn())
    return promise(request, run.record.id)
