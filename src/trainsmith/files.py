"""Files of a run: written whole or not at all, and read back even after a crash in mid-line.

Not for weights (the trainer writes those) nor for the ledger.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from trainsmith.errors import MachineError, UserError


def write_atomic(path: Path, content: str | bytes) -> None:
    """Replace `path` by `content` in one step; readers see the old file or the whole new one.

    Parent folders are made. Survives a crash of the machine, too. Raises MachineError if the disk is full or
    the place cannot be written; the draft is removed then and the old file stays.
    """
    data = content.encode() if isinstance(content, str) else content
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write_durably(draft, data)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        _sync_folder(path.parent)
    except OSError as error:
        fix = "free disk space or choose another run folder"
        raise MachineError(f"cannot write ({error.strerror})", where=str(path), fix=fix) from error


def require_room(place: Path, needed: int, what: str) -> None:
    """Raise UserError unless `place`, which need not exist yet, has `needed` free bytes for `what`."""
    existing = next(folder for folder in (place.absolute(), *place.absolute().parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise UserError(
            f"{free // 2**20} MB are free, {needed // 2**20} MB are needed for {what}",
            where=str(place),
            fix="free disk space, or name a folder on another disk",
        )


def complete_lines(path: Path) -> Iterator[str]:
    """Lines of a text file that end in a newline: the last one may be torn by a crash and is left out.

    A missing file has no lines. Bytes that are not UTF-8 are replaced.
    """
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        for line in file:
            if line.endswith("\n"):
                yield line.rstrip("\n")


def _write_durably(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
