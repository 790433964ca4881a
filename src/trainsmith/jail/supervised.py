"""Start a command under a supervisor that outlives the caller, in a folder of its own on disk.

For the kinds of jail without a process namespace: the supervisor ends every process of the jail when the
command ends, when `kill` is called, and when the caller is gone for any reason; then it removes the folder.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from trainsmith.errors import MachineError
from trainsmith.jail.base import ENTER, ENTER_FOLDER, Input, Output, clean_environment, enter_argv
from trainsmith.jail.command import Command
from trainsmith.jail.inside.enter import Spec
from trainsmith.jail.inside.unpack import pack, unpack
from trainsmith.jail.interpreter import Interpreter
from trainsmith.jail.process import JailProcess
from trainsmith.jail.readable import copy

PREFIX = "trainsmith-jail-"


class Supervised:
    """One command with its folder; the folder is gone when the command is."""

    def __init__(
        self, command: Command, interpreter: Interpreter, uid: int | None, claim: socket.socket | None
    ) -> None:
        """Make the folder. `uid` is the user that the command becomes, `claim` what holds that id."""
        self._command = command
        self._interpreter = interpreter
        self._uid = uid
        self._claim = claim
        self._work = Path(tempfile.mkdtemp(prefix=PREFIX))
        try:
            self._furnish()
        except OSError as error:
            self._clean()
            raise MachineError(f"the jail's folder cannot be made: {error}", where=str(self._work)) from error

    @property
    def scratch(self) -> Path:
        """The folder that the command may write."""
        return self._work / "tmp"

    def readable(self) -> list[Path]:
        """The folders that the command may read."""
        names = [item.name for item in self._command.folders] + [group.name for group in self._command.files]
        return [self._work / name for name in ("lib", *names)]

    def start(self, spec: Spec, stdin: Input, output: Output) -> JailProcess:
        """Start it. Raises MachineError."""
        hang_up, mine = os.pipe()
        try:
            outer = subprocess.Popen(
                self._argv(spec, hang_up),
                env=clean_environment(self._command, str(self._work), self._interpreter.packages),
                cwd=self.scratch,
                pass_fds=(*self._command.inherit, hang_up),
                stdin=None if stdin == "inherit" else subprocess.DEVNULL,
                stdout=subprocess.PIPE if output == "pipe" else None,
                stderr=subprocess.STDOUT if output == "pipe" else None,
                start_new_session=True,
            )
        except OSError as error:
            os.close(mine)
            self._clean()
            raise MachineError(
                f"the jail does not start: {error}", where=str(self._interpreter.executable)
            ) from error
        finally:
            os.close(hang_up)
        return JailProcess(outer, hang_up=mine, clean=self._clean, disk=self.scratch)

    def _argv(self, spec: Spec, hang_up: int) -> list[str]:
        python = [str(self._interpreter.executable), "-S", "-s", "-m", f"{ENTER}.supervise"]
        supervise = [*python, str(hang_up), str(-1 if self._uid is None else self._uid), str(self._work)]
        return [*supervise, *enter_argv(self._command, spec, str(self._work), self._interpreter)]

    def _furnish(self) -> None:
        self._work.chmod(0o755)
        copy(ENTER_FOLDER, self._work / "lib" / ENTER)
        for item in self._command.folders:
            copy(item.source, self._work / item.name)
        for group in self._command.files:
            (self._work / group.name).mkdir(mode=0o755, parents=True)
            unpack(pack((file.path, file.content) for file in group.snapshot.files), self._work / group.name)
        self.scratch.mkdir(mode=0o700)
        if self._uid is not None:
            os.chown(self.scratch, self._uid, self._uid)

    def _clean(self) -> None:
        shutil.rmtree(self._work, ignore_errors=True)
        if self._claim is not None:
            self._claim.close()
