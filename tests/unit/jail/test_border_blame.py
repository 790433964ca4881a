"""Who is guilty of a worker's death."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trainsmith.jail.border.blame import Verdict, judge

LOSSES = st.integers(1, 10)


@given(st.booleans(), st.booleans(), LOSSES)
def test_whom_the_watchdog_names_is_guilty(alone, waiting, losses):
    """Guards against a rollout that kills worker after worker though it was seen."""
    assert judge(suspected=True, alone=alone, waiting=waiting, losses=losses) is Verdict.GUILTY


@given(LOSSES)
def test_alone_and_running_is_guilty(losses):
    """Guards against a solo rollout that is tried for ever."""
    assert judge(suspected=False, alone=True, waiting=False, losses=losses) is Verdict.GUILTY


@given(st.booleans(), LOSSES)
def test_one_of_many_is_never_guilty(waiting, losses):
    """Guards against innocents that fail with the guilty."""
    assert judge(suspected=False, alone=False, waiting=waiting, losses=losses) is not Verdict.GUILTY


@given(st.booleans(), st.booleans())
def test_every_rollout_comes_to_an_end(alone, waiting):
    """Guards against a rollout that is requeued without end: it must play alone at last."""
    assert judge(suspected=False, alone=alone, waiting=waiting, losses=10) is not Verdict.AGAIN


def test_the_first_loss_is_free():
    """Guards against solo play after a single unexplained death, which would be slow."""
    assert judge(suspected=False, alone=False, waiting=False, losses=1) is Verdict.AGAIN
    assert judge(suspected=False, alone=False, waiting=False, losses=2) is Verdict.SOLO
    assert judge(suspected=False, alone=True, waiting=True, losses=3) is Verdict.AGAIN
