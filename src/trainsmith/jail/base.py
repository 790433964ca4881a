"""What every kind of jail offers, and what they share."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pwd
import socket
from enum import StrEnum
from pathlib import Path
from typing import Literal, Protocol

from trainsmith.errors import MachineError
from trainsmith.jail import inside
from trainsmith.jail.command import ROOT, Command
from trainsmith.jail.inside.enter import Spec
from trainsmith.jail.inside.landlock import Paths
from trainsmith.jail.interpreter import Interpreter
from trainsmith.jail.process import JailProcess

ENTER = "trainsmith_enter"
ENTER_FOLDER = Path(inside.__file__).parent
_UIDS = range(52_000, 60_000)
"""Below 65536, so that they exist in a container with mapped users; above what distributions hand out."""

Input = Literal["none", "inherit"]
Output = Literal["pipe", "inherit"]


class JailKind(StrEnum):
    """The kinds of jail."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    NONE = "none"
    """No jail at all: for a person who runs their own code. Never chosen automatically."""


class Jail(Protocol):
    """A way to run a command that nobody trusts."""

    @property
    def kind(self) -> JailKind:
        """Which kind this is."""

    @property
    def own_signals(self) -> bool:
        """Whether signals that its processes send reach no process outside."""

    @property
    def interpreter(self) -> Interpreter:
        """The Python that it runs."""

    def start(self, command: Command, *, stdin: Input = "none", output: Output = "pipe") -> JailProcess:
        """Start a command. Raises MachineError when the jail cannot be built."""


def clean_environment(command: Command, root: str, packages: tuple[Path, ...]) -> dict[str, str]:
    """The whole environment of a jailed command: nothing of the caller's comes through."""
    scratch = f"{root}/tmp"
    base = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": scratch,
        "TMPDIR": scratch,
        "USER": "jail",
        "LOGNAME": "jail",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "PYTHONSAFEPATH": "1",
        "PYTHONPATH": ":".join([f"{root}/lib", *map(str, packages)]),
        "HF_HUB_OFFLINE": "1",
        "TRAINSMITH_JAIL": root,
    }
    return base | {name: value.replace(ROOT, root) for name, value in command.environment}


def enter_argv(command: Command, spec: Spec, root: str, interpreter: Interpreter) -> list[str]:
    """The command behind the step that confines it."""
    python = [str(interpreter.executable), "-S", "-s", "-m", ENTER]
    argv = [part.replace(ROOT, root) for part in command.argv]
    return [*python, json.dumps(dataclasses.asdict(spec)), *argv]


def spec_of(
    command: Command,
    *,
    uid: int | None,
    network: bool,
    paths: Paths | None,
    filtered: bool,
    shared_uid: bool = True,
) -> Spec:
    """How the command is confined.

    `shared_uid`: the kernel counts processes of the caller's user together with the jail's.
    """
    limits = command.limits
    others = _threads_of(os.geteuid()) if uid is None and shared_uid else 0
    return Spec(
        uid=uid,
        memory_bytes=limits.memory_bytes,
        processes=limits.processes + others,
        file_bytes=limits.file_bytes,
        open_files=limits.open_files,
        keep=command.inherit,
        network=network,
        paths=paths,
        filtered=filtered,
    )


def _threads_of(uid: int) -> int:
    """Threads of a user now: the kernel's limit counts threads, and all of the user's."""
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == uid:
                    count += len(list((entry / "task").iterdir()))
    return count


def claim_uid() -> tuple[int, socket.socket]:
    """A user id that owns nothing and that no other jail uses; the socket holds the claim while it is open.

    Raises MachineError when all are taken.
    """
    busy: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                busy.add(entry.stat().st_uid)
    for uid in _UIDS:
        if uid in busy or _named(uid):
            continue
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0trainsmith-jail-{uid}")
        except OSError:
            claim.close()
            continue
        return uid, claim
    raise MachineError("no free user id for a jail", fix="end other trainsmith processes")


def _named(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
