"""The files of a folder as a value: read once, then the same for every jail, whoever may read the folder.

Links, devices and caches are left out, so that nothing outside the folder comes along.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from trainsmith.errors import AgentError
from trainsmith.jail.limits import MIB

MAX_FILES = 10_000
MAX_BYTES = 256 * MIB
_SKIPPED = "__pycache__"


@dataclass(frozen=True, slots=True)
class File:
    """One file."""

    path: str
    """Relative, with forward slashes."""
    content: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of one folder, in order of their paths."""

    files: tuple[File, ...]

    @property
    def size(self) -> int:
        """Bytes of all contents."""
        return sum(len(file.content) for file in self.files)


def read(folder: Path, *, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES) -> Snapshot:
    """Read a folder. Raises AgentError when it is too large, OSError when it cannot be read."""
    files: list[File] = []
    size = 0
    for inner, names, leaves in os.walk(folder):
        names[:] = sorted(name for name in names if name != _SKIPPED)
        for leaf in sorted(leaves):
            path = Path(inner, leaf)
            content = _content(path, max_bytes - size)
            if content is None:
                continue
            size += len(content)
            files.append(File(path.relative_to(folder).as_posix(), content))
            if len(files) > max_files or size > max_bytes:
                raise AgentError(
                    f"the folder holds more than {max_files} files or {max_bytes // MIB} MiB",
                    where=folder.name,
                    fix="keep only what the package needs",
                )
    return Snapshot(tuple(files))


def _content(path: Path, room: int) -> bytes | None:
    """A regular file's bytes, at most one more than `room`; None for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        if path.is_symlink() or not path.is_file():
            return None
        raise
    with os.fdopen(descriptor, "rb") as file:
        return file.read(room + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
