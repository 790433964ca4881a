"""Closed forms against published values and scipy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from trainsmith.grading.proportions import PairedCounts, mcnemar, newcombe_paired, wilson

counts = st.builds(
    PairedCounts, st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60)
).filter(lambda table: table.n > 0)


@given(st.integers(1, 400), st.data(), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_is_scipys(n: int, data: st.DataObject, level: float) -> None:
    """Guards against a slip in Wilson's formula."""
    hits = data.draw(st.integers(0, n))
    expected = binomtest(hits, n).proportion_ci(level, method="wilson")
    assert wilson(hits / n, n, level) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize(
    ("table", "low", "high"),
    [
        # Newcombe (1998), table II, method 10
        (PairedCounts(both=36, won=12, lost=2, neither=0), 0.0569, 0.3404),
        # Fagerland, Lydersen and Laake (2014): airway hyper-responsiveness (Bentur et al., 2009)
        (PairedCounts(both=1, won=1, lost=7, neither=12), -0.507, -0.026),
        # the same authors: complete response (Cavo et al., 2012)
        (PairedCounts(both=59, won=6, lost=16, neither=80), -0.1186, -0.0046),
    ],
)
def test_newcombe_matches_the_literature(table: PairedCounts, low: float, high: float) -> None:
    """Guards against a wrong phi, sign or continuity correction."""
    found = newcombe_paired(table, 0.95)
    assert found.low == pytest.approx(low, abs=6e-4)
    assert found.high == pytest.approx(high, abs=6e-4)


@given(counts)
def test_newcombe_holds_the_estimate_and_mirrors(table: PairedCounts) -> None:
    """Guards against an interval that misses its own mean or depends on the direction."""
    mean = (table.won - table.lost) / table.n
    found = newcombe_paired(table, 0.95)
    assert -1.0 <= found.low <= mean + 1e-12
    assert mean - 1e-12 <= found.high <= 1.0
    mirror = newcombe_paired(PairedCounts(table.both, table.won, table.lost, table.neither), 0.95)
    assert (-mirror.high, -mirror.low) == pytest.approx(found, abs=1e-12)


@given(counts)
def test_mcnemar_is_the_binomial_test(table: PairedCounts) -> None:
    """Guards against a wrong tail; with no discordant pair nothing speaks against equality."""
    discordant = table.won + table.lost
    expected = binomtest(table.won, discordant).pvalue if discordant else 1.0
    assert mcnemar(table) == pytest.approx(expected, rel=1e-9)


def test_mcnemar_of_many_items_does_not_overflow() -> None:
    """Guards against a float overflow of 2**n with thousands of hidden items."""
    assert mcnemar(PairedCounts(0, 0, 5000, 0)) == 0.0
    assert mcnemar(PairedCounts(0, 2500, 2500, 0)) == 1.0
