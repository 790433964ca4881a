"""The system call filter: a deny-list compiled to classic BPF, for x86_64 and aarch64.

Denied: new namespaces, mounts, tracing, other processes' memory and limits, BPF, io_uring, keys, kernel
modules, clocks, raw devices, memory that no limit counts (memfd, System V), terminals' input queue. It does
not hide files (mounts or Landlock do) and does not limit resources (rlimits do).
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass

from .kernel import syscall
from .syscalls import ARCHITECTURES, SECCOMP, number

ALWAYS = (
    *(
        "ptrace",
        "process_vm_readv",
        "process_vm_writev",
        "process_madvise",
        "process_mrelease",
        "kcmp",
        "pidfd_getfd",
    ),
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("add_key", "request_key", "keyctl", "personality", "modify_ldt", "uselib", "_sysctl", "lookup_dcookie"),
    *(
        "mount",
        "umount2",
        "pivot_root",
        "chroot",
        "unshare",
        "setns",
        "mount_setattr",
        "open_tree",
        "open_tree_attr",
    ),
    *("move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "statmount", "listmount"),
    *("name_to_handle_at", "open_by_handle_at", "fanotify_init", "inotify_init", "inotify_init1"),
    *(
        "init_module",
        "finit_module",
        "delete_module",
        "kexec_load",
        "kexec_file_load",
        "reboot",
        "swapon",
        "swapoff",
    ),
    *(
        "acct",
        "quotactl",
        "quotactl_fd",
        "syslog",
        "vhangup",
        "iopl",
        "ioperm",
        "sethostname",
        "setdomainname",
    ),
    *("settimeofday", "clock_settime", "clock_adjtime", "adjtimex"),
    *("shmget", "shmat", "shmctl", "msgget", "semget", "mq_open", "memfd_create", "memfd_secret"),
    *("setpriority", "ioprio_set", "sched_setscheduler", "sched_setparam", "sched_setattr"),
    *("migrate_pages", "move_pages", "mbind"),
)
# Landlock does not cover metadata: without these, files outside could be touched, or their owner locked out.
METADATA = ("setxattr", "lsetxattr", "setxattrat", "removexattr", "lremovexattr", "removexattrat")
TIMES = ("utime", "utimes", "futimesat", "utimensat")
OWNERS = ("chown", "lchown", "fchownat")
MODES = ("chmod", "fchmodat", "fchmodat2")
SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal")
OWN_PROCESS_ONLY = ("prlimit64", "sched_setaffinity")
"""Allowed with pid 0, which is the caller."""

PRETEND, EPERM, ENOSYS, EAFNOSUPPORT = 0, 1, 38, 97
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10
NEW_NAMESPACE_FLAGS = 0x7E020080
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
O_TMPFILE = 0o20000000

_LOAD, _JUMP_EQUAL, _JUMP_NOT_LESS, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NUMBER_OFFSET, _ARCH_OFFSET, _ARGUMENT_OFFSET = 0, 4, 16
_X32_BIT = 0x40000000
_SET_MODE_FILTER, _FILTER_ALL_THREADS = 1, 1


@dataclass(frozen=True)
class Policy:
    """What differs between jails."""

    network: bool = False
    """Unix and internet sockets, for a jail with a network namespace of its own."""
    metadata: bool = True
    """False where files outside are in sight. Times and modes are answered with success and not changed, so
    that a program that copies files in its own folder goes on."""
    same_user: bool = False
    """The jailed process shares a uid with processes and files outside."""
    signals: bool = True
    """False where nothing else keeps signals inside the jail."""
    unnamed_files: bool = True
    """False where the disk is watched by listing it."""


def program(machine: str, policy: Policy) -> bytes:
    """The filter as an array of `struct sock_filter`."""
    if machine not in ARCHITECTURES:
        raise OSError(ENOSYS, f"no system call table for {machine}")
    code = [
        _one(_LOAD, _ARCH_OFFSET),
        _one(_JUMP_EQUAL, _AUDIT_ARCH[machine], 1, 0),
        _one(_RETURN, _KILL),
        _one(_LOAD, _NUMBER_OFFSET),
    ]
    if machine == "x86_64":
        code += [_one(_JUMP_NOT_LESS, _X32_BIT, 0, 1), _one(_RETURN, _ERRNO | EPERM)]
    names = [*ALWAYS, *(() if policy.metadata else METADATA), *(() if policy.signals else SIGNALS)]
    for name in (*names, *(OWNERS if policy.same_user else ())):
        code += _deny(name, machine, EPERM)
    for name in (*(() if policy.metadata else TIMES), *(MODES if policy.same_user else ())):
        code += _deny(name, machine, PRETEND)
    code += _deny(
        "clone3", machine, ENOSYS
    )  # its flags are behind a pointer; the C library falls back to clone
    code += _deny_if(machine, "clone", 0, [_one(_JUMP_ANY_BIT, NEW_NAMESPACE_FLAGS, 0, 1)], EPERM)
    for name in OWN_PROCESS_ONLY:
        code += _deny_if(machine, name, 0, [_one(_JUMP_EQUAL, 0, 1, 0)], EPERM)
    for request in (TIOCSTI, TIOCLINUX):
        code += _deny_if(machine, "ioctl", 1, [_one(_JUMP_EQUAL, request, 0, 1)], EPERM)
    if not policy.unnamed_files:
        code += _deny("openat2", machine, ENOSYS)
        code += _deny_if(machine, "open", 1, [_one(_JUMP_ANY_BIT, O_TMPFILE, 0, 1)], EPERM)
        code += _deny_if(machine, "openat", 2, [_one(_JUMP_ANY_BIT, O_TMPFILE, 0, 1)], EPERM)
    code += _sockets(machine, policy.network)
    code.append(_one(_RETURN, _ALLOW))
    return b"".join(code)


def load(code: bytes, machine: str) -> None:
    """Install the filter on every thread of this process. Needs no_new_privs. Raises OSError."""
    buffer = ctypes.create_string_buffer(code, len(code))
    header = _Program(len(code) // 8, ctypes.addressof(buffer))
    syscall(SECCOMP[ARCHITECTURES.index(machine)], _SET_MODE_FILTER, _FILTER_ALL_THREADS, header)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def _one(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _deny(name: str, machine: str, errno: int) -> list[bytes]:
    call = number(name, machine)
    return [] if call is None else [_one(_JUMP_EQUAL, call, 0, 1), _one(_RETURN, _ERRNO | errno)]


def _deny_if(machine: str, name: str, argument: int, test: list[bytes], errno: int) -> list[bytes]:
    """Deny when `test` falls through on the argument's low half; then restore the number."""
    call = number(name, machine)
    if call is None:
        return []
    body = [_one(_LOAD, _ARGUMENT_OFFSET + 8 * argument), *test, _one(_RETURN, _ERRNO | errno)]
    body.append(_one(_LOAD, _NUMBER_OFFSET))
    return [_one(_JUMP_EQUAL, call, 0, len(body)), *body]


def _sockets(machine: str, network: bool) -> list[bytes]:
    """No socket at all, or only families that a network namespace confines: not vsock, not netlink."""
    if not network:
        return _deny("socket", machine, EPERM)
    test = [
        _one(_JUMP_EQUAL, family, 3 - place, 0) for place, family in enumerate((AF_UNIX, AF_INET, AF_INET6))
    ]
    return _deny_if(machine, "socket", 0, test, EAFNOSUPPORT)
