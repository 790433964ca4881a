"""Files that come into the jail through a descriptor, since another user could not read them where they lie.

A sequence of: length of the path, length of the content (each eight bytes, big-endian), path, content. Both
sides use this.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from pathlib import Path

_HEADER = struct.Struct("!QQ")


def pack(files: Iterable[tuple[str, bytes]]) -> bytes:
    """Relative paths and contents as one block of bytes."""
    pieces: list[bytes] = []
    for path, content in files:
        name = os.fsencode(path)
        pieces += [_HEADER.pack(len(name), len(content)), name, content]
    return b"".join(pieces)


def unpack(block: bytes, folder: Path) -> None:
    """Write the files below a folder, for everybody to read. OSError, ValueError for a path outside."""
    at = 0
    while at < len(block):
        name_length, length = _HEADER.unpack_from(block, at)
        start = at + _HEADER.size + name_length
        path = Path(os.fsdecode(block[at + _HEADER.size : start]))
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"the path {path} leaves its folder")
        _write(folder, path, block[start : start + length])
        at = start + length


def _write(folder: Path, path: Path, content: bytes) -> None:
    place = folder
    for part in path.parts[:-1]:
        place = place / part
        if not place.is_dir():
            place.mkdir()
            place.chmod(0o755)
    target = folder / path
    target.write_bytes(content)
    target.chmod(0o444)
