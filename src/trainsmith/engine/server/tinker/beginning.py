"""The beginning of a training run, fresh or from a checkpoint."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from trainsmith.engine.records import LoraSpec
from trainsmith.engine.server.errors import HttpError
from trainsmith.engine.server.records import RunRecord
from trainsmith.engine.server.served import Served
from trainsmith.engine.server.tinker.bodies import OptimiserConfig
from trainsmith.engine.server.tinker.context import Context
from trainsmith.engine.server.tinker.futures import Payload
from trainsmith.engine.server.tinker.promises import promise

ALPHA = 32.0
"""Tinker's LoRA alpha, whatever the rank."""


def begin(
    context: Context,
    run: str,
    *,
    rank: int,
    seed: int,
    metadata: dict[str, Any] | None,
    then: Callable[[], Awaitable[Payload]],
) -> Response:
    """Promise a run with fresh adapters, and what `then` makes of it. One that is there is not made again."""
    request, session = f"{run}:create", run.partition(":")[0]
    context.clients.hear(session)
    if context.clients.find(run) is None and request not in context.futures:
        record = RunRecord(
            id=run,
            session=session,
            base=context.served.host.base,
            rank=rank,
            alpha=ALPHA,
            seed=seed,
            created=datetime.now(UTC),
            metadata=metadata,
        )
        context.served.store.put_run(record)
        context.clients.add(record)
        context.futures.begin(request, session, _create(context, record, then))
    return promise(request, run)


def check_base(served: Served, base: str) -> None:
    """Raise HttpError 404 for a base that is not served here."""
    if base != served.host.base:
        raise HttpError(404, f"the base {base!r} is not served here; {served.host.base!r} is")


def check_optimiser(config: OptimiserConfig) -> None:
    """Raise HttpError 400 for any optimiser but AdamW."""
    if config.type != "adamw":
        raise HttpError(400, f"the optimiser {config.type!r} is not served; use 'adamw'")


async def _create(context: Context, record: RunRecord, then: Callable[[], Awaitable[Payload]]) -> Payload:
    host = context.served.host
    try:
        await host.create(record.id, LoraSpec(rank=record.rank, alpha=record.alpha), record.seed)
        return await then()
    except BaseException:
        context.clients.remove(record.id)
        await host.drop(record.id)
        raise
