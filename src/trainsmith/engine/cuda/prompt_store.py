"""Prompts whose keys and values are cached, for as long as a row reads them.

Prompts that are admitted together share the header that all of them begin with; a row whose prompt is already
cached reads nothing again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from trainsmith.bases.architecture import Architecture
from trainsmith.engine.batching import prefill_chunks, shared_header
from trainsmith.engine.cuda.arena import Lease
from trainsmith.engine.cuda.attention_jobs import Segment
from trainsmith.engine.cuda.captured_prefill import CapturedPrefill
from trainsmith.engine.network import Network
from trainsmith.engine.rotary import Rotary
from trainsmith.engine.token_tree import Indices, TokenTree, build_tree

PREFILL_TOKENS = 8192
"""Packed prompt tokens of one forward pass; a single prompt may have more."""
_LEAST_HEADER = 32
"""A shorter header is not worth a part of its own: each prompt keeps it with its tail."""


@dataclass(slots=True)
class Header:
    """Tokens that several prompts begin with."""

    segment: Segment
    users: int = 0


@dataclass(slots=True)
class CachedPrompt:
    """One prompt: where its keys and values lie, and what the head reads after it."""

    number: int
    """Ascending in the order in which prompts were read."""
    header: Header
    tail: Segment
    normed_D: Tensor | None = None
    users: int = 0

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The cached ranges, in order."""
        return tuple(segment for segment in (self.header.segment, self.tail) if segment.count)


class PromptStore:
    """The prompts of the rows that are alive."""

    def __init__(self, network: Network, a: Architecture, rotary: Rotary, lease: Lease) -> None:
        self._lease = lease
        self._prefill = CapturedPrefill(network, a, rotary, lease.arena)
        self._prompts: dict[tuple[int, ...], CachedPrompt] = {}
        self._count = 0

    def take(self, prompts: Sequence[tuple[int, ...]]) -> list[CachedPrompt]:
        """The cached prompt of each; what is not cached yet is read, all at once."""
        missing = sorted(set(prompts) - self._prompts.keys())
        if missing:
            self._read(missing)
        taken = [self._prompts[prompt] for prompt in prompts]
        for cached in taken:
            cached.users += 1
        return taken

    def give(self, prompt: tuple[int, ...]) -> None:
        """A row ended: forget its prompt if it was the last."""
        cached = self._prompts[prompt]
        cached.users -= 1
        if cached.users:
            return
        del self._prompts[prompt]
        self._lease.give(cached.tail.first, cached.tail.count)
        cached.header.users -= 1
        if not cached.header.users:
            self._lease.give(cached.header.segment.first, cached.header.segment.count)

    def _read(self, prompts: list[tuple[int, ...]]) -> None:
        length = shared_header(prompts) if len(prompts) > 1 else 0
        length = length if length >= _LEAST_HEADER else 0
        header = Header(Segment(self._lease.take(length), length))
        cached = [self._cached(prompt, header) for prompt in prompts]
        for number, chunk in enumerate(prefill_chunks(prompts, PREFILL_TOKENS)):
            tree = build_tree([prompts[index] for index in chunk])
            self._read_tree(tree, [cached[index] for index in chunk], with_header=number == 0)
        self._prompts |= dict(zip(prompts, cached, strict=True))

    def _cached(self, prompt: tuple[int, ...], header: Header) -> CachedPrompt:
        count = len(prompt) - header.segment.count
        header.users += 1
        self._count += 1
        return CachedPrompt(self._count, header, Segment(self._lease.take(count), count))

    def _read_tree(self, tree: TokenTree, cached: list[CachedPrompt], *, with_header: bool) -> None:
        moves = zip(*_moves(tree, cached, with_header), strict=True)
        source, target = (np.concatenate(side) for side in moves)
        last = np.array([path[-1] for path in tree.paths])
        for prompt, normed in zip(cached, self._prefill.read(tree, source, target, last), strict=True):
            prompt.normed_D = normed


def _moves(
    tree: TokenTree, cached: list[CachedPrompt], with_header: bool
) -> Iterator[tuple[Indices, Indices]]:
    """Rows of the packed tree and the places they go to."""
    length = cached[0].header.segment.count
    if with_header:
        first = cached[0].header.segment.first
        yield tree.paths[0][:length], np.arange(first, first + length)
    for path, prompt in zip(tree.paths, cached, strict=True):
        yield path[length:], np.arange(prompt.tail.first, prompt.tail.first + prompt.tail.count)
