"""The ASGI application: the protocols' routes behind one token, every error in its protocol's form."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from trainsmith.engine.server.errors import HttpError, on_error
from trainsmith.engine.server.guard import Guard
from trainsmith.errors import TrainsmithError


def make_app(routes: Sequence[Route], token: str, body_limit: int) -> Starlette:
    """`body_limit` is in bytes."""
    handled = (HttpError, HTTPException, TrainsmithError, Exception)
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, token=token, body_limit=body_limit)],
        exception_handlers=dict.fromkeys(handled, on_error),
    )
