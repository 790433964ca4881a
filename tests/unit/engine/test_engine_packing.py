"""Packing must keep every loss term, at its own token, whatever is shared."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsmith.engine.packing import check_trajectories, pack, trained_tokens
from trainsmith.engine.records import Trajectory
from trainsmith.errors import UserError


@st.composite
def trajectories(draw):
    size = draw(st.integers(2, 10))
    tokens = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    mask = [False, *draw(st.lists(st.booleans(), min_size=size - 1, max_size=size - 1))]
    return Trajectory(
        tokens=tuple(tokens),
        mask=tuple(mask),
        logprobs=tuple(-draw(st.integers(1, 8)) / 4 if trained else 0.0 for trained in mask),
        advantage=draw(st.integers(-2, 2)) / 2,
        temperature=draw(st.sampled_from([1.0, 0.5])),
    )


def terms_of(trajectory):
    """(context, target, sampler's logprob, advantage, temperature) of every trained token."""
    return [
        (trajectory.tokens[:at], trajectory.tokens[at], trajectory.logprobs[at], *_rest(trajectory))
        for at, trained in enumerate(trajectory.mask)
        if trained
    ]


def _rest(trajectory):
    return trajectory.advantage, trajectory.temperature


def packed_terms(batch):
    context = {}
    for path in batch.tree.paths:
        for at, node in enumerate(path):
            context[int(node)] = tuple(batch.tree.tokens_T[path[: at + 1]].tolist())
    for number, row in enumerate(batch.row_N):
        yield (
            context[int(batch.rows_R[row])],
            int(batch.target_N[number]),
            float(batch.sampler_logprob_N[number]),
            float(batch.advantage_N[number]),
            float(batch.temperature_R[row]),
        )


@given(st.lists(trajectories(), min_size=1, max_size=8), st.integers(4, 40))
def test_every_term_survives_with_its_context(batch, limit):
    """Guards against terms lost, merged or moved: equal samples with different advantages, several turns."""
    packed = pack(batch, limit)
    expected = Counter(term for trajectory in batch for term in terms_of(trajectory))
    assert Counter(term for micro in packed for term in packed_terms(micro)) == expected
    assert trained_tokens(batch) == sum(expected.values())
    longest = max(len(trajectory.tokens) for trajectory in batch)
    assert all(len(micro.tree) <= max(limit, longest) for micro in packed)
    assert all((micro.row_N[1:] >= micro.row_N[:-1]).all() for micro in packed)


def test_a_group_shares_its_prompt_and_equal_samples():
    """Guards against computing a prompt once a sample."""
    prompt = tuple(range(50))
    group = [
        Trajectory((*prompt, 7, reply), (False,) * 50 + (True, True), (0.0,) * 50 + (-1.0, -1.0), 0.5)
        for reply in (1, 1, 2, 3)
    ]
    (micro,) = pack(group, 1000)
    assert len(micro.tree) == 51
    assert len(micro.rows_R) == 2
    assert len(micro.row_N) == 8


@pytest.mark.parametrize(
    ("trajectory", "fault"),
    [
        (Trajectory((1, 2), (True, True), (0.0, 0.0), 1.0), "first token"),
        (Trajectory((1, 2), (False, True), (0.0,), 1.0), "length"),
        (Trajectory((1, 2), (False, True), (0.0, math.nan), 1.0), "finite"),
        (Trajectory((1, 2), (False, True), (0.0, -1.0), math.inf), "finite"),
        (Trajectory((1, 2), (False, True), (0.0, -1.0), 1.0, temperature=0.0), "greedy"),
    ],
)
def test_malformed_trajectories_are_named(trajectory, fault):
    """Guards against a NaN or a misplaced mask that would train silently on rubbish."""
    with pytest.raises(UserError, match=fault):
        check_trajectories([trajectory])
