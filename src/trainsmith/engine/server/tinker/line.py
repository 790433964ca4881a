"""Requests of one training run in the order of their numbers, whatever order they arrive in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Line:
    """The SDK numbers a run's requests from 1 without gaps, and sends some of them in parallel."""

    def __init__(self) -> None:
        self._next = 1
        self._last = 0
        self._waiting: dict[int, asyncio.Event] = {}

    def number(self, given: int | None) -> int:
        """The request's place: its own, or the one after all that have been placed."""
        place = self._last + 1 if given is None else given
        self._last = max(self._last, place)
        return place

    def is_over(self, number: int) -> bool:
        """Whether the turn of this number has passed."""
        return number < self._next

    @asynccontextmanager
    async def turn(self, number: int) -> AsyncIterator[None]:
        """Wait until all lower numbers are over; the turn lasts until the context ends."""
        if number > self._next:
            await self._waiting.setdefault(number, asyncio.Event()).wait()
        try:
            yield
        finally:
            self._next = max(self._next, number + 1)
            if event := self._waiting.pop(self._next, None):
                event.set()
