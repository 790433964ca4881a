"""No jail: the command runs as the caller, with limits and a clean environment only. For a person's own code.

Never chosen automatically. It does not keep the command from any file, process or network.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trainsmith.jail.base import Input, JailKind, Output, spec_of
from trainsmith.jail.command import Command
from trainsmith.jail.interpreter import Interpreter, current
from trainsmith.jail.process import JailProcess
from trainsmith.jail.supervised import Supervised


@dataclass(frozen=True)
class Unjailed:
    """The explicit way to run without a jail."""

    interpreter: Interpreter = field(default_factory=current)
    kind: JailKind = JailKind.NONE

    @property
    def own_signals(self) -> bool:
        """False: nothing holds them."""
        return False

    def start(self, command: Command, *, stdin: Input = "none", output: Output = "pipe") -> JailProcess:
        """Start a command. Raises MachineError when it does not start."""
        supervised = Supervised(command, self.interpreter, None, None)
        return supervised.start(
            spec_of(command, uid=None, network=True, paths=None, filtered=False), stdin, output
        )
