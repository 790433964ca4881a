"""What a client did wrong over HTTP, answered in the form of the protocol that it speaks."""

from __future__ import annotations

import logging

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from trainsmith.errors import TrainsmithError, UserError

_OPENAI_PATHS = ("/v1/", "/inference/")
_OPENAI_TYPES = {401: "authentication_error", 404: "not_found_error", 500: "server_error"}

log = logging.getLogger("trainsmith.server")


class HttpError(Exception):
    """A request that is refused with a status of its own."""

    def __init__(self, status: int, what: str) -> None:
        super().__init__(what)
        self.status = status
        self.what = what


def refusal(path: str, status: int, what: str) -> JSONResponse:
    """The body that clients of the path's protocol read: OpenAI's `error`, Tinker's `detail`."""
    if path.startswith(_OPENAI_PATHS):
        kind = _OPENAI_TYPES.get(status, "invalid_request_error")
        body: dict[str, object] = {"message": what, "type": kind, "param": None, "code": status}
        return JSONResponse({"error": body}, status)
    return JSONResponse({"detail": what}, status)


async def on_error(request: Request, error: Exception) -> JSONResponse:
    """Starlette's handler of all errors."""
    path = request.url.path
    match error:
        case HttpError():
            return refusal(path, error.status, error.what)
        case UserError():
            return refusal(path, 400, str(error))
        case HTTPException():
            return refusal(path, error.status_code, error.detail)
    what = str(error) if isinstance(error, TrainsmithError) else "internal error; the server's log has it"
    return refusal(path, 500, what)
