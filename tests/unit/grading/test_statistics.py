"""Intervals: the right method for the scores, honest coverage, sane at the edges, the same every time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap, permutation_test

from trainsmith.grading.statistics import (
    clustered_difference,
    clustered_mean,
    mean_interval,
    paired_difference,
)
from trainsmith.records import Difference, Interval

scores = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30)


def test_bca_is_scipys() -> None:
    """Guards against a wrong bias or acceleration: scipy's BCa of a skewed sample, up to resampling noise."""
    values = np.random.default_rng(3).beta(0.4, 2.0, 80)
    expected = bootstrap(
        (values,), np.mean, rng=np.random.default_rng(0), n_resamples=20_000
    ).confidence_interval
    found = mean_interval(list(values))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.004)


@pytest.mark.parametrize("n", [8, 60])
def test_sign_flip_is_scipys(n: int) -> None:
    """Guards against a wrong permutation test, in its exact and in its random form."""
    rng = np.random.default_rng(5)
    before = rng.random(n)
    after = np.clip(before + rng.normal(0.05, 0.15, n), 0, 1)
    expected = permutation_test(
        (after, before), lambda a, b, axis: np.mean(a - b, axis=axis), permutation_type="samples",
        vectorized=True, n_resamples=20_000, rng=np.random.default_rng(0),
    ).pvalue  # fmt: skip
    assert paired_difference(list(before), list(after)).p == pytest.approx(expected, abs=0.01)


@settings(max_examples=30, deadline=None)
@given(scores)
def test_mean_interval_holds_the_mean(values: list[float]) -> None:
    """Guards against an interval outside [0, 1], without its mean, or NaN on an odd sample."""
    found = mean_interval(values)
    assert 0.0 <= found.low <= found.mean + 1e-9
    assert found.mean - 1e-9 <= found.high <= 1.0
    assert found.n == len(values)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30))
def test_difference_is_antisymmetric_in_mean_and_p(pairs: list[tuple[float, float]]) -> None:
    """Guards against a p-value or mean that depends on which model is named first."""
    before, after = [a for a, _ in pairs], [b for _, b in pairs]
    there, back = paired_difference(before, after), paired_difference(after, before)
    assert there.mean == pytest.approx(-back.mean, abs=1e-12)
    assert there.p == pytest.approx(back.p)
    assert -1.0 <= there.low <= there.mean + 1e-9
    assert there.mean - 1e-9 <= there.high <= 1.0
    assert 0.0 < there.p <= 1.0


@pytest.mark.parametrize("value", [0.0, 1.0, 0.5])
@pytest.mark.parametrize("n", [1, 200])
def test_scores_without_spread_are_not_certain(value: float, n: int) -> None:
    """Guards against width 0: 200 equal scores do not prove that the next one is equal."""
    found = mean_interval([value] * n)
    assert found.high - found.low > 0.01
    assert found.low <= value <= found.high


def test_one_item_says_almost_nothing() -> None:
    """Guards against certainty from a single item."""
    assert mean_interval([1.0]).low < 0.25
    assert paired_difference([0.0], [1.0]).p == 1.0
    assert paired_difference([0.3], [0.9]).low < 0.0


def test_identical_models_do_not_differ() -> None:
    """Guards against a significant difference between a model and itself."""
    for values in ([0.0, 1.0, 1.0, 0.0], [0.25, 0.5, 1.0]):
        found = paired_difference(values, values)
        assert (found.mean, found.p) == (0.0, 1.0)
        assert found.low < 0.0 < found.high


def test_deterministic() -> None:
    """Guards against intervals that change from run to run or with numpy's global state."""
    values = list(np.random.default_rng(0).random(50))
    first = mean_interval(values)
    np.random.seed(1)
    np.random.random(10)
    assert mean_interval(values) == first


@pytest.mark.parametrize("bad", [[], [1.5], [float("nan")]])
def test_scores_outside_the_unit_interval_are_refused(bad: list[float]) -> None:
    """Guards against NaN or unbounded scores entering a mean in silence."""
    with pytest.raises(ValueError, match=r"score"):
        mean_interval(bad)


def test_unequal_lengths_are_not_paired() -> None:
    """Guards against numpy broadcasting a single score over all items."""
    with pytest.raises(ValueError, match="paired"):
        paired_difference([1.0], [1.0, 0.0])


def coverage(interval: Callable[[], Interval | Difference], truth: float, times: int) -> float:
    return float(np.mean([found.low <= truth <= found.high for found in (interval() for _ in range(times))]))


def test_coverage_of_a_mean() -> None:
    """Guards against intervals that are too narrow or too wide: 95 % must mean 95 %."""
    rng = np.random.default_rng(1)
    assert 0.92 <= coverage(lambda: mean_interval(rng.binomial(1, 0.2, 100).astype(float)), 0.2, 1000) <= 0.98
    assert 0.89 <= coverage(lambda: mean_interval(rng.beta(0.5, 1.5, 40)), 0.25, 250) <= 0.985


def test_coverage_of_a_paired_difference() -> None:
    """Guards against ignoring the pairing: before and after are strongly correlated here."""
    rng = np.random.default_rng(2)

    def binary() -> Difference:
        kind = rng.choice(4, size=120, p=[0.2, 0.03, 0.25, 0.52])  # both, lost, won, neither
        return paired_difference(np.isin(kind, (0, 1)) * 1.0, np.isin(kind, (0, 2)) * 1.0)

    def graded() -> Difference:
        before = rng.random(40)
        return paired_difference(before, before * 0.5 + 0.5 * rng.random(40))

    assert 0.92 <= coverage(binary, 0.22, 800) <= 0.985
    assert 0.90 <= coverage(graded, 0.0, 250) <= 0.98


@pytest.mark.parametrize("jobs", [4, 12])
def test_coverage_over_jobs(jobs: int) -> None:
    """Guards against the narrow interval that items of one job give: the spread is between the jobs."""
    rng = np.random.default_rng(jobs)

    def clusters() -> list[np.ndarray]:
        return [rng.binomial(1, np.clip(mean, 0, 1), 64) * 1.0 for mean in rng.normal(0.6, 0.12, jobs)]

    assert 0.90 <= coverage(lambda: clustered_mean(clusters()), 0.6, 400) <= 0.985
    pooled = coverage(lambda: mean_interval(np.concatenate(clusters())), 0.6, 100)
    assert pooled < 0.85  # what ignoring the clusters would give


def test_clusters_by_hand() -> None:
    """Guards against a wrong cluster variance: equal sizes reduce to Student's interval of the job means."""
    means = [0.2, 0.4, 0.9]
    found = clustered_mean([[mean] * 5 for mean in means])
    half = 4.302653 * np.std(means, ddof=1) / np.sqrt(3)
    assert found.mean == pytest.approx(0.5)
    assert found.high == pytest.approx(min(1.0, 0.5 + half), abs=1e-4)
    assert found.n == 3


def test_one_job_is_one_observation() -> None:
    """Guards against certainty over jobs when all episodes shared one."""
    assert clustered_mean([[0.9] * 48]).low < 0.4
    assert clustered_difference([[0.4] * 48]).low < 0.0


def test_clustered_difference_needs_several_jobs_to_be_significant() -> None:
    """Guards against a p-value that counts items of the same job as independent."""
    assert clustered_difference([[0.3] * 100, [0.4] * 100]).p == 0.5
    assert clustered_difference([[0.3 + j / 50] * 9 for j in range(12)]).p < 0.001
