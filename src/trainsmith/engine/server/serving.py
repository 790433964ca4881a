"""Run the server until a signal ends it: load, listen, say so, serve, stop within seconds."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import uvicorn

from trainsmith import paths
from trainsmith.config.serve import ServeConfig
from trainsmith.engine.server.access_token import access_token
from trainsmith.engine.server.app import make_app
from trainsmith.engine.server.host import ModelHost
from trainsmith.engine.server.openai.service import OpenAiService
from trainsmith.engine.server.served import Served
from trainsmith.engine.server.store import Store
from trainsmith.engine.server.tinker.service import TinkerService
from trainsmith.errors import UserError

_DRAIN_SECONDS = 2
"""What answers in flight get at the end."""


@dataclass(frozen=True, slots=True)
class Address:
    """What a client needs."""

    url: str
    token: str
    model: str


async def serve(
    config: ServeConfig, ready: Callable[[Address], None], progress: Callable[[str], None] | None = None
) -> None:
    """Serve until SIGINT or SIGTERM. `ready` is told once, when requests are answered.

    Raises UserError for a base, token or port that cannot be used.
    """
    root = config.state or paths.state_dir() / "engine"
    token = access_token(config.token_file, root / "token")
    with _listening(config.host, config.port) as listener:
        host = await ModelHost.open(config.base, config.engine, progress)
        try:
            served = Served(host, Store(root), asyncio.Event())
            url = _url(listener)
            await _run(served, config, token, listener, lambda: ready(Address(url, token, config.base)))
        finally:
            host.close(timeout=1)


async def _run(
    served: Served, config: ServeConfig, token: str, listener: socket.socket, ready: Callable[[], None]
) -> None:
    tinker = TinkerService(
        served,
        idle_seconds=config.idle_seconds,
        body_limit=config.body_limit,
        poll_seconds=config.poll_seconds,
    )
    app = make_app([*tinker.routes(), *OpenAiService(served).routes()], token, config.body_limit)
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_keep_alive=75,
            server_header=False,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        )
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, lambda: _stop(server, served))
    upkeep = asyncio.create_task(tinker.upkeep())
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not (server.started or running.done()):
            await asyncio.sleep(0.01)
        if server.started:
            ready()
        await running
    finally:
        upkeep.cancel()
        with suppress(asyncio.CancelledError):
            await upkeep
        tinker.close()


class _Server(uvicorn.Server):
    """Leaves the signals to us."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _stop(server: uvicorn.Server, served: Served) -> None:
    """A second signal does not wait for answers in flight."""
    server.force_exit = server.should_exit
    server.should_exit = True
    served.stopping.set()


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        where = f"{host}:{port}"
        raise UserError(f"cannot listen: {error.strerror}", where=where, fix="name another port") from error


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
