"""Frames on a stream: a length of four bytes, big-endian, then one msgpack array `[tag, field, ...]`.

Shared by both sides. A frame over the limit, or one that is not such an array, is a `BadFrame`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgpack

MAX_UP = 1 << 20
"""Bytes of one frame from the jail."""
MAX_DOWN = 4 << 20
"""Bytes of one frame to the jail."""
_LENGTH = struct.Struct("!I")


class BadFrame(Exception):
    """The other side broke the protocol."""


def encode(tag: str, fields: list[object]) -> bytes:
    """One frame. Text that is not valid Unicode (lone surrogates) is replaced."""
    try:
        body: bytes = msgpack.packb([tag, *fields])
    except UnicodeEncodeError:
        body = msgpack.packb(_clean([tag, *fields]))
    return _LENGTH.pack(len(body)) + body


class Decoder:
    """Cuts a stream into frames. It never holds more than one frame and one read."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[str, list[object]]]:
        """Add bytes; yield every complete frame as its tag and fields. Raises BadFrame."""
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._buffer, start)
                if length > self._limit:
                    raise BadFrame(f"a frame of {length} bytes; the limit is {self._limit}")
                end = start + _LENGTH.size + length
                if len(self._buffer) < end:
                    return
                body = bytes(memoryview(self._buffer)[start + _LENGTH.size : end])
                start = end
                yield _parse(body)
        finally:
            del self._buffer[:start]


def _parse(body: bytes) -> tuple[str, list[object]]:
    try:
        value = msgpack.unpackb(body, max_ext_len=0)
    except (ValueError, TypeError, RecursionError) as error:
        raise BadFrame(f"not msgpack: {type(error).__name__}") from None
    if not isinstance(value, list) or not value or not isinstance(value[0], str):
        raise BadFrame("not a tagged array")
    return value[0], value[1:]


def _clean(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value
