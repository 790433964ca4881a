"""Sampling must follow the distribution exactly, and a row's draw must be its own."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainsmith.engine.randomness import Choice, Uniforms, choose, invert_cumulative, narrowed, uniforms


def row(temperature, seed=0, top_p=1.0, top_k=0):
    return Choice(temperature, top_p, top_k, Uniforms(seed))


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
    tokens, logprobs = choose(logits.repeat(rows, 1), [row(0.7, seed=seed) for seed in range(rows)])
    assert torch.allclose(logprobs, expected[tokens], atol=1e-5)
    share = torch.bincount(tokens, minlength=50) / rows
    assert float((share - expected.exp()).abs().max()) < 0.012


def test_greedy_rows_among_sampled_ones():
    """Guards against a division by temperature 0, and against greedy rows that draw."""
    logits = torch.tensor([[0.0, 3.0, 1.0], [0.0, 3.0, 1.0]])
    expected = logits.log_softmax(dim=-1)
    tokens, logprobs = choose(logits.clone(), [row(0.0), row(1.0, seed=0)])
    assert tokens.tolist() == [1, 0], "seed 0 begins with 0.0115"
    assert logprobs.tolist() == pytest.approx([float(expected[0, 1]), float(expected[1, 0])], abs=1e-6)


def by_definition(weights, top_k, top_p):
    """Which tokens top-k and then top-p leave, token by token."""
    kept = set(range(len(weights)))
    if top_k:
        kept = {i for i in kept if sum(w > weights[i] for w in weights) < top_k}
    total = sum(weights[i] for i in kept)
    if top_p < 1:
        kept = {i for i in kept if sum(weights[j] for j in kept if weights[j] > weights[i]) < top_p * total}
    return kept


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 20), min_size=2, max_size=40).filter(any),
    st.integers(0, 45),
    st.sampled_from([0.05, 0.3, 0.5, 0.77, 0.95, 1.0]),
)
def test_narrowing_equals_its_definition(sizes, top_k, top_p):
    """Guards against a wrong order of top-k and top-p, an off-by-one at the border, or ties torn apart."""
    weights = [size / 16 for size in sizes]
    left = narrowed(torch.tensor(weights), top_k, top_p)
    expected = by_definition(weights, top_k, top_p)
    assert {i for i, weight in enumerate(left.tolist()) if weight} == {i for i in expected if weights[i]}


def test_a_flat_distribution_needs_more_than_the_likeliest_few():
    """Guards against top-p that gives up where the first sorted tokens do not add up."""
    left = narrowed(torch.linspace(1.0, 1.001, 5000), 0, 0.9)
    assert 4490 <= int((left > 0).sum()) <= 4510


def test_narrow_rows_choose_within_and_keep_whole_logprobs():
    """Guards against logprobs renormalised over what top-k leaves, which no learner would compute."""
    logits = torch.randn(1, 60, generator=torch.Generator().manual_seed(1))
    expected = logits.log_softmax(dim=-1)[0].double()
    best = set(logits[0].topk(3).indices.tolist())
    rows = [row(1.0, seed=seed, top_k=3) for seed in range(300)] + [row(1.0, seed=7)]
    tokens, logprobs = choose(logits.repeat(301, 1), rows)
    assert set(tokens[:300].tolist()) == best
    assert torch.allclose(logprobs, expected[tokens], atol=1e-6)
    alone, _ = choose(logits.clone(), [row(1.0, seed=7)])
    assert int(tokens[-1]) == int(alone[0]), "a narrow neighbour changes nothing"
