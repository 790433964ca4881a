"""Which requests are decoded together, and which prompts read together, within bounds of memory. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainsmith.engine.records import SampleRequest
from trainsmith.engine.token_tree import Indices, common_prefix


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Bounds of one decode batch."""

    rows: int
    cache_bytes: int
    """Keys and values of prompts and new tokens; padding may take as much again, a single request more."""
    prefill_tokens: int
    """Packed prompt tokens of one forward pass; a single prompt may have more."""


class Fill:
    """What a decode batch would hold, request by request: header once, tails padded to the longest, replies.

    `token_bytes` is the size of one token's keys and values.
    """

    def __init__(self, limits: BatchLimits, token_bytes: int, tokens: int = 0, rows: int = 0) -> None:
        """`tokens` and `rows` are there already."""
        self._rows = limits.rows - rows
        self._room = limits.cache_bytes // token_bytes - tokens
        self._prompts: set[tuple[int, ...]] = set()
        self._first: Indices = np.empty(0, dtype=np.int64)
        self._header = self._longest_prompt = self._longest_reply = 0
        self._alone = rows == 0
        self.joined = 0
        """Requests that were added."""

    def add(self, request: SampleRequest) -> bool:
        """Add a request if it fits; the first of an empty batch always does."""
        fresh = request.prompt not in self._prompts
        header = self._shared_with(request.prompt) if fresh else self._header
        longest_prompt = max(self._longest_prompt, len(request.prompt))
        longest_reply = max(self._longest_reply, request.max_tokens)
        rows = self.joined + 1
        need = header + (len(self._prompts) + fresh) * (longest_prompt - header) + rows * longest_reply
        if (rows > self._rows or need > self._room) and not (self._alone and self.joined == 0):
            return False
        self._prompts.add(request.prompt)
        self._header, self._longest_prompt, self._longest_reply = header, longest_prompt, longest_reply
        self.joined = rows
        return True

    def _shared_with(self, prompt: tuple[int, ...]) -> int:
        """The header's length once a prompt has joined; every prompt keeps a token of its own."""
        tokens = np.asarray(prompt, dtype=np.int64)
        if not self._prompts:
            self._first = tokens
            return len(prompt) - 1
        return min(self._header, common_prefix(self._first, tokens), len(prompt) - 1)


def header_with(header: int, member: tuple[int, ...], prompts: Sequence[tuple[int, ...]]) -> int:
    """How much of a header, with which `member` begins, these sorted prompts share; each keeps a token."""
    shared = shared_header(prompts)
    return min(header, shared, common_prefix(np.asarray(member), np.asarray(prompts[0])))


def shared_header(prompts: Sequence[tuple[int, ...]]) -> int:
    """Tokens that all of these sorted prompts share, at least one less than the shortest has.

    Each prompt keeps a token of its own, from which its first logits come.
    """
    first, last = np.asarray(prompts[0]), np.asarray(prompts[-1])
    # Of sorted prompts the first and the last share the least.
    return min(common_prefix(first, last), min(map(len, prompts)) - 1)


def prefill_chunks(prompts: Sequence[tuple[int, ...]], limit: int) -> list[list[int]]:
    """Indices of sorted prompts, in chunks whose packed trees hold at most `limit` tokens."""
    chunks: list[list[int]] = []
    size = 0
    previous: Indices = np.empty(0, dtype=np.int64)
    for index, prompt in enumerate(prompts):
        current = np.asarray(prompt, dtype=np.int64)
        fresh = len(prompt) - common_prefix(previous, current)
        if not chunks or size + fresh > limit:
            chunks.append([])
            size, fresh = 0, len(prompt)
        chunks[-1].append(index)
        size, previous = size + fresh, current
    return chunks
