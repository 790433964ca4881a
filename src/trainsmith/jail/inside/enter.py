"""Confine this process for good, then become the jailed command.

Order matters: descriptors, limits, another user, no new privileges, Landlock, the system call filter, the
command. Every step raises on failure, so that the command never runs half confined.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from . import kernel, landlock, seccomp
from .unpack import unpack

FAILED = 125
"""Exit status when the process could not be confined."""


@dataclass(frozen=True)
class Spec:
    """What `enter` is told; crosses as JSON in the first argument."""

    uid: int | None
    """The user to become; None to stay."""
    memory_bytes: int
    processes: int
    file_bytes: int
    open_files: int
    keep: tuple[int, ...]
    """Descriptors above 2 that the command inherits."""
    network: bool
    paths: landlock.Paths | None
    """Landlock's paths; None where mounts hide the disk."""
    filtered: bool
    """False only without a jail: limits alone."""
    packed: tuple[tuple[int, str], ...] = ()
    """Descriptors that hold packed files, each with the folder to unpack them in."""


def main() -> None:
    """Run from the command line: SPEC COMMAND..."""
    try:
        spec, command = parse(sys.argv[1]), sys.argv[2:]
        confine(spec)
    except (OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"trainsmith jail: cannot confine the process: {error}\n")
        raise SystemExit(FAILED) from error
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"trainsmith jail: {command[0]}: {error.strerror}\n")
        raise SystemExit(127) from error


def parse(text: str) -> Spec:
    """Read the first argument."""
    fields = json.loads(text)
    paths = fields.pop("paths")
    keep = tuple(fields.pop("keep"))
    packed = tuple((descriptor, folder) for descriptor, folder in fields.pop("packed"))
    return Spec(**fields, keep=keep, packed=packed, paths=None if paths is None else landlock.Paths(**paths))


def confine(spec: Spec) -> None:
    """Give up everything that `spec` does not leave. Raises OSError."""
    for descriptor, folder in spec.packed:
        with os.fdopen(descriptor, "rb") as file:
            unpack(file.read(), Path(folder))
    _close_descriptors(spec.keep)
    _limit(spec)
    if spec.uid is not None:
        _become(spec.uid)
    os.umask(0o077)
    if not spec.filtered:
        return
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    same_user = spec.uid is None and spec.paths is not None
    version = landlock.version() if spec.paths is not None else 0
    if spec.paths is not None:
        own = (f"/proc/{os.getpid()}",)
        landlock.restrict(landlock.Paths((*spec.paths.read, *own), spec.paths.write, spec.paths.devices))
    policy = seccomp.Policy(
        network=spec.network,
        metadata=spec.paths is None,
        same_user=same_user,
        signals=not same_user or version >= landlock.SIGNALS_SINCE,
        unnamed_files=spec.paths is None,
    )
    machine = platform.machine()
    seccomp.load(seccomp.program(machine, policy), machine)


def _close_descriptors(keep: tuple[int, ...]) -> None:
    low = 3
    for descriptor in sorted(keep):
        os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, 1 << 16)
    for descriptor in keep:
        os.set_inheritable(descriptor, True)


def _limit(spec: Spec) -> None:
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_AS: spec.memory_bytes,
        resource.RLIMIT_NPROC: spec.processes,
        resource.RLIMIT_FSIZE: spec.file_bytes,
        resource.RLIMIT_NOFILE: spec.open_files,
    }
    for name, value in wanted.items():
        hard = resource.getrlimit(name)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (value, value))


def _become(uid: int) -> None:
    """Change to a user that owns nothing, for good."""
    for capability in range(kernel.LAST_CAPABILITY + 1):
        try:
            kernel.prctl(kernel.PR_CAPBSET_DROP, capability)
        except OSError:
            break  # past the kernel's last capability
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    kernel.drop_capabilities()
