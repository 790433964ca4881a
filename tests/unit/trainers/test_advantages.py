"""Advantages against independent definitions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsmith.jobs.schema import Grpo, LengthPenalty, MaxRl
from trainsmith.rollout.records import Branch, Episode
from trainsmith.trainers.advantages import advantages

REWARDS = st.lists(st.floats(0, 1, width=32), min_size=2, max_size=16)


def episode(reward: float, output: int = 2, read: int = 3, turns: int = 1) -> Episode:
    mask = (False,) * read + (True,) * output
    return Episode(reward, turns, (Branch((7,) * (read + output), mask, (0.0,) * (read + output)),), ("r",))


@given(REWARDS)
def test_grpo_is_reward_minus_group_mean(rewards: list[float]) -> None:
    """Guards against division by the deviation, which prime-rl does not do."""
    got = advantages([episode(reward) for reward in rewards], Grpo())
    assert np.allclose(got, np.array(rewards) - np.mean(rewards), atol=1e-9)


@given(st.floats(0, 1), st.integers(2, 9))
def test_equal_rewards_give_exact_zeros(reward: float, size: int) -> None:
    """Guards against groups that carry rounding noise as signal."""
    assert advantages([episode(reward)] * size, Grpo()) == [0.0] * size


@given(REWARDS)
def test_max_rl_divides_by_the_mean(rewards: list[float]) -> None:
    """Guards against MaxRL without its normaliser, and against division by zero."""
    got = advantages([episode(reward) for reward in rewards], MaxRl())
    mean = float(np.mean(rewards))
    expected = (np.array(rewards) - mean) / mean if mean > 0 else np.zeros(len(rewards))
    assert np.allclose(got, expected, rtol=1e-6, atol=1e-6)
    assert all(math.isfinite(value) for value in got)


def test_length_penalty_is_scaled_by_the_pass_rate() -> None:
    """Guards against a penalty that ignores what the group can do."""
    group = [episode(1.0, output=4, read=2, turns=1), episode(0.0, output=8, read=4, turns=2)]
    got = advantages(group, Grpo(length_penalty=LengthPenalty()))
    shaped = np.array([1 - 0.5 * (0.25 * 0.5 + 0.1 * 0.5 + 0.1 * 0.5), 0 - 0.5 * (0.25 + 0.1 + 0.1)])
    assert got == pytest.approx(list(shaped - shaped.mean()))
