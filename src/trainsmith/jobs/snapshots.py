"""Copies a job folder out of its author's reach: what is probed and trained is what was checked.

Only regular files within the limits are copied, from what was read once; a copy appears whole or not at all.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from trainsmith.errors import MachineError, UserError
from trainsmith.jobs.problems import JobError
from trainsmith.jobs.tree import FileDigest, read_tree

_USERS_FAULT = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG})


def snapshot(job_dir: Path, destination: Path) -> tuple[FileDigest, ...]:
    """Copy a job folder to `destination`, which must not exist, and return what was copied.

    Load the copy, not the folder. Raises JobError if the folder holds what a job may not hold, UserError if
    there is no such folder or the destination exists, MachineError if the disk is full.
    """
    tree = read_tree(job_dir)
    if tree.problems:
        raise JobError(tree.problems)
    target = destination.absolute()
    with staged(target.parent) as draft:
        write_files(draft, tree.contents)
        publish(draft, target)
    return tree.digests()


@contextmanager
def staged(parent: Path) -> Iterator[Path]:
    """A new folder in `parent`, which is made if missing; gone afterwards whatever happens.

    What the system refuses inside the block becomes UserError (a place that may not be written) or
    MachineError (a full or broken disk).
    """
    draft = parent / f".draft.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        draft.mkdir(parents=True)
        try:
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        what = f"cannot be written ({error.strerror})"
        if error.errno in _USERS_FAULT:
            raise UserError(what, where=str(parent), fix="name a folder that you may write to") from error
        raise MachineError(what, where=str(parent), fix="free disk space or choose another folder") from error


def write_files(directory: Path, contents: Mapping[str, bytes]) -> None:
    """Write files by relative path, never over another."""
    for path, content in contents.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            file.write(content)


def publish(draft: Path, destination: Path) -> None:
    """Give the finished folder its name. UserError if something has it already."""
    try:
        draft.rename(destination)
    except OSError as error:
        if destination.exists():
            raise UserError("exists already", where=str(destination), fix="choose a new folder") from error
        raise
