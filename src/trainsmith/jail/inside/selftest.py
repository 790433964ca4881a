"""Run in a jail to see that it holds: `python -m trainsmith_enter.selftest SECRET_FILE TCP_PORT`.

Prints `jailed`, or one line for each wall that is missing.
"""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from . import kernel
from .syscalls import number

_NEW_USER_NAMESPACE = 0x10000000


def main() -> None:
    """Run from the command line; exit status 1 when a wall is missing."""
    missing = list(holes(sys.argv[1], int(sys.argv[2])))
    sys.stdout.write("\n".join(missing or ["jailed"]) + "\n")
    raise SystemExit(1 if missing else 0)


def holes(secret: str, port: int) -> Iterator[str]:
    """What works though it must not, or does not though it must."""
    if _works(lambda: _read(secret)):
        yield "a file outside can be read"
    if _works(lambda: _connect(port)):
        yield "a network port outside can be reached"
    if _works(lambda: kernel.syscall(number("unshare", platform.machine()) or -1, _NEW_USER_NAMESPACE)):
        yield "a new user namespace can be made"
    if _works(lambda: os.open(secret + ".new", os.O_CREAT | os.O_WRONLY)):
        yield "a file outside can be written"
    if os.getuid() == 0:
        yield "the process is root"
    status = _read("/proc/self/status")
    for line in ("NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000"):
        if line not in status:
            yield f"the kernel does not report {line.replace(chr(9), ' ')}"
    if not _works(lambda: os.close(os.open("scratch", os.O_CREAT | os.O_WRONLY))):
        yield "the working folder cannot be written"


def _works(action: Callable[[], object]) -> bool:
    with contextlib.suppress(OSError):
        action()
        return True
    return False


def _read(path: str) -> str:
    return Path(path).read_text()


def _connect(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 1):
        pass


if __name__ == "__main__":
    main()
