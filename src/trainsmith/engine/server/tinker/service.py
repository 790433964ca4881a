"""Tinker's API on one host: its routes, and the upkeep that frees what clients have left behind."""

from __future__ import annotations

import asyncio
import math
import time

from starlette.routing import Route

from trainsmith.engine.server.errors import log
from trainsmith.engine.server.served import Served
from trainsmith.engine.server.tinker.catalogue import Catalogue
from trainsmith.engine.server.tinker.clients import Clients
from trainsmith.engine.server.tinker.context import Context
from trainsmith.engine.server.tinker.futures import Futures
from trainsmith.engine.server.tinker.sampling import Sampling
from trainsmith.engine.server.tinker.sessions import Sessions
from trainsmith.engine.server.tinker.training import Training
from trainsmith.engine.server.tinker.weights import Weights

PREFIX = "/api/v1"
UPKEEP_SECONDS = 5.0
TIDY_SECONDS = 600.0
"""Between two looks at the disk."""
FORGOTTEN_SECONDS = 7 * 86400.0
"""Sampling sessions that are not used for longer are dropped, with weights that have no name."""


class TinkerService:
    """The protocol with its state in memory."""

    def __init__(self, served: Served, *, idle_seconds: float, body_limit: int, poll_seconds: float) -> None:
        clients = Clients(served.store, idle_seconds)
        self._context = Context(served, clients, Futures(), body_limit, poll_seconds)
        self._period = min(UPKEEP_SECONDS, idle_seconds)

    def routes(self) -> list[Route]:
        """For the application."""
        parts = (Sessions, Training, Weights, Sampling, Catalogue)
        return [route for part in parts for route in part(self._context).routes(PREFIX)]

    async def upkeep(self) -> None:
        """Free what is idle, fetched or expired, again and again."""
        tidied = -math.inf
        while True:
            await asyncio.sleep(self._period)
            try:
                await self._free()
                if time.monotonic() - tidied > TIDY_SECONDS:
                    tidied = time.monotonic()
                    await self._tidy()
            except Exception:  # noqa: BLE001 - the next round tries again
                log.exception("upkeep failed")

    def close(self) -> None:
        """Stop all work in flight."""
        self._context.futures.cancel_all()

    async def _free(self) -> None:
        context = self._context
        context.futures.sweep()
        for session in context.clients.idle():
            log.warning("the session %s is idle: its training runs are dropped", session)
            for run in context.end_session(session):
                await context.served.host.drop(run)

    async def _tidy(self) -> None:
        served = self._context.served
        for directory in await asyncio.to_thread(list, served.store.expired()):
            await served.host.drop(str(directory))
        for sampler in await asyncio.to_thread(served.store.forgotten, FORGOTTEN_SECONDS):
            if gone := served.store.drop_sampler(sampler):
                await served.host.drop(str(gone))
