"""What the torch thread tells the event loop about a row: its tokens, its completion, or its failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from trainsmith.engine.records import Completion

Item = tuple[int, float] | Completion | Exception
"""A token with its logprob, or the end."""


class Receiver(Protocol):
    """Told on the torch thread; never blocks."""

    def on_token(self, token: int, logprob: float) -> None:
        """A token was sampled."""

    def on_done(self, completion: Completion) -> None:
        """The row is complete."""

    def on_failed(self, error: Exception) -> None:
        """The row will never be complete."""


class Streamed:
    """Every item of one row, in an asyncio queue."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.items: asyncio.Queue[Item] = asyncio.Queue()

    def on_token(self, token: int, logprob: float) -> None:
        self._put((token, logprob))

    def on_done(self, completion: Completion) -> None:
        self._put(completion)

    def on_failed(self, error: Exception) -> None:
        self._put(error)

    def _put(self, item: Item) -> None:
        tell(self._loop, lambda: self.items.put_nowait(item))


class Gathered:
    """The completions of several rows, once all are there; the first failure ends the wait."""

    def __init__(self, count: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._done: list[Completion | None] = [None] * count
        self._missing = count
        self.result: asyncio.Future[list[Completion]] = self._loop.create_future()

    def receivers(self) -> Sequence[Receiver]:
        """One a row, in order."""
        return [_Part(self, index) for index in range(len(self._done))]

    def finish(self, index: int, completion: Completion) -> None:
        """On the torch thread."""
        self._done[index] = completion
        self._missing -= 1
        if not self._missing:
            done = [each for each in self._done if each is not None]
            tell(self._loop, lambda: self._end(done))

    def fail(self, error: Exception) -> None:
        """On the torch thread."""
        tell(self._loop, lambda: self._end(error))

    def _end(self, outcome: list[Completion] | Exception) -> None:
        if self.result.done():
            return
        if isinstance(outcome, Exception):
            self.result.set_exception(outcome)
        else:
            self.result.set_result(outcome)


class _Part:
    """One row of a gathering."""

    def __init__(self, whole: Gathered, index: int) -> None:
        self._whole, self._index = whole, index

    def on_token(self, token: int, logprob: float) -> None:
        """Only the completion counts."""

    def on_done(self, completion: Completion) -> None:
        self._whole.finish(self._index, completion)

    def on_failed(self, error: Exception) -> None:
        self._whole.fail(error)


def tell(loop: asyncio.AbstractEventLoop, action: Callable[[], object]) -> None:
    """Run `action` on the loop. A loop that has ended has nobody left to tell."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(action)
