"""How much a jailed command may use. Every limit is enforced by the kernel or by the jail's own watcher."""

from __future__ import annotations

from trainsmith.records import Record

MIB = 1 << 20


class JailLimits(Record):
    """Limits of one jail."""

    memory_bytes: int = 4096 * MIB
    """Address space of each process."""
    total_memory_bytes: int = 8192 * MIB
    """Resident memory of all processes together; watched twice a second."""
    processes: int = 128
    """Processes and threads at once."""
    file_bytes: int = 64 * MIB
    """Size of any one file."""
    open_files: int = 512
    """Open files of each process."""
    disk_bytes: int = 256 * MIB
    """All files that the command may keep, in memory (bubblewrap) or on disk (Landlock)."""
    wall_seconds: float | None = None
    """Life of the whole jail; None for no limit."""
