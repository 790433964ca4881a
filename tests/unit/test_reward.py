"""The reward is pure, bounded and cannot be raised by anything but a better hidden score."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from trainsmith.config.reward import Baseline, RewardConfig
from trainsmith.reward import NOTHING, RewardInputs, baseline, reward

unit = st.floats(0.0, 1.0)


@st.composite
def configs(draw: st.DrawFn) -> RewardConfig:
    validation = draw(unit)
    quality = draw(st.floats(0.0, 1.0 - validation))
    speed = max(0.0, 1.0 - validation - quality)
    return RewardConfig(validation=validation, quality=quality, speed=speed, level=draw(unit))


@st.composite
def inputs(draw: st.DrawFn) -> RewardInputs:
    allowed = draw(st.integers(1, 6))
    return RewardInputs(
        validation_attempt=draw(st.none() | st.integers(1, allowed)),
        max_validations=allowed,
        post=draw(st.none() | unit),
        baseline=draw(unit),
        tokens=draw(st.integers(0, 10_000)),
        budget=draw(st.integers(1, 5_000)),
    )


def example(**changes: object) -> RewardInputs:
    values: dict[str, object] = {
        "validation_attempt": 1,
        "max_validations": 3,
        "post": 0.6,
        "baseline": 0.2,
        "tokens": 250,
        "budget": 1000,
    }
    return RewardInputs.model_validate(values | changes)


def test_formula_by_hand() -> None:
    """Guards against a slip in the formula: the design's numbers, computed on paper."""
    parts = reward(example())
    assert parts.validation == 1.0
    assert parts.quality == pytest.approx(0.5 * 0.6 + 0.5 * (0.6 - 0.2) / 0.8)
    assert parts.speed == pytest.approx(0.75)
    assert parts.total == pytest.approx(0.15 + 0.80 * 0.55 + 0.05 * 0.75)


@pytest.mark.parametrize(("attempt", "expected"), [(1, 1.0), (2, 2 / 3), (3, 1 / 3)])
def test_validation_by_probe(attempt: int, expected: float) -> None:
    """Guards against an off-by-one: the k-th of three probes earns 1, 2/3, 1/3."""
    assert reward(example(validation_attempt=attempt)).validation == pytest.approx(expected)


@given(inputs(), configs())
def test_bounded(given_inputs: RewardInputs, config: RewardConfig) -> None:
    """Guards against a reward outside [0, 1], whatever happened and whatever the weights."""
    parts = reward(given_inputs, config)
    for part in (parts.total, parts.validation, parts.quality, parts.speed):
        assert 0.0 <= part <= 1.0


@given(inputs())
def test_nothing_valid_earns_nothing(given_inputs: RewardInputs) -> None:
    """Guards against paying for unspent tokens or a score without a valid submission."""
    assert reward(given_inputs.model_copy(update={"validation_attempt": None})) == NOTHING


@given(inputs(), unit, unit, configs())
def test_monotone_in_post(given_inputs: RewardInputs, a: float, b: float, config: RewardConfig) -> None:
    """Guards against a formula under which a worse model earns more."""
    low, high = sorted((a, b))
    worse = reward(given_inputs.model_copy(update={"post": low}), config)
    better = reward(given_inputs.model_copy(update={"post": high}), config)
    assert worse.total <= better.total + 1e-12
    assert worse.quality <= better.quality + 1e-12


@given(inputs(), st.integers(0, 10_000))
def test_tokens_never_help(given_inputs: RewardInputs, more: int) -> None:
    """Guards against a speed part that grows with spending."""
    spent = given_inputs.model_copy(update={"tokens": given_inputs.tokens + more})
    assert reward(spent).total <= reward(given_inputs).total


@given(inputs())
def test_speed_only_with_quality(given_inputs: RewardInputs) -> None:
    """Guards against an agent that earns speed by training nothing at all."""
    parts = reward(given_inputs)
    assert parts.quality > 0.0 or parts.speed == 0.0


@given(st.lists(unit, min_size=2, max_size=4))
def test_strong_base_alone_earns_no_uplift(means: list[float]) -> None:
    """Guards against paying uplift for choosing the best base and not improving it."""
    strong = max(means)
    base = baseline(means, chosen=strong, form=Baseline.BEST)
    parts = reward(example(post=strong, baseline=base))
    assert parts.quality == pytest.approx(0.5 * strong)


@given(st.lists(unit, min_size=1, max_size=4), st.data())
def test_baseline_forms(means: list[float], data: st.DataObject) -> None:
    """Guards against mixed-up baselines: worst <= chosen <= best."""
    chosen = data.draw(st.sampled_from(means))
    worst, own, best = (
        baseline(means, chosen, form) for form in (Baseline.WORST, Baseline.CHOSEN, Baseline.BEST)
    )
    assert worst <= own == chosen <= best


def test_perfect_baseline_divides_by_nothing() -> None:
    """Guards against 0/0 when an untrained base already answers everything."""
    assert reward(example(post=1.0, baseline=1.0)).quality == 0.5


def test_impossible_inputs_are_refused() -> None:
    """Guards against scoring a fourth probe of three, or NaN."""
    with pytest.raises(ValidationError):
        example(validation_attempt=4)
    with pytest.raises(ValidationError):
        example(post=float("nan"))


def test_weights_must_sum_to_one() -> None:
    """Guards against a reward that silently leaves [0, 1]."""
    with pytest.raises(ValidationError, match="must be 1"):
        RewardConfig(validation=0.5)


def test_import_is_light() -> None:
    """Guards against torch, numpy or transformers entering the import of the reward."""
    code = "import sys, trainsmith.reward; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
