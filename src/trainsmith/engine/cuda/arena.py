"""Keys and values of everything that is being decoded, in one place that graphs can rely on.

Shapes: L layers, G key-value heads, T places, K head size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainsmith.bases.architecture import Architecture
from trainsmith.engine.cuda.token_ranges import TokenRanges

FIRST_BYTES = 2**30
"""Room at the start; it doubles when that is too little."""
MOST_BYTES = 2 * 2**30
"""Beyond this it grows only for what cannot wait: a single request that needs more."""
SPARE = 0
"""A place that holds nothing: for what padding writes."""


class Arena:
    """Static caches [L, G, T, K] with the book of their free places."""

    def __init__(self, a: Architecture, dtype: torch.dtype, device: torch.device) -> None:
        self._shape = (a.layers, a.kv_heads, a.head_dim)
        self._token_bytes = 2 * a.layers * a.kv_heads * a.head_dim * dtype.itemsize
        self.ranges = TokenRanges(FIRST_BYTES // self._token_bytes // 64 * 64)
        self.ranges.take(SPARE + 1)
        self.most = MOST_BYTES // self._token_bytes
        """Places up to which it grows willingly."""
        self.generation = 0
        """Counts the caches: graphs of an earlier generation read freed memory."""
        self.keys, self.values = self._room(dtype, device), self._room(dtype, device)

    def take(self, count: int) -> int:
        """The first of `count` contiguous places; the caches grow if there is no such hole."""
        first = self.ranges.take(count)
        while first is None:
            self._grow()
            first = self.ranges.take(count)
        return first

    def write(self, places_N: Tensor, keys_LNGK: Tensor, values_LNGK: Tensor) -> None:
        """Put keys and values at these places."""
        self.keys.index_copy_(2, places_N, keys_LNGK.permute(0, 2, 1, 3).to(self.keys.dtype))
        self.values.index_copy_(2, places_N, values_LNGK.permute(0, 2, 1, 3).to(self.values.dtype))

    def _room(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        layers, groups, size = self._shape
        return torch.zeros(layers, groups, self.ranges.size, size, dtype=dtype, device=device)

    def _grow(self) -> None:
        before = self.ranges.size
        self.ranges.extend(2 * before)
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = self._room(old.dtype, old.device)
            new[:, :, :before] = old
            setattr(self, name, new)
        self.generation += 1


class Lease:
    """What one decode loop holds of an arena that others use too."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self._held: dict[int, int] = {}
        """First place to count."""

    def take(self, count: int) -> int:
        """As the arena's."""
        first = self.arena.take(count)
        if count:
            self._held[first] = count
        return first

    def give(self, first: int, count: int) -> None:
        """Give a range back."""
        if count:
            del self._held[first]
            self.arena.ranges.give(first, count)

    def close(self) -> None:
        """Give everything back: the loop is gone."""
        for first, count in list(self._held.items()):
            self.give(first, count)


_shared: dict[tuple[object, ...], Arena] = {}


def shared_arena(a: Architecture, dtype: torch.dtype, device: torch.device) -> Arena:
    """The process's arena for models of these sizes."""
    key = (a.layers, a.kv_heads, a.head_dim, dtype, device)
    if key not in _shared:
        _shared[key] = Arena(a, dtype, device)
    return _shared[key]
