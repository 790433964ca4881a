"""Every loss against scalar arithmetic or code written from its source's definition."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainsmith.engine.losses import token_loss
from trainsmith.engine.records import Cispo, CrossEntropy, ImportanceSampling, Ppo, PrimeLoss

LOGPROB = st.floats(-12, -1e-3)
TAU = st.floats(0, 2)
TOKENS = st.lists(st.tuples(LOGPROB, LOGPROB, st.floats(-3, 3)), min_size=1, max_size=6)
THRESHOLDS = st.tuples(st.floats(0, 1), st.floats(1, 4))


def columns(tokens):
    new, old, advantage = (torch.tensor(column, dtype=torch.float64) for column in zip(*tokens, strict=True))
    return new.requires_grad_(), old, advantage


def prime_by_hand(new, old, advantage, spec):
    """(loss, derivative by the new logprob, masked) of one token."""
    ratio, moved = math.exp(new - old), math.exp(new) - math.exp(old)
    masked = moved > spec.dppo_mask_high if advantage > 0 else moved < -spec.dppo_mask_low
    gain = 0.0 if masked else spec.adv_tau * advantage * ratio
    return -gain + spec.kl_tau * (new - old) ** 2, -gain + 2 * spec.kl_tau * (new - old), masked


@given(TOKENS, st.floats(0, 1), st.floats(0, 1), TAU, TAU)
def test_prime_loss_and_gradient_equal_the_definition(tokens, low, high, adv_tau, kl_tau):
    """Guards against a mask on the wrong side, a tau on the wrong term, a gradient cut at the ratio."""
    spec = PrimeLoss(low, high, adv_tau, kl_tau)
    new, old, advantage = columns(tokens)
    result = token_loss(new, old, advantage, spec)
    (gradient,) = torch.autograd.grad(result.loss.sum(), new)
    expected = [prime_by_hand(*token, spec) for token in tokens]
    assert result.loss.tolist() == pytest.approx([loss for loss, _, _ in expected], rel=1e-9, abs=1e-12)
    assert gradient.tolist() == pytest.approx([slope for _, slope, _ in expected], rel=1e-9, abs=1e-12)
    assert result.masked.tolist() == [masked for _, _, masked in expected]
    kl = [math.exp(n - o) - (n - o) - 1 for n, o, _ in tokens]
    assert result.mismatch_kl.tolist() == pytest.approx(kl, rel=1e-9, abs=1e-12)


def test_zero_advantage_takes_primes_low_mask_and_keeps_the_log_ratio_term():
    """Guards against dropping tokens of advantage 0 from the squared log-ratio."""
    new, old = torch.tensor([-3.0]), torch.tensor([-0.1])
    result = token_loss(new, old, torch.zeros(1), PrimeLoss(kl_tau=1.0))
    assert result.masked.tolist() == [True]
    assert result.loss.item() == pytest.approx(2.9**2)


def ratio_by_hand(new, old, advantage, spec):
    """(loss, derivative by the new logprob, clipped) of one token, by Tinker's documents."""
    ratio = math.exp(new - old)
    if isinstance(spec, ImportanceSampling):
        return -ratio * advantage, -ratio * advantage, False
    clipped = min(max(ratio, spec.clip_low_threshold), spec.clip_high_threshold)
    if isinstance(spec, Cispo):
        return -clipped * new * advantage, -clipped * advantage, clipped != ratio
    if clipped * advantage < ratio * advantage:
        return -clipped * advantage, 0.0, True
    return -ratio * advantage, -ratio * advantage, False


@given(TOKENS, THRESHOLDS, st.sampled_from([ImportanceSampling, Ppo, Cispo]))
def test_tinkers_policy_losses_and_gradients_equal_the_definition(tokens, thresholds, kind):
    """Guards against thresholds taken as distances, a maximum for a minimum, a ratio that is not detached."""
    spec = kind() if kind is ImportanceSampling else kind(*thresholds)
    new, old, advantage = columns(tokens)
    result = token_loss(new, old, advantage, spec)
    (gradient,) = torch.autograd.grad(result.loss.sum(), new)
    expected = [ratio_by_hand(*token, spec) for token in tokens]
    assert result.loss.tolist() == pytest.approx([loss for loss, _, _ in expected], rel=1e-9, abs=1e-12)
    assert gradient.tolist() == pytest.approx([slope for _, slope, _ in expected], rel=1e-9, abs=1e-12)
    assert result.masked.tolist() == [clipped for _, _, clipped in expected]


def test_tinkers_thresholds_are_bounds_of_the_ratio_with_the_documented_defaults():
    """Guards against other defaults than the service's: 0.8 and 1.2."""
    for spec in (Ppo(), Cispo()):
        assert (spec.clip_low_threshold, spec.clip_high_threshold) == (0.8, 1.2)


@given(TOKENS)
def test_cross_entropy_is_the_negative_logprob(tokens):
    """Guards against a loss that looks at advantages or at the sampler."""
    new, old, advantage = columns(tokens)
    result = token_loss(new, old, advantage, CrossEntropy())
    assert result.loss.tolist() == [-n for n, _, _ in tokens]
    assert not result.masked.any() and not result.mismatch_kl.any()
