"""Bootstrap intervals and a sign-flip test for means of any scores. Deterministic: the seed is fixed.

Degenerate samples (one value, no spread) are not for here: `statistics` treats them first.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from trainsmith.grading.proportions import Bounds

Floats = NDArray[np.float64]

RESAMPLES = 10_000
SEED = 20_270_131
"""Any constant: the same scores give the same interval on every machine."""
_EXACT_FLIPS = 13
"""Up to this many nonzero differences, all sign patterns are counted."""
_CELLS = 4_000_000
"""Array cells held at once."""


def bootstrap_means(values: Floats, weights: Floats | None = None) -> Floats:
    """Sorted means of `RESAMPLES` samples with replacement, shape (RESAMPLES,).

    With `weights` the values are sums and each mean is sum(values) / sum(weights): the ratio estimator that
    resampling whole clusters needs.
    """
    rng = np.random.default_rng(SEED)
    means = []
    rows = max(1, _CELLS // len(values))
    for start in range(0, RESAMPLES, rows):
        size = (min(rows, RESAMPLES - start), len(values))
        drawn = rng.integers(0, len(values), size=size)
        total = values[drawn].sum(axis=1)
        means.append(total / (len(values) if weights is None else weights[drawn].sum(axis=1)))
    return np.sort(np.concatenate(means))


def bca(values: Floats, level: float) -> Bounds:
    """Bias-corrected and accelerated bootstrap interval of the mean.

    Source: Efron (1987), JASA 82:171-185; the acceleration is the jackknife's, which for a mean is the
    sample's skewness / (6 sqrt(n)). Needs some spread in `values`.
    """
    normal = NormalDist()
    means = bootstrap_means(values)
    share = (np.mean(means < values.mean()) + np.mean(means <= values.mean())) / 2
    bias = normal.inv_cdf(float(np.clip(share, 1 / RESAMPLES, 1 - 1 / RESAMPLES)))
    centred = values - values.mean()
    acceleration = float((centred**3).sum() / (6 * (centred**2).sum() ** 1.5))

    def shifted(probability: float) -> float:
        z = bias + normal.inv_cdf(probability)
        return normal.cdf(bias + z / (1 - acceleration * z))

    low, high = np.quantile(means, [shifted(0.5 - level / 2), shifted(0.5 + level / 2)])
    return Bounds(float(low), float(high))


def cluster_percentile(sums: Floats, sizes: Floats, level: float) -> Bounds:
    """Percentile bootstrap of whole clusters, its quantiles expanded for few of them.

    Source: Hesterberg (2015), The American Statistician 69:371-386, section 5.2 ("expanded percentile"):
    the tail probability becomes Phi(-sqrt(k / (k - 1)) * t), with t of k - 1 degrees of freedom.
    """
    k = len(sums)
    tail = NormalDist().cdf(-math.sqrt(k / (k - 1)) * student_t(k - 1, level))
    low, high = np.quantile(bootstrap_means(sums, sizes), [tail, 1 - tail])
    return Bounds(float(low), float(high))


def cluster_t(sums: Floats, sizes: Floats, level: float) -> Bounds:
    """Student interval of the pooled mean with the cluster-robust variance and k - 1 degrees of freedom.

    Source: Cameron and Miller (2015), Journal of Human Resources 50:317-372 (CR1 and t(k - 1)).
    """
    k = len(sums)
    mean = sums.sum() / sizes.sum()
    variance = k / (k - 1) * ((sums - sizes * mean) ** 2).sum() / sizes.sum() ** 2
    half = student_t(k - 1, level) * math.sqrt(variance)
    return Bounds(float(mean - half), float(mean + half))


def sign_flip(values: Floats) -> float:
    """Two-sided p-value of 'the values are symmetric about 0': every sign is as likely as its opposite.

    All sign patterns are counted when few values are not 0; else `RESAMPLES` random ones, with the observed
    one among them (Phipson and Smyth, 2010, Stat. Appl. Genet. Mol. Biol. 9:39).
    """
    moved = values[values != 0.0]
    if len(moved) == 0:
        return 1.0
    # Sums that equal the observed one in exact arithmetic may differ by rounding.
    observed = abs(moved.sum()) * (1 - 1e-9) - 1e-12
    if len(moved) <= _EXACT_FLIPS:
        patterns = (np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved))) & 1
        return float(np.mean(np.abs((2.0 * patterns - 1.0) @ moved) >= observed))
    return (1 + _count_extreme(moved, observed)) / (1 + RESAMPLES)


def student_t(freedom: int, level: float) -> float:
    """Two-sided critical value of Student's distribution."""
    from scipy.special import stdtrit  # a fifth of a second to import, seldom needed

    return float(stdtrit(freedom, 0.5 + level / 2))


def _count_extreme(moved: Floats, observed: float) -> int:
    rng = np.random.default_rng(SEED)
    rows = max(1, _CELLS // len(moved))
    count = 0
    for start in range(0, RESAMPLES, rows):
        signs = rng.integers(0, 2, size=(min(rows, RESAMPLES - start), len(moved))) * 2.0 - 1.0
        count += int((np.abs(signs @ moved) >= observed).sum())
    return count
