"""The jailed zygote from outside: starts the jail, loads the package, lists tasks, forks and kills workers.

It does not know rollouts. When the zygote is gone, so is everything; `on_gone` says so once.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainsmith.errors import MachineError
from trainsmith.jail.base import Jail
from trainsmith.jail.border import worker
from trainsmith.jail.border.channel import Channel
from trainsmith.jail.border.failure import EnvironmentFailed, Reason
from trainsmith.jail.border.records import TimeLimits
from trainsmith.jail.border.worker import messages as wire
from trainsmith.jail.border.worker.frames import BadFrame
from trainsmith.jail.command import Command, Files, Folder
from trainsmith.jail.limits import JailLimits
from trainsmith.jail.process import JailProcess
from trainsmith.jail.snapshot import Snapshot

WORKER = "trainsmith_worker"
_WORKER_FOLDER = Path(worker.__file__).parent
_TAIL_BYTES = 16_384
_PIPE_BYTES = 1 << 20
_DEATH_SECONDS = 30.0
"""Much more than it takes; past it, processes stay that no signal ends."""
_MAX_ROWS_TEXT = 1 << 28
_CHATTER_AT_ONCE, _CHATTER_A_SECOND = 1000, 200.0


@dataclass(frozen=True)
class Order:
    """What to run, and within which bounds."""

    files: Snapshot
    """The folder that holds the package."""
    package: str
    arguments: str
    """JSON object for the taskset's config."""
    limits: JailLimits
    times: TimeLimits
    fast: bool
    max_tasks: int
    max_turns: int
    hash_seed: int


