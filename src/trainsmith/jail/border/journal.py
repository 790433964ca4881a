"""The replies of one rollout. When its worker dies and it is played again, equal calls get the same replies.

A call is known by its agent, its messages, and how often this attempt made it before.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from trainsmith.jail.border.records import GenerateReply
from trainsmith.jail.border.worker.messages import Chat

_Key = tuple[str | None, bytes, int]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call stands in its rollout."""

    call: int
    """Number of the call; the same in every attempt."""
    previous: int | None
    known: int
    digest: bytes
    """Of all messages."""
    new: bool
    """Not sampled before."""


class Journal:
    """Calls and replies of one rollout over all attempts."""

    def __init__(self) -> None:
        self._numbers: dict[_Key, int] = {}
        self._replies: dict[int, asyncio.Future[GenerateReply]] = {}
        self._made: Counter[tuple[str | None, bytes]] = Counter()
        self._ends: dict[tuple[int, bytes], int] = {}
        self._calls: dict[int, list[int]] = {}

    def restart(self) -> None:
        """Begin another attempt."""
        self._made.clear()
        self._ends.clear()
        self._calls.clear()

    def place(self, trace: int, agent: str | None, messages: tuple[Chat, ...]) -> Place:
        """Number a call of the current attempt."""
        digests = chain(messages)
        whole = digests[-1]
        key = (agent, whole, self._made[agent, whole])
        self._made[agent, whole] += 1
        new = key not in self._numbers
        call = self._numbers.setdefault(key, len(self._numbers))
        self._calls.setdefault(trace, []).append(call)
        for known in range(len(messages) - 1, 0, -1):
            previous = self._ends.get((trace, digests[known]))
            if previous is not None:
                return Place(call, previous, known, whole, new)
        return Place(call, None, 0, whole, new)

    async def reply(self, call: int, sample: Callable[[], asyncio.Future[GenerateReply]]) -> GenerateReply:
        """The reply of a call, sampled at most once; a failed sample is tried again.

        Cancelling leaves it running.
        """
        future = self._replies.get(call)
        if future is None or (future.done() and (future.cancelled() or future.exception() is not None)):
            future = self._replies[call] = sample()
        return await asyncio.shield(future)

    def commit(self, trace: int, place: Place, text: str) -> None:
        """The reply was given: later calls of the trace may continue it."""
        self._ends[trace, extend(place.digest, Chat("assistant", text))] = place.call

    def calls(self, trace: int) -> tuple[int, ...]:
        """The calls that a trace made in the current attempt."""
        return tuple(self._calls.get(trace, ()))

    def close(self) -> None:
        """Stop what is still being sampled."""
        for future in self._replies.values():
            future.cancel()


def chain(messages: tuple[Chat, ...]) -> list[bytes]:
    """Digests of every beginning of a conversation, the empty one first."""
    digests = [b""]
    for message in messages:
        digests.append(extend(digests[-1], message))
    return digests


def extend(digest: bytes, message: Chat) -> bytes:
    """The digest of a conversation with one more message."""
    body = f"{message.role}\0{message.content}".encode()
    return hashlib.blake2b(digest + body, digest_size=16).digest()
