"""Intervals and tests for shares of successes (0/1 scores), one sample or the same items twice.

Closed forms only. Scores between 0 and 1 are for `resampling`; `statistics` chooses.
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple


class Bounds(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


class PairedCounts(NamedTuple):
    """Items by their outcome before and after."""

    both: int
    lost: int
    """Right before, wrong after."""
    won: int
    """Wrong before, right after."""
    neither: int

    @property
    def n(self) -> int:
        """All items."""
        return sum(self)


def wilson(mean: float, n: int, level: float) -> Bounds:
    """Score interval of a proportion.

    Source: Wilson (1927), JASA 22:209-212. For scores inside [0, 1] with the same mean it is conservative,
    since their variance is at most mean * (1 - mean).
    """
    z = NormalDist().inv_cdf(0.5 + level / 2)
    scale = 1.0 + z * z / n
    centre = (mean + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    low = 0.0 if mean == 0.0 else max(0.0, centre - half)
    return Bounds(low, 1.0 if mean == 1.0 else min(1.0, centre + half))


def newcombe_paired(counts: PairedCounts, level: float) -> Bounds:
    """Interval of the paired difference of proportions, after minus before.

    Source: Newcombe (1998), Statistics in Medicine 17:2635-2650, method 10 (square-and-add of Wilson
    intervals with a continuity-corrected phi); recommended for all sizes by Fagerland, Lydersen and Laake
    (2014), Statistics in Medicine 33:2850-2875.
    """
    after, before = (counts.both + counts.won) / counts.n, (counts.both + counts.lost) / counts.n
    after_low, after_high = wilson(after, counts.n, level)
    before_low, before_high = wilson(before, counts.n, level)
    phi = _corrected_phi(counts)
    difference = after - before
    below = _square_and_add(after - after_low, before_high - before, phi)
    above = _square_and_add(after_high - after, before - before_low, phi)
    return Bounds(max(-1.0, difference - below), min(1.0, difference + above))


def mcnemar(counts: PairedCounts) -> float:
    """Two-sided p-value of 'as many items won as lost', exact.

    Source: McNemar (1947), Psychometrika 12:153-157, in its exact form: a binomial test of the discordant
    pairs.
    """
    discordant = counts.won + counts.lost
    fewer = min(counts.won, counts.lost)
    ways, tail = 1, 1  # to choose k of the pairs, and at most k of them
    for k in range(fewer):
        ways = ways * (discordant - k) // (k + 1)
        tail += ways
    return min(1.0, float(Fraction(2 * tail, 2**discordant)))


def _corrected_phi(counts: PairedCounts) -> float:
    """Correlation of the two outcomes; positive ones are shrunk by n/2 in the numerator, at most to 0."""
    both, lost, won, neither = counts
    margins = (both + lost) * (won + neither) * (both + won) * (lost + neither)
    if margins == 0:
        return 0.0
    numerator = float(both * neither - lost * won)
    if numerator > 0:
        numerator = max(0.0, numerator - counts.n / 2)
    return numerator / math.sqrt(margins)


def _square_and_add(first: float, second: float, phi: float) -> float:
    return math.sqrt(max(0.0, first**2 - 2 * phi * first * second + second**2))
