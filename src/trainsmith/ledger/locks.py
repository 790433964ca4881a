"""Locks that die with their process: no lease, no clock, nothing to clean up after `kill -9`.

A lock is an open file description with `flock`; it also excludes other threads of the same process. Local
file systems only (a run directory is never shared between machines).
"""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path
from typing import Self

from trainsmith.errors import MachineError


class FileLock:
    """A held lock. Made by `take`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor: int | None = descriptor
        _held.add(self)

    @classmethod
    def take(cls, path: Path) -> FileLock | None:
        """Take the lock at `path` at once; None if another holder has it."""
        while True:
            descriptor = _open(path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return None
            if _is_still_at(path, descriptor):
                return cls(path, descriptor)
            os.close(descriptor)  # the last holder removed the file between our open and our lock

    @property
    def held(self) -> bool:
        """False once released."""
        return self._descriptor is not None

    def release(self) -> None:
        """Give the lock back and remove its file; again is harmless."""
        if self._descriptor is None:
            return
        self._path.unlink(missing_ok=True)  # while still held, so that nobody waits on a removed file
        self.forget()

    def forget(self) -> None:
        """Close this process's copy without releasing the lock for the process that took it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise MachineError(f"cannot make a lock ({error.strerror})", where=str(path)) from error


def _is_still_at(path: Path, descriptor: int) -> bool:
    """True when `path` still names the locked file."""
    locked = os.fstat(descriptor)
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    return (named.st_dev, named.st_ino) == (locked.st_dev, locked.st_ino)


def _forget_inherited() -> None:
    """A forked child must not keep its parent's locks alive."""
    for lock in list(_held):
        lock.forget()


os.register_at_fork(after_in_child=_forget_inherited)
