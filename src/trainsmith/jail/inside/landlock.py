"""Landlock: the kernel's own file, port and signal walls, for machines without namespaces.

It does not cover metadata (stat, chmod), UDP, or unix sockets: the system call filter does.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from .kernel import syscall
from .syscalls import LANDLOCK_ADD_RULE, LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL_DEVICE = 1, 2, 4, 8, 1 << 14, 1 << 15
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_TCP_BIND_AND_CONNECT = 3
_ABSTRACT_SOCKETS_AND_SIGNALS = 3
_SPECIAL_FILES = (1 << 6) | (1 << 9) | (1 << 10) | (1 << 11)  # character device, socket, fifo, block device
_VERSION_FLAG, _PATH_BENEATH = 1, 1
SIGNALS_SINCE = 6
TRUNCATE_SINCE = 3


@dataclass(frozen=True)
class Paths:
    """What may be reached; everything else is refused."""

    read: Sequence[str]
    """Files and folders: read and execute."""
    write: Sequence[str]
    """Folders: everything but devices and sockets."""
    devices: Sequence[str]
    """Device files: read and write."""


def version() -> int:
    """The kernel's Landlock version; 0 where there is none."""
    try:
        return syscall(LANDLOCK_CREATE_RULESET, None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def restrict(paths: Paths) -> None:
    """Wall this process and its descendants in. Needs no_new_privs. Raises OSError."""
    supported = version()
    if supported < 1:
        raise OSError("this kernel has no Landlock")
    rights = _FILE_RIGHTS[min(supported, max(_FILE_RIGHTS))]
    ruleset = _create(supported, rights)
    try:
        for path in paths.read:
            _allow(ruleset, path, rights & (_EXECUTE | _READ_FILE | _READ_DIR))
        for path in paths.devices:
            _allow(ruleset, path, rights & (_WRITE_FILE | _READ_FILE | _TRUNCATE))
        for path in paths.write:
            _allow(ruleset, path, rights & ~_SPECIAL_FILES & ~_IOCTL_DEVICE)
        syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _create(supported: int, rights: int) -> int:
    fields = [rights]
    if supported >= 4:
        fields.append(_TCP_BIND_AND_CONNECT)
    if supported >= SIGNALS_SINCE:
        fields.append(_ABSTRACT_SOCKETS_AND_SIGNALS)
    packed = struct.pack(f"={len(fields)}Q", *fields)
    return syscall(LANDLOCK_CREATE_RULESET, packed, len(packed), 0)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # an absent path needs no rule
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _ON_FILES
        syscall(LANDLOCK_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)
