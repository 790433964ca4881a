"""System calls that Python's standard library does not offer, through ctypes."""

from __future__ import annotations

import ctypes
import os
import platform
import struct

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long

PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
LAST_CAPABILITY = 63
CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION_3 = 0x20080522

Argument = int | bytes | ctypes.Structure | None


def syscall(number: int, *arguments: Argument) -> int:
    """Call `number`; raise OSError on failure. Structures and bytes are passed by address."""
    result = int(_LIBC.syscall(ctypes.c_long(number), *(_convert(item) for item in arguments)))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), f"system call {number}")
    return result


def prctl(option: int, value: int = 0) -> None:
    """Call prctl(2) with one value; raise OSError on failure."""
    if _LIBC.prctl(ctypes.c_int(option), *(ctypes.c_ulong(item) for item in (value, 0, 0, 0))) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), f"prctl {option}")


def drop_capabilities() -> None:
    """Empty the permitted, effective and inheritable sets of this process. Raises OSError."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    syscall(CAPSET[platform.machine()], header, bytes(24))


def _convert(item: Argument) -> object:
    if item is None:
        return None
    if isinstance(item, bytes):
        return ctypes.c_char_p(item)
    if isinstance(item, ctypes.Structure):
        return ctypes.byref(item)
    return ctypes.c_long(item)
