"""Opens files below a directory descriptor without ever following a symbolic link.

The kernel's `openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)` where it may be called, else one component at
a time with O_NOFOLLOW. Either way the check is the opening itself: nothing that another process swaps in
between can lead outside. Names must have passed `names.split` (no "..").
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from collections.abc import Sequence

SYS_OPENAT2 = 437
"""The same on every architecture that Python runs on, but for alpha."""
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
"""Flags that open a folder."""


class _OpenHow(ctypes.Structure):
    """`struct open_how` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(root: int, names: Sequence[str], flags: int) -> int:
    """A descriptor of `names` below the folder `root`; no name at all is `root` itself.

    Raises OSError: ELOOP, ENOTDIR or EXDEV where a link or something else stands in the way.
    """
    if openat2_works():
        return open_by_kernel(root, names, flags)
    return open_by_steps(root, names, flags)


def open_by_kernel(root: int, names: Sequence[str], flags: int) -> int:
    """`open_beneath` by openat2."""
    path = os.fsencode("/".join(names) or ".")
    how = _OpenHow(
        flags=flags | os.O_CLOEXEC | os.O_NOFOLLOW,
        mode=0,
        resolve=RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    )
    while True:
        found: int = _libc().syscall(SYS_OPENAT2, root, path, ctypes.byref(how), ctypes.sizeof(how))
        if found >= 0:
            return found
        code = ctypes.get_errno()
        if code not in (errno.EINTR, errno.EAGAIN):  # EAGAIN: the tree was renamed meanwhile
            raise OSError(code, os.strerror(code), path.decode(errors="replace"))


def open_by_steps(root: int, names: Sequence[str], flags: int) -> int:
    """`open_beneath` by one openat(O_NOFOLLOW) a name."""
    if not names:
        return os.open(".", flags | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=root)
    folder = os.dup(root)
    try:
        for name in names[:-1]:
            deeper = os.open(name, FOLDER, dir_fd=folder)
            os.close(folder)
            folder = deeper
        return os.open(names[-1], flags | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)


@functools.cache
def openat2_works() -> bool:
    """False on old kernels and where a seccomp filter forbids the call."""
    root = os.open("/", FOLDER)
    try:
        os.close(open_by_kernel(root, (), FOLDER))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
