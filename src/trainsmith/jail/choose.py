"""Choose a jail by really running a small process in it that tries the walls.

It never falls back to no jail.
"""

from __future__ import annotations

import functools
import os
import socket
import tempfile
from pathlib import Path

from trainsmith.errors import MachineError, TrainsmithError, UserError
from trainsmith.jail.base import ENTER, Jail, JailKind
from trainsmith.jail.bubblewrap import Bubblewrap, find
from trainsmith.jail.command import Command
from trainsmith.jail.landlock import Landlock
from trainsmith.jail.launch import run
from trainsmith.jail.limits import JailLimits
from trainsmith.jail.unjailed import Unjailed
from trainsmith.records import Record

_TEST_SECONDS = 30.0
_INSTALL = "install bubblewrap 0.8 or later, for example `apt-get install bubblewrap`"
_READABLE = "see what it says; every user must be able to read this Python and its packages (`chmod -R o+rX`)"
_UNJAILED = 'or, to run code that you trust without any jail, set jail = "none"'


class JailReport(Record):
    """What one kind of jail does on this machine."""

    kind: JailKind
    works: bool
    why: str
    fix: str = ""


def choose(kind: str = "auto") -> Jail:
    """The best jail that works here, or the one named.

    Raises UserError for an unknown name, MachineError when none works.
    """
    if kind == "auto":
        reports = [_probe(candidate) for candidate in (JailKind.BUBBLEWRAP, JailKind.LANDLOCK)]
        for report in reports:
            if report.works:
                return _build(report.kind)
        why = "; ".join(f"{report.kind}: {report.why}" for report in reports)
        raise MachineError(f"no jail works on this machine ({why})", fix=f"{reports[0].fix}; {_UNJAILED}")
    if kind not in tuple(JailKind):
        names = ", ".join(("auto", *JailKind))
        raise UserError(f"there is no jail named {kind!r}", where="jail", fix=f"use one of {names}")
    named = JailKind(kind)
    report = _probe(named)
    if not report.works:
        raise MachineError(f"the {named} jail does not work on this machine: {report.why}", fix=report.fix)
    return _build(named)


def available() -> tuple[JailReport, ...]:
    """Every kind of jail, in the order in which `choose` would take it, with what was found. Never raises."""
    return tuple(_probe(kind) for kind in (JailKind.BUBBLEWRAP, JailKind.LANDLOCK))


def _build(kind: JailKind) -> Jail:
    if kind is JailKind.BUBBLEWRAP:
        program = find()
        if program is None:
            raise MachineError("bubblewrap is not installed", fix=_INSTALL)
        return Bubblewrap(program)
    return Landlock() if kind is JailKind.LANDLOCK else Unjailed()


@functools.cache
def _probe(kind: JailKind) -> JailReport:
    """Try a kind once in this process."""
    if kind is JailKind.NONE:
        return JailReport(kind=kind, works=True, why="named explicitly: no protection at all")
    try:
        jail = _build(kind)
        found = test(jail)
    except TrainsmithError as error:
        return JailReport(
            kind=kind, works=False, why=str(error).partition(". Fix:")[0], fix=error.fix or _INSTALL
        )
    if found:
        return JailReport(kind=kind, works=False, why=found, fix=_READABLE)
    user = "its own user" if os.geteuid() == 0 else "your user"
    walls = "namespaces" if kind is JailKind.BUBBLEWRAP else "Landlock"
    return JailReport(
        kind=kind, works=True, why=f"{walls}, {user}, a system call filter and limits; tried just now"
    )


def test(jail: Jail) -> str:
    """Run the self-test in a jail: "" when every wall holds, else what does not.

    Raises MachineError when it does not start.
    """
    python = str(jail.interpreter.executable)
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as server:
        secret = Path(folder, "secret")
        secret.write_text("a file that no jail may read")
        secret.chmod(0o644)
        Path(folder).chmod(0o777)
        port = str(server.getsockname()[1])
        argv = (python, "-S", "-s", "-m", f"{ENTER}.selftest", str(secret), port)
        end = run(jail, Command(argv, limits=JailLimits(wall_seconds=_TEST_SECONDS)))
    if end.excess is not None:
        return f"its self-test did not end within {_TEST_SECONDS:g} s"
    said = end.output.strip().replace("\n", ", ")[:2000]
    if end.status == 0 and said == "jailed":
        return ""
    return f"its self-test ended with status {end.status}" if said in ("", "jailed") else said
