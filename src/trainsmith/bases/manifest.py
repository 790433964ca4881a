"""The list of a cached model's files with sizes and hashes, and the check of a directory against it.

A check costs a few `stat` calls: a file whose size and time are as recorded is taken as whole. A file whose
time differs is hashed again. Damage that keeps both size and time (a failing disk) is not seen.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from pydantic import ValidationError

from trainsmith.records.base import Record

FILE_NAME = "manifest.json"


class FileEntry(Record):
    """One file of a model directory."""

    name: str
    size: int
    mtime_ns: int
    sha256: str


class Manifest(Record):
    """All files of a model directory, by name."""

    files: tuple[FileEntry, ...]


def sha256_of(file: Path) -> str:
    """Hex digest of a file's bytes."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_manifest(directory: Path) -> None:
    """Record every file of the directory and force the directory's content to disk."""
    entries = []
    for file in sorted(directory.iterdir()):
        if file.name == FILE_NAME:
            continue
        _flush(file)
        stat = file.stat()
        digest = sha256_of(file)
        entries.append(FileEntry(name=file.name, size=stat.st_size, mtime_ns=stat.st_mtime_ns, sha256=digest))
    path = directory / FILE_NAME
    path.write_text(Manifest(files=tuple(entries)).model_dump_json(indent=1), encoding="utf-8")
    _flush(path)


def is_whole(directory: Path) -> bool:
    """Whether every recorded file is there and unchanged, weights and configuration among them."""
    try:
        manifest = Manifest.model_validate_json((directory / FILE_NAME).read_bytes())
        names = {entry.name for entry in manifest.files}
        if "config.json" not in names or not any(name.endswith(".safetensors") for name in names):
            return False
        return all(_unchanged(directory / entry.name, entry) for entry in manifest.files)
    except (OSError, ValidationError):
        return False


def _unchanged(file: Path, entry: FileEntry) -> bool:
    stat = file.stat()
    if stat.st_size != entry.size:
        return False
    if stat.st_mtime_ns == entry.mtime_ns:
        return True
    if sha256_of(file) != entry.sha256:
        return False
    with contextlib.suppress(PermissionError):  # a read-only cache is hashed on every use instead
        os.utime(file, ns=(stat.st_atime_ns, entry.mtime_ns))
    return True


def _flush(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
