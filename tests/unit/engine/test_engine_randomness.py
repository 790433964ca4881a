"""Sampling must follow the distribution exactly, and a row's draw must be its own."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainsmith.engine.randomness import choose, invert_cumulative, uniforms


def test_uniforms_depend_on_the_seed_alone():
    """Guards against draws that move with the batch, its order or the number of tokens asked for."""
    alone = uniforms([7], 5)
    batch = uniforms([3, 7, -1], 9)
    assert torch.equal(alone[0], batch[1, :5])
    assert not torch.equal(batch[0], batch[1])
    assert float(batch.min()) > 0 and float(batch.max()) < 1


def test_uniforms_are_pinned():
    """Guards against a silent change of the stream, which would change every recorded run."""
    assert uniforms([0], 2)[0].tolist() == pytest.approx(
        [0.011546754286331617, 0.24154919656271817], abs=1e-15
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 700), st.integers(0, 2**32), st.floats(1e-9, 1 - 1e-9))
def test_inversion_equals_a_plain_cumulative_sum(size, seed, uniform):
    """Guards against the two-level search leaving its block or choosing a token of weight 0."""
    generator = np.random.default_rng(seed)
    weights = generator.random(size).astype(np.float32) ** 8
    weights[generator.random(size) < 0.5] = 0
    weights[generator.integers(size)] = 1
    ends = np.cumsum(weights.astype(np.float64))
    expected = int(np.searchsorted(ends, uniform * ends[-1], side="right"))
    chosen, total = invert_cumulative(torch.from_numpy(weights)[None], torch.tensor([uniform]).double())
    assert weights[int(chosen)] > 0
    assert float(total) == pytest.approx(ends[-1], rel=1e-6)
    # Block sums are float32: a draw within that rounding of a boundary may fall to either side.
    near = np.abs(ends - uniform * ends[-1]).min() < 1e-6 * ends[-1]
    assert near or int(chosen) == expected


def test_frequencies_and_logprobs_follow_the_softmax():
    """Guards against a biased draw, or logprobs at another temperature than the draw's."""
    torch.manual_seed(0)
    logits, rows = torch.randn(1, 50) * 2, 20_000
    expected = (logits / 0.7).log_softmax(dim=-1)[0].double()
    draws = uniforms(list(range(rows)), 1)[:, 0]
    tokens, logprobs = choose(logits.repeat(rows, 1), torch.full((rows,), 0.7), draws)
    assert torch.allclose(logprobs, expected[tokens], atol=1e-5)
    share = torch.bincount(tokens, minlength=50) / rows
    assert float((share - expected.exp()).abs().max()) < 0.012


def test_greedy_rows_among_sampled_ones():
    """Guards against a division by temperature 0, and against greedy rows that draw."""
    logits = torch.tensor([[0.0, 3.0, 1.0], [0.0, 3.0, 1.0]])
    expected = logits.log_softmax(dim=-1)
    tokens, logprobs = choose(logits.clone(), torch.tensor([0.0, 1.0]), torch.tensor([0.999, 1e-9]).double())
    assert tokens.tolist() == [1, 0]
    assert logprobs.tolist() == pytest.approx([float(expected[0, 1]), float(expected[1, 0])], abs=1e-6)
