"""One worker from outside: its channel, its rollouts, its signs of life."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from trainsmith.jail.border.channel import Channel
from trainsmith.jail.border.run import Run
from trainsmith.jail.border.worker import messages as wire
from trainsmith.jail.border.worker.frames import BadFrame

_CHATTER_AT_ONCE, _CHATTER_A_SECOND = 20, 20.0
_BUFFER_BYTES = 1 << 20


class Slot:
    """A worker and what it plays."""

    def __init__(
        self,
        number: int,
        solo: bool,
        on_change: Callable[[], None],
        on_end: Callable[[Slot, Exception | None], None],
    ) -> None:
        """`on_change` when it can take more work; `on_end(slot, error)` once when its stream ends."""
        mine, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        for end in (mine, self.theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        self.number = number
        self.solo = solo
        self.runs: dict[int, Run] = {}
        self.up = False
        self.born = self.seen = time.monotonic()
        self.suspect: int | None = None
        self.place = ""
        self.killed = ""
        """Why it was killed; empty while it lives."""
        self.broke_protocol = False
        self._chatter = 0
        self._on_change = on_change
        self._on_end = on_end
        self._channel = Channel(mine, self._frame, self._end)

    def play(self, run: Run) -> None:
        """Give it a rollout."""
        self.runs[run.number] = run
        run.start()
        self._channel.send(wire.pack(wire.Play(run.number, run.index)))

    def cancel(self, run: Run) -> None:
        """Ask it to end a rollout."""
        run.cancelled_at = time.monotonic()
        self._channel.send(wire.pack(wire.Cancel(run.number)))

    def close(self) -> None:
        """Close the channel; `on_end` is not called."""
        self._channel.close()
        self.theirs.close()

    def _frame(self, frame: tuple[str, list[object]]) -> None:
        message = wire.read(frame, wire.FROM_WORKER)
        now = time.monotonic()
        if not isinstance(message, wire.Stuck):
            self.seen = now  # the watchdog's thread must not count as life of the loop
        match message:
            case wire.Generate():
                self._run(message.rollout).call(message, self._channel.send)
            case wire.Done():
                self._run(message.rollout)
                self.runs.pop(message.rollout).done(message)
                self._on_change()
            case _:
                self._hear(message, now)

    def _hear(self, message: wire.Up | wire.Beat | wire.Stuck, now: float) -> None:
        self._chatter += 1
        if self._chatter > _CHATTER_AT_ONCE + _CHATTER_A_SECOND * (now - self.born):
            raise BadFrame("a flood of messages")
        match message:
            case wire.Up():
                self.up = True
                self._on_change()
            case wire.Stuck():
                self.suspect, self.place = message.rollout, message.where
            case wire.Beat():
                self.suspect = None

    def _run(self, number: int) -> Run:
        run = self.runs.get(number)
        if run is None:
            raise BadFrame("a message about a rollout that this worker does not play")
        return run

    def _end(self, error: Exception | None) -> None:
        self.broke_protocol = isinstance(error, BadFrame)
        self._on_end(self, error)
