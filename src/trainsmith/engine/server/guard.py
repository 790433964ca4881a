"""Between the socket and every handler: no request without the token, none with a body beyond the limit."""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trainsmith.engine.server.errors import HttpError, refusal


class Guard:
    """ASGI middleware. The token comes as `X-API-Key` or as `Authorization: Bearer`."""

    def __init__(self, app: ASGIApp, token: str, body_limit: int) -> None:
        """`body_limit` is in bytes, as they arrive."""
        self._app = app
        self._token = token.encode()
        self._limit = body_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not self._knows(headers):
            await refusal(scope["path"], 401, "the token is missing or wrong")(scope, receive, send)
        elif self._announced(headers) > self._limit:
            await refusal(scope["path"], 413, self._too_large)(scope, receive, send)
        else:
            await self._app(scope, self._counted(receive), send)

    @property
    def _too_large(self) -> str:
        return f"the body exceeds {self._limit} bytes"

    def _knows(self, headers: Headers) -> bool:
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        by_key = hmac.compare_digest(headers.get("x-api-key", "").encode("latin-1"), self._token)
        by_bearer = hmac.compare_digest(bearer.strip().encode("latin-1"), self._token)
        return by_key or (by_bearer and scheme.lower() == "bearer")

    def _announced(self, headers: Headers) -> int:
        length = headers.get("content-length", "0")
        return int(length) if length.isdecimal() else 0

    def _counted(self, receive: Receive) -> Receive:
        """The same messages, until they exceed the limit: chunked bodies announce no length."""
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._limit:
                raise HttpError(413, self._too_large)
            return message

        return counted
