"""A refused request in OpenAI's own form, with the field and the code that its clients read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from trainsmith.engine.server.errors import HttpError

CONTEXT = "context_length_exceeded"
UNSUPPORTED = "unsupported_parameter"
UNKNOWN_MODEL = "model_not_found"
_GONE = 499

Handler = Callable[[Request], Awaitable[Response]]


class Refused(HttpError):
    """A request that is answered with an error about one of its fields."""

    def __init__(
        self, what: str, *, param: str | None = None, code: str | None = None, status: int = 400
    ) -> None:
        super().__init__(status, what)
        self.param = param
        self.code = code


def error_json(error: Refused) -> dict[str, object]:
    """The body of the answer, or of a stream's last event."""
    inner = {"message": error.what, "type": "invalid_request_error", "param": error.param, "code": error.code}
    return {"error": inner}


def with_refusals(handler: Handler) -> Handler:
    """The handler, with its `Refused` answered; other errors go to the application's own handler.

    A client that has gone is answered too, though nobody hears it: it is no failure to log.
    """

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except Refused as error:
            return JSONResponse(error_json(error), error.status)
        except ClientDisconnect:
            return Response(status_code=_GONE)

    return handle
