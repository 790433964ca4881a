"""Request bodies: JSON into a typed record, protobuf decompressed. What is malformed is answered with 400."""

from __future__ import annotations

from typing import TypeVar

import zstandard
from pydantic import ValidationError
from starlette.requests import Request

from trainsmith.engine.server.errors import HttpError
from trainsmith.engine.server.tinker.bodies import Body

B = TypeVar("B", bound=Body)


async def read_json(request: Request, kind: type[B]) -> B:
    """The body as `kind`. Raises HttpError 400 with the first fault."""
    try:
        return kind.model_validate_json(await request.body() or b"{}")
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "body"
        raise HttpError(400, f"{where}: {first['msg']}") from error


async def read_binary(request: Request, limit: int) -> bytes:
    """The body, decompressed if it is `zstd`. Raises HttpError 413 when that exceeds `limit` bytes."""
    body = await request.body()
    encoding = request.headers.get("content-encoding", "identity")
    if encoding == "identity":
        return body
    if encoding != "zstd":
        raise HttpError(400, f"the content encoding {encoding!r} is not supported; use zstd or none")
    try:
        # One byte more than the limit shows that there is more.
        with zstandard.ZstdDecompressor().stream_reader(body) as reader:
            plain = reader.read(limit + 1)
    except zstandard.ZstdError as error:
        raise HttpError(400, f"the body is not zstd: {error}") from error
    if len(plain) > limit:
        raise HttpError(413, f"the decompressed body exceeds {limit} bytes")
    return plain
