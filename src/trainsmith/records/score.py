"""Hidden scores: per item, as a mean with its interval, and as a paired difference."""

from __future__ import annotations

from trainsmith.records.base import Record


class Interval(Record):
    """A mean with its confidence interval."""

    mean: float
    low: float
    high: float
    n: int


class Difference(Record):
    """A paired mean difference with its confidence interval and two-sided p-value."""

    mean: float
    low: float
    high: float
    p: float
    n: int


class HiddenScore(Record):
    """One model on one set of hidden items. Pairs with any score of the same `items`."""

    model: str
    """Base id and revision, or the hash of trained weights."""
    items: str
    """Fingerprint of the hidden items, without their text."""
    scores: tuple[float, ...]
    """One score in [0, 1] an item, in item order."""
    generated_tokens: int = 0
    seconds: float = 0.0
