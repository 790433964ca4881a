"""Reads the text files of a job for people to look at: few, small, and never through a link."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from trainsmith.report.views import SourceFile

MAX_FILES = 60
MAX_BYTES = 60_000
"""Shown of one file."""
_HIDDEN = frozenset({"__pycache__"})


def source_files(folder: Path) -> tuple[SourceFile, ...]:
    """The files below `folder`, `rl.toml` first; nothing if there is no such folder."""
    paths = sorted(_walk(folder), key=lambda path: (path.name != "rl.toml", path.as_posix()))
    files = [_read(path, path.relative_to(folder).as_posix()) for path in paths[:MAX_FILES]]
    if len(paths) > MAX_FILES:
        files.append(SourceFile("...", "", f"{len(paths) - MAX_FILES} more files"))
    return tuple(files)


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if name not in _HIDDEN)
        for name in names:
            path = Path(root, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _read(path: Path, name: str) -> SourceFile:
    size = path.stat().st_size
    with path.open("rb") as file:
        data = file.read(MAX_BYTES)
    if b"\0" in data:
        return SourceFile(name, "", f"binary, {size:,} bytes")
    note = f"the first {MAX_BYTES:,} of {size:,} bytes" if size > MAX_BYTES else ""
    return SourceFile(name, data.decode("utf-8", errors="replace"), note)
