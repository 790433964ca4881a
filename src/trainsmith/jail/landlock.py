"""The jail without namespaces: Landlock, a system call filter and limits; as root also a user of its own.

For unprivileged containers. The jail's folder lies on disk and is watched by size; its processes share the
machine's process ids. It does not protect against bugs of the kernel, and cannot hide that files outside
exist.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from pathlib import Path

from trainsmith.errors import MachineError
from trainsmith.jail.base import Input, JailKind, Output, claim_uid, spec_of
from trainsmith.jail.command import Command
from trainsmith.jail.inside.landlock import SIGNALS_SINCE, Paths, version
from trainsmith.jail.interpreter import Interpreter, current
from trainsmith.jail.process import JailProcess
from trainsmith.jail.supervised import Supervised

_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system/cpu"),
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


@dataclass(frozen=True)
class Landlock:
    """Landlock, from Linux 5.13 on."""

    interpreter: Interpreter = field(default_factory=current)
    kind: JailKind = JailKind.LANDLOCK

    @property
    def own_signals(self) -> bool:
        """Whether the jail has a user of its own, or the kernel's Landlock holds signals."""
        return os.geteuid() == 0 or version() >= SIGNALS_SINCE

    def start(self, command: Command, *, stdin: Input = "none", output: Output = "pipe") -> JailProcess:
        """Start a command. Raises MachineError when the jail cannot be built."""
        if version() < 1:
            raise MachineError(
                "this kernel has no Landlock", fix="use Linux 5.13 or later with Landlock enabled"
            )
        uid, claim = self._own_user()
        supervised = Supervised(command, self.interpreter, uid, claim)
        paths = Paths(
            read=(*_SYSTEM, *map(str, self.interpreter.needs), *map(str, supervised.readable())),
            write=(str(supervised.scratch),),
            devices=_DEVICES,
        )
        return supervised.start(
            spec_of(command, uid=uid, network=False, paths=paths, filtered=True), stdin, output
        )

    def _own_user(self) -> tuple[int | None, socket.socket | None]:
        if os.geteuid() != 0:
            return None, None
        for path in (self.interpreter.executable, *self.interpreter.needs, *self.interpreter.packages):
            closed = _closed_to_others(path)
            if closed is not None:
                raise MachineError(
                    "as root, the Landlock jail runs Python as another user, who cannot enter this folder",
                    where=str(closed),
                    fix="install bubblewrap, or use a Python and a virtual environment that all may read",
                )
        return claim_uid()


def _closed_to_others(path: Path) -> Path | None:
    """The first folder on the way to a path that other users may not enter."""
    for place in (path, path.resolve()):
        for folder in reversed(place.parents):
            if not folder.stat().st_mode & 0o001:
                return folder
    return None
