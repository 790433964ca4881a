"""Limits of a whole jail that the kernel does not keep for us: looked at twice a second from outside."""

from __future__ import annotations

from enum import StrEnum

from trainsmith.jail.limits import MIB, JailLimits
from trainsmith.jail.process import JailProcess

PERIOD_SECONDS = 0.5


class Excess(StrEnum):
    """Which limit a jail has passed."""

    MEMORY = "memory"
    PROCESSES = "processes"
    DISK = "disk"
    WALL = "wall"


def excess(process: JailProcess, limits: JailLimits, age: float) -> Excess | None:
    """The limit that a jail of `age` seconds has passed, if any. Takes a few milliseconds."""
    if limits.wall_seconds is not None and age > limits.wall_seconds:
        return Excess.WALL
    usage = process.usage()
    if usage.resident_bytes > limits.total_memory_bytes:
        return Excess.MEMORY
    # The kernel keeps the limit of processes itself; where it does not (root in a user namespace), this does.
    if usage.processes > 2 * limits.processes:
        return Excess.PROCESSES
    return Excess.DISK if usage.disk_bytes > limits.disk_bytes else None


def sentence(passed: Excess, limits: JailLimits) -> str:
    """What happened, in words."""
    match passed:
        case Excess.MEMORY:
            return f"it uses more than {limits.total_memory_bytes // MIB} MiB of memory"
        case Excess.PROCESSES:
            return f"it runs more than {limits.processes} processes"
        case Excess.DISK:
            return f"it writes more than {limits.disk_bytes // MIB} MiB of files"
        case Excess.WALL:
            return f"it runs for more than {limits.wall_seconds:g} s"
