"""Which places of a cache are free: contiguous ranges, first fit. Free of torch."""

from __future__ import annotations

from bisect import bisect_left


class TokenRanges:
    """Hands out ranges of [0, size) and takes them back."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free = [(0, size)] if size else []
        """(first, count), ascending, never touching."""

    @property
    def free(self) -> int:
        """Places that are free, wherever they lie."""
        return sum(count for _, count in self._free)

    def take(self, count: int) -> int | None:
        """The first place of a range of `count` (0 for an empty one), or None: no hole is large enough."""
        if count == 0:
            return 0
        for index, (first, room) in enumerate(self._free):
            if room >= count:
                rest = (first + count, room - count)
                self._free[index : index + 1] = [rest] if rest[1] else []
                return first
        return None

    def give(self, first: int, count: int) -> None:
        """Take a range back."""
        if count == 0:
            return
        index = bisect_left(self._free, (first, count))
        end = first + count
        if index < len(self._free) and self._free[index][0] == end:
            end += self._free.pop(index)[1]
        if index and sum(self._free[index - 1]) == first:
            index -= 1
            first = self._free.pop(index)[0]
        self._free.insert(index, (first, end - first))

    def extend(self, size: int) -> None:
        """Add places at the end, up to `size` in all."""
        self.give(self.size, size - self.size)
        self.size = size
