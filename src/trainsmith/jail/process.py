"""A running jail: one process tree that dies as a whole."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_ORPHAN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Usage:
    """What a jail uses, its own wrappers included."""

    processes: int
    resident_bytes: int
    """Shared pages count in every process that maps them."""
    disk_bytes: int
    """0 where a size-limited mount holds the files."""


class JailProcess:
    """The handle of one jail. `kill` may be called from any thread, any number of times."""

    def __init__(
        self,
        outer: subprocess.Popen[bytes],
        *,
        root: int | None = None,
        hang_up: int | None = None,
        clean: Callable[[], None] = lambda: None,
        disk: Path | None = None,
    ) -> None:
        """Take over `outer`.

        `root` is the process whose death takes the whole tree along (bubblewrap's first process inside);
        `hang_up` a descriptor whose closing makes a supervisor end the tree; `clean` removes what is left on
        disk; `disk` is the folder that the jail may fill, where no size-limited mount holds it.
        """
        self._outer = outer
        self._root = None if root is None else _open_pidfd(root)
        self._supervised = hang_up is not None
        self._hang_up = hang_up
        self._clean = clean
        self._disk = disk
        self._lock = threading.Lock()
        self._orphaned_at: float | None = None
        """When the outer process, its child dead, may no longer live; None while nothing was killed."""

    @property
    def pid(self) -> int:
        """The outermost process of the jail."""
        return self._outer.pid

    @property
    def output(self) -> int:
        """Descriptor of the jail's standard output and error, when they are piped."""
        if self._outer.stdout is None:
            raise ValueError("the jail's output is not piped")
        return self._outer.stdout.fileno()

    def kill(self) -> None:
        """End every process of the jail. Returns at once."""
        with self._lock:
            if self._supervised:
                self._hang_up_now()  # never a signal: a supervisor that dies first would leave the rest alive
                return
            self._orphaned_at = self._orphaned_at or time.monotonic() + _ORPHAN_SECONDS
            if self._root is None:
                self._outer.kill()
                return
            # The outer process then ends by itself and takes the dead one along; else a zombie would stay.
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._root, signal.SIGKILL)

    def running(self) -> bool:
        """Whether anything of the jail may still live."""
        if self._outer.poll() is None:
            if self._orphaned_at is not None and time.monotonic() > self._orphaned_at:
                self._outer.kill()
            return True
        return self._root is not None and not select.select([self._root], [], [], 0)[0]

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait until all is dead and cleaned; the exit status, or None after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while self.running():
            if end is not None and time.monotonic() > end:
                return None
            time.sleep(0.005)
        return self._finish()

    async def ended(self) -> int:
        """Wait until all is dead and cleaned; the exit status."""
        while self.running():
            await asyncio.sleep(0.01)
        return self._finish()

    def usage(self) -> Usage:
        """What the jail uses now."""
        inside = dict(descendants(self.pid))
        resident = sum(inside.values()) * os.sysconf("SC_PAGE_SIZE")
        disk = 0 if self._disk is None else _disk_bytes(self._disk, inside)
        return Usage(processes=len(inside), resident_bytes=resident, disk_bytes=disk)

    def _hang_up_now(self) -> None:
        if self._hang_up is not None:
            os.close(self._hang_up)
            self._hang_up = None

    def _finish(self) -> int:
        with self._lock:
            self._hang_up_now()
            if self._root is not None:
                os.close(self._root)
                self._root = None
            clean, self._clean = self._clean, lambda: None
        if self._outer.stdout is not None:
            self._outer.stdout.close()
        clean()
        return self._outer.wait()


def descendants(root: int) -> Iterator[tuple[int, int]]:
    """The live processes under and including `root`, each with its resident pages."""
    parents: dict[int, int] = {}
    resident: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                resident[int(entry.name)] = int(fields[21])
    inside = {root} & parents.keys()
    grew = True
    while grew:
        more = {pid for pid, parent in parents.items() if parent in inside} - inside
        inside |= more
        grew = bool(more)
    return ((pid, resident[pid]) for pid in inside)


def _disk_bytes(folder: Path, processes: Iterable[int]) -> int:
    """Bytes of a folder's files, deleted ones that are still open included."""
    sizes: dict[tuple[int, int], int] = {}
    for inner, _, names in os.walk(folder):
        _measure((Path(inner, name) for name in names), sizes, deleted=False)
    for pid in processes:
        with contextlib.suppress(OSError):
            _measure(Path(f"/proc/{pid}/fd").iterdir(), sizes, deleted=True)
    return sum(sizes.values())


def _measure(paths: Iterable[Path], sizes: dict[tuple[int, int], int], *, deleted: bool) -> None:
    """Add the blocks of regular files; `deleted` follows links and counts only files without a name."""
    for path in paths:
        with contextlib.suppress(OSError):
            status = path.stat(follow_symlinks=deleted)
            if stat.S_ISREG(status.st_mode) and (not deleted or status.st_nlink == 0):
                sizes[status.st_dev, status.st_ino] = status.st_blocks * 512


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None
