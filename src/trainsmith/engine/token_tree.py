"""Sequences that share prefixes, as one row of tokens in which every shared token stands once.

The tree is stored in depth-first order. Token j is token i itself or one of its ancestors exactly when
`j <= i < end[j]`, so the order and `end` are all that attention needs. Free of torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TokenTree:
    """T packed tokens. `paths[s]` are the row indices of sequence s, in its order."""

    tokens_T: Indices
    positions_T: Indices
    """Distance from the root: the position id."""
    end_T: Indices
    """One past the last token below (and including) each token."""
    paths: tuple[Indices, ...]

    def __len__(self) -> int:
        return len(self.tokens_T)


@dataclass(frozen=True, slots=True)
class Block:
    """Queries [start, stop) of the row with the ranges of ancestors that all of them see.

    Inside the block a query sees its own ancestors and itself; outside, all of `ancestors` and nothing else.
    """

    start: int
    stop: int
    ancestors: tuple[tuple[int, int], ...]


def build_tree(sequences: Sequence[Sequence[int] | Indices]) -> TokenTree:
    """Pack sequences into one row; equal prefixes are stored once. Empty sequences are allowed."""
    arrays = [np.asarray(sequence, dtype=np.int64) for sequence in sequences]
    order = sorted(range(len(arrays)), key=lambda index: tuple(arrays[index]))
    paths: list[Indices] = [np.empty(0, dtype=np.int64)] * len(arrays)
    end = np.zeros(sum(map(len, arrays)), dtype=np.int64)
    tokens, positions = np.zeros_like(end), np.zeros_like(end)
    size, path, previous = 0, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for index in order:
        sequence = arrays[index]
        shared = common_prefix(previous, sequence)
        end[path[shared:]] = size
        fresh = np.arange(size, size + len(sequence) - shared)
        path = np.concatenate((path[:shared], fresh))
        tokens[fresh] = sequence[shared:]
        positions[fresh] = np.arange(shared, len(sequence))
        paths[index], previous, size = path, sequence, size + len(fresh)
    end[path] = size
    return TokenTree(tokens[:size], positions[:size], end[:size], tuple(paths))


def common_prefix(left: Indices, right: Indices) -> int:
    """Length of the longest common prefix."""
    length = min(len(left), len(right))
    different = np.flatnonzero(left[:length] != right[:length])
    return int(different[0]) if len(different) else length


def attention_blocks(tree: TokenTree, limit: int) -> tuple[Block, ...]:
    """Cut the row into blocks whose attention is computed together.

    Subtrees of at most `limit` tokens, and neighbours that fit together, become one block: few calls, at the
    price of masked pairs inside. A larger subtree is cut below its root's unbranched run.
    """
    blocks: list[Block] = []
    pending: list[tuple[int, int, tuple[tuple[int, int], ...]]] = [(0, len(tree), ())]
    while pending:
        start, stop, ancestors = pending.pop()
        while start < stop:
            cut = _siblings_within(tree, start, stop, limit)
            if cut > start:
                blocks.append(Block(start, cut, ancestors))
                start = cut
                continue
            run = _run_end(tree, start)
            blocks.append(Block(start, run, ancestors))
            pending.append((run, int(tree.end_T[start]), _extended(ancestors, start, run)))
            start = int(tree.end_T[start])
    return tuple(sorted(blocks, key=lambda block: block.start))


def tree_mask(tree: TokenTree, block: Block) -> NDArray[np.bool_]:
    """Which keys a block's queries see, [queries, keys]: ancestors' keys first, then the block's own."""
    rows = np.arange(block.start, block.stop)
    own = (rows[None, :] <= rows[:, None]) & (rows[:, None] < tree.end_T[block.start : block.stop][None, :])
    outside = sum(stop - start for start, stop in block.ancestors)
    return np.concatenate((np.ones((len(rows), outside), dtype=np.bool_), own), axis=1)


def _siblings_within(tree: TokenTree, start: int, stop: int, limit: int) -> int:
    """The end of the longest list of whole sibling subtrees from `start` that fits; `start` if none does."""
    cut = start
    while cut < stop and int(tree.end_T[cut]) - start <= limit:
        cut = int(tree.end_T[cut])
    return cut


def _run_end(tree: TokenTree, start: int) -> int:
    """One past the last token of the unbranched run that begins at `start`."""
    subtree_end = int(tree.end_T[start])
    differs = np.flatnonzero(tree.end_T[start:subtree_end] != subtree_end)
    return start + (int(differs[0]) if len(differs) else subtree_end - start)


def _extended(ancestors: tuple[tuple[int, int], ...], start: int, stop: int) -> tuple[tuple[int, int], ...]:
    """The ranges with one more at the end, joined to the last where they touch."""
    if ancestors and ancestors[-1][1] == start:
        return (*ancestors[:-1], (ancestors[-1][0], stop))
    return (*ancestors, (start, stop))
