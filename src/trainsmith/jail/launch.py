"""Run one command in a jail to its end, blocking: what `trainsmith jail -- COMMAND` does.

The output is kept up to a limit; what comes after it is read and dropped.
"""

from __future__ import annotations

import os
import select
import time

from trainsmith.jail.base import Input, Jail, Output
from trainsmith.jail.command import Command
from trainsmith.jail.process import JailProcess
from trainsmith.jail.watch import PERIOD_SECONDS, Excess, excess
from trainsmith.records import Record

_OUTPUT_BYTES = 1 << 20
_READ_BYTES = 1 << 16


class Finished(Record):
    """How a jailed command ended; by then all its processes are dead."""

    status: int
    """Exit status; 128 + n or -n when signal n ended it."""
    excess: Excess | None
    """The limit for which it was killed."""
    output: str
    """What it printed, when it was piped."""


def run(jail: Jail, command: Command, *, stdin: Input = "none", output: Output = "pipe") -> Finished:
    """Run it; any exception, also Ctrl-C, ends it at once. Raises MachineError when there is no jail."""
    process = jail.start(command, stdin=stdin, output=output)
    try:
        passed, said = _follow(process, command, piped=output == "pipe")
    finally:
        process.kill()
        status = process.wait()
    return Finished(status=status or 0, excess=passed, output=said.decode(errors="replace"))


def _follow(process: JailProcess, command: Command, *, piped: bool) -> tuple[Excess | None, bytes]:
    started = looked = time.monotonic()
    said = bytearray()
    while process.running():
        if piped:
            said += _read(process.output)[: max(0, _OUTPUT_BYTES - len(said))]
        else:
            time.sleep(0.01)
        now = time.monotonic()
        if now - looked > PERIOD_SECONDS:
            looked = now
            passed = excess(process, command.limits, now - started)
            if passed is not None:
                return passed, bytes(said)
    if piped:
        while piece := _read(process.output):
            said += piece[: max(0, _OUTPUT_BYTES - len(said))]
    return None, bytes(said)


def _read(descriptor: int) -> bytes:
    """What is there to read within a moment; empty at the end."""
    if not select.select([descriptor], [], [], 0.02)[0]:
        return b""
    piece = os.read(descriptor, _READ_BYTES)
    if not piece:
        time.sleep(0.01)  # the end of the output is not the end of the process
    return piece