class Nursery:
    """One jail with its zygote."""

    def __init__(
        self,
        jail: Jail,
        order: Order,
        on_exit: Callable[[int, int], None],
        on_gone: Callable[[Exception | None], None],
    ) -> None:
        """`on_exit(worker, wait status)` for each worker that ended; `on_gone(error)` when the zygote is."""
        self._jail = jail
        self._order = order
        self._on_exit = on_exit
        self._on_gone = on_gone
        self._process: JailProcess | None = None
        self._channel: Channel | None = None
        self._answers: asyncio.Queue[wire.FromZygote | Exception | None] = asyncio.Queue()
        self._forks: dict[int, asyncio.Future[bool]] = {}
        self._asking = asyncio.Lock()
        self._place = ""
        self._output: deque[bytes] = deque()
        self._heard = 0
        self._born = time.monotonic()
        self.printed = 0
        """Bytes that the author's code printed."""

    # ---- life

    async def open(self) -> wire.Ready:
        """Start the jail and load the package. Raises EnvironmentFailed or MachineError."""
        self._start()
        times = self._order.times
        await self._greeting(times.start_seconds)
        self._tell(
            wire.Load(
                package=self._order.package,
                arguments=self._order.arguments,
                max_tasks=self._order.max_tasks,
                max_turns=self._order.max_turns,
                hook_seconds=times.hook_seconds,
                rollout_seconds=times.rollout_seconds,
                stuck_seconds=times.block_seconds / 2,
                place_seconds=times.open_seconds / 2,
                fast=self._order.fast,
            )
        )
        answer = await self._answer(times.open_seconds)
        if not isinstance(answer, wire.Ready):
            raise self._broken(f"{type(answer).__name__} instead of Ready")
        return answer

    def kill(self) -> None:
        """End everything inside. Thread-safe; returns at once."""
        if self._process is not None:
            self._process.kill()

    async def close(self) -> None:
        """End everything inside and wait until it is dead."""
        self.kill()
        if self._channel is not None:
            self._channel.close()
        if self._process is None:
            return
        with contextlib.suppress(ValueError):
            asyncio.get_running_loop().remove_reader(self._process.output)
        try:
            await asyncio.wait_for(self._process.ended(), _DEATH_SECONDS)
        except TimeoutError:
            raise MachineError(
                "the jail's processes do not die", where=f"process {self._process.pid}"
            ) from None

    @property
    def output_tail(self) -> str:
        """The end of what the author's code printed."""
        return b"".join(self._output)[-_TAIL_BYTES:].decode(errors="replace")

    @property
    def process(self) -> JailProcess:
        """The running jail."""
        if self._process is None:
            raise RuntimeError("the jail is not started")
        return self._process

    # ---- requests

    async def rows(self, start: int, stop: int) -> tuple[wire.Row, ...]:
        """Tasks [start, stop). Raises EnvironmentFailed."""
        found: list[wire.Row] = []
        size = 0
        async with self._asking:
            while start + len(found) < stop:
                at = start + len(found)
                self._tell(wire.List(at, min(stop, at + wire.MAX_PAGE)))
                answer = await self._answer(self._order.times.open_seconds)
                if not isinstance(answer, wire.Rows) or answer.start != at or not answer.rows:
                    raise self._broken("an answer to another question")
                found += answer.rows
                size += sum(len(row.fields) + _length(row) for row in answer.rows)
                if size > _MAX_ROWS_TEXT:
                    what = f"the tasks hold more than {_MAX_ROWS_TEXT} characters"
                    raise EnvironmentFailed(Reason.TOO_LARGE, what, fix="keep tasks small")
        return tuple(found[: stop - start])

    async def fork(self, number: int, theirs: socket.socket) -> bool:
        """Fork a worker on a socket; False when there is no room for another process.

        Raises EnvironmentFailed.
        """
        channel = self._open_channel()
        future = self._forks[number] = asyncio.get_running_loop().create_future()
        try:
            channel.send_descriptor(wire.pack(wire.Fork(number)), theirs.fileno())
            return await asyncio.wait_for(future, self._order.times.block_seconds)
        except (TimeoutError, OSError):
            return False
        finally:
            self._forks.pop(number, None)

    def kill_worker(self, number: int) -> None:
        """Kill one worker."""
        if self._channel is not None:
            self._channel.send(wire.pack(wire.Kill(number)))

    # ---- inside

    def _start(self) -> None:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        python = str(self._jail.interpreter.executable)
        command = Command(
            argv=(python, "-m", WORKER, str(theirs.fileno())),
            folders=(Folder(_WORKER_FOLDER, f"lib/{WORKER}"),),
            files=(Files(self._order.files, "environment"),),
            environment=(
                ("TRAINSMITH_OWN_SIGNALS", str(int(self._jail.own_signals))),
                ("PYTHONHASHSEED", str(self._order.hash_seed)),
            ),
            inherit=(theirs.fileno(),),
            limits=self._order.limits,
        )
        try:
            self._process = self._jail.start(command)
        except BaseException:
            mine.close()
            raise
        finally:
            theirs.close()
        os.set_blocking(self._process.output, False)
        with contextlib.suppress(OSError):  # over the user's limit of pipe memory
            fcntl.fcntl(self._process.output, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        asyncio.get_running_loop().add_reader(self._process.output, self._drain)
        self._channel = Channel(mine, self._frame, self._end)

    def _tell(self, message: wire.ToZygote) -> None:
        self._open_channel().send(wire.pack(message))

    def _open_channel(self) -> Channel:
        if self._channel is None:
            raise RuntimeError("the jail is not started")
        return self._channel

    def _drain(self) -> None:
        """Keep the end of the output; a jail that prints without end costs no memory here."""
        output = self.process.output
        try:
            data = os.read(output, _PIPE_BYTES)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(output)
        self.printed += len(data)
        self._output.append(data[-_TAIL_BYTES:])
        while sum(map(len, self._output)) - len(self._output[0]) > _TAIL_BYTES:
            self._output.popleft()

    def _frame(self, frame: tuple[str, list[object]]) -> None:
        message = wire.read(frame, wire.FROM_ZYGOTE)
        self._heard += 1
        if self._heard > _CHATTER_AT_ONCE + _CHATTER_A_SECOND * (time.monotonic() - self._born):
            raise BadFrame("a flood of messages")
        match message:
            case wire.Exited():
                self._on_exit(message.worker, message.status)
            case wire.Forked():
                future = self._forks.get(message.worker)
                if future is not None and not future.done():
                    future.set_result(message.ok)
            case wire.Place():
                self._place = message.where
            case _:
                if self._answers.qsize() > 4:
                    raise BadFrame("answers that nobody asked for")
                self._answers.put_nowait(message)

    def _end(self, error: Exception | None) -> None:
        self._answers.put_nowait(error)
        for future in self._forks.values():
            if not future.done():
                future.set_result(False)
        self._on_gone(error)

    async def _greeting(self, seconds: float) -> None:
        try:
            answer = await asyncio.wait_for(self._answers.get(), seconds)
        except TimeoutError:
            answer = None
        if not isinstance(answer, wire.Hello):
            last = self.output_tail.strip().rpartition("\n")[2]
            raise MachineError(
                f"the jailed worker does not start: {last or 'no word from it'}",
                where=self._jail.kind,
                fix="run `trainsmith doctor`",
            )

    async def _answer(self, seconds: float) -> wire.FromZygote:
        """The zygote's next answer. Raises EnvironmentFailed for Failed, silence, or the end."""
        try:
            answer = await asyncio.wait_for(self._answers.get(), seconds)
        except TimeoutError:
            raise self._hung(seconds) from None
        if answer is None:
            raise EnvironmentFailed(
                Reason.EXITED,
                "the package ends its own process",
                where=self._place,
                fix="remove os._exit, kill, and whatever ends the process",
                output=self.output_tail,
            )
        if isinstance(answer, BadFrame):
            raise self._broken(str(answer))
        if isinstance(answer, Exception):
            raise MachineError(f"the border failed: {answer!r}") from answer
        if isinstance(answer, wire.Failed):
            known = {reason.value: reason for reason in Reason}
            reason = known.get(answer.reason, Reason.PROTOCOL)
            raise EnvironmentFailed(
                reason, answer.what, where=answer.where, fix=answer.fix, output=self.output_tail
            )
        return answer

    def _hung(self, seconds: float) -> EnvironmentFailed:
        many = self._order.limits.processes // 2
        if self.process.usage().processes > many:
            what, fix = "the package starts processes without end", "start no process at import or in load()"
            return EnvironmentFailed(Reason.FORKED, what, where=self._place, fix=fix, output=self.output_tail)
        what = f"the package is not loaded after {seconds:g} s"
        fix = "make import and load() fast, and end every loop"
        return EnvironmentFailed(Reason.HUNG, what, where=self._place, fix=fix, output=self.output_tail)

    def _broken(self, what: str) -> EnvironmentFailed:
        fix = "leave the worker's sockets and processes alone"
        return EnvironmentFailed(
            Reason.PROTOCOL, f"the worker broke the protocol: {what}", fix=fix, output=self.output_tail
        )


def _length(row: wire.Row) -> int:
    return sum(len(message.content) for message in row.messages or ())
