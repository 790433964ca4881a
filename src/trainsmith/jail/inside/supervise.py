"""Stands outside a Landlock jail and above it: starts it, and ends everything of it when it ends or the
caller is gone.

`python -m trainsmith_enter.supervise HANG_UP UID WORK COMMAND...`; HANG_UP is a descriptor whose end of file
means that the caller is gone or wants the end, UID the jail's own user or -1, WORK the jail's folder, removed
at the end.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from . import kernel

_POLL_SECONDS = 0.02
_PATIENCE_SECONDS = 30.0


def main() -> None:
    """Run from the command line; exits with the command's status, 128 + signal when a signal ended it."""
    hang_up, uid, work, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    child = os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_CLOSE, hang_up)],
        setsid=True,
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
    )
    os.closerange(3, hang_up)
    os.closerange(hang_up + 1, 1 << 12)
    status = _watch(child, hang_up)
    end_all(uid)
    shutil.rmtree(work, ignore_errors=True)
    raise SystemExit(status)


def _watch(child: int, hang_up: int) -> int:
    """Until the child ends or the caller hangs up; the exit status."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if pid == 0 and select.select([hang_up], [], [], _POLL_SECONDS)[0]:
            return 128 + signal.SIGKILL


def end_all(uid: int) -> None:
    """Kill every process of the jail: all of its user's, and all descendants of this process."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if uid >= 0:
            _kill_user(uid)
        below = list(descendants(os.getpid()))
        for step in (signal.SIGSTOP, signal.SIGKILL):
            for pid in below:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, step)
        if not _reap() and not below:
            return
        time.sleep(0.002)


def descendants(root: int) -> Iterator[int]:
    """Live processes below `root`."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z":
                    parents[int(entry.name)] = int(fields[1])
    for pid in parents:
        above, steps = pid, 0
        while above in parents and above != root and steps < len(parents):
            above, steps = parents[above], steps + 1
        if above == root and pid != root:
            yield pid


def _kill_user(uid: int) -> None:
    """Everything of a user, from a process that has become that user."""
    helper = os.fork()
    if helper == 0:
        with contextlib.suppress(OSError):
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
        os._exit(0)
    os.waitpid(helper, 0)


def _reap() -> bool:
    """Collect the dead; whether children are left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True


if __name__ == "__main__":
    main()
