"""Means of rewards that may be as large as floats go."""

from __future__ import annotations

from collections.abc import Iterable


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean, without the overflow of a sum; 0 for no values."""
    listed = list(values)
    return sum(value / len(listed) for value in listed)
