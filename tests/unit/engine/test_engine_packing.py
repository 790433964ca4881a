"""Packing must keep every loss term, at its own token, whatever is shared."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsmith.engine.packing import (
    as_datum,
    check_data,
    check_trajectories,
    pack,
    trained_tokens,
    without_idle,
)
from trainsmith.engine.records import (
    Cispo,
    CrossEntropy,
    Datum,
    ImportanceSampling,
    Ppo,
    PrimeLoss,
    Trajectory,
)
from trainsmith.errors import UserError


@st.composite
def data(draw):
    size = draw(st.integers(1, 10))
    line = lambda values: tuple(draw(st.lists(values, min_size=size, max_size=size)))  # noqa: E731
    return Datum(
        tokens=line(st.integers(0, 2)),
        targets=line(st.integers(0, 2)),
        weights=line(st.sampled_from([0.0, 0.0, 1.0, -0.5])),
        logprobs=line(st.sampled_from([-0.25, -1.0, -2.0])),
        advantages=line(st.sampled_from([-1.0, 0.0, 0.5])),
        temperature=draw(st.sampled_from([1.0, 0.5])),
    )


def terms_of(batch):
    """Place -> (context, target, temperature, weight, sampler's logprob, advantage) of every token."""
    columns = ("targets", "weights", "logprobs", "advantages")
    every = (
        (datum.tokens[: at + 1], datum.temperature, *(getattr(datum, name)[at] for name in columns))
        for datum in batch
        for at in range(len(datum.tokens))
    )
    return dict(enumerate(every))


def packed_terms(micro):
    """(place, (context, ...)) of every loss term."""
    context = contexts(micro)
    for n, row in enumerate(micro.row_N):
        values = (micro.target_N[n], micro.weight_N[n], micro.sampler_logprob_N[n], micro.advantage_N[n])
        yield int(micro.place_N[n]), (*context[row], *map(float, values))


def packed_reads(micro):
    context = contexts(micro)
    for m, row in enumerate(micro.row_M):
        yield int(micro.place_M[m]), (*context[row], int(micro.target_M[m]))


def contexts(micro):
    """(tokens read, temperature) of each row of logits."""
    read = {}
    for path in micro.tree.paths:
        for at, node in enumerate(path):
            read[int(node)] = tuple(micro.tree.tokens_T[path[: at + 1]].tolist())
    temperatures = micro.temperature_R.tolist()
    return [(read[int(node)], t) for node, t in zip(micro.rows_R, temperatures, strict=True)]


@given(st.lists(data(), min_size=1, max_size=8), st.integers(4, 40), st.booleans())
def test_every_term_survives_with_its_context(batch, limit, read_all):
    """Guards against terms lost, merged or moved: equal sequences with different terms, several turns."""
    packed = pack(batch, limit, read_all=read_all)
    every = terms_of(batch)
    trained = {place: term for place, term in every.items() if term[3] != 0}
    found = [pair for micro in packed for pair in packed_terms(micro)]
    assert dict(found) == trained and len(found) == len(trained) == trained_tokens(batch)
    reads = [pair for micro in packed for pair in packed_reads(micro)]
    others = {place: term[:3] for place, term in every.items() if term[3] == 0}
    assert dict(reads) == (others if read_all else {}) and len(reads) == len(dict(reads))
    longest = max(len(datum.tokens) for datum in batch)
    assert all(len(micro.tree) <= max(limit, longest) for micro in packed)
    for micro in packed:
        assert (micro.row_N[1:] >= micro.row_N[:-1]).all() and (micro.row_M[1:] >= micro.row_M[:-1]).all()
        assert set(micro.row_N) == set(range(micro.trained_rows)), "no row without a term is differentiated"


def test_a_trajectory_is_the_datum_shifted_by_one():
    """Guards against targets, masks or logprobs a token off."""
    trajectory = Trajectory((5, 6, 7), (False, False, True), (0.0, 0.0, -1.5), 0.5, 0.7)
    expected = Datum((5, 6), (6, 7), (0.0, 1.0), (0.0, -1.5), (0.5, 0.5), 0.7)
    assert as_datum(trajectory) == expected


def test_a_prompt_without_a_mask_is_not_trained_where_its_advantage_is_0():
    """Guards against a backward pass over prompts, and against losing prime's term for advantage 0."""
    datum = Datum((1, 2, 3), (2, 3, 4), (1.0, 1.0, 1.0), (0.0, 0.0, -1.0), (0.0, 0.0, 0.5))
    for loss in (ImportanceSampling(), Ppo(), Cispo()):
        assert without_idle([datum], loss)[0].weights == (0.0, 0.0, 1.0)
    for loss in (PrimeLoss(), CrossEntropy()):
        assert without_idle([datum], loss) == [datum]


def test_a_group_shares_its_prompt_and_equal_samples():
    """Guards against computing a prompt once a sample."""
    prompt = tuple(range(50))
    group = [
        Trajectory((*prompt, 7, reply), (False,) * 50 + (True, True), (0.0,) * 50 + (-1.0, -1.0), 0.5)
        for reply in (1, 1, 2, 3)
    ]
    (micro,) = pack([as_datum(trajectory) for trajectory in group], 1000)
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


@pytest.mark.parametrize(
    ("datum", "fault"),
    [
        (Datum((), (), (), (), ()), "at least one"),
        (Datum((1, 2), (2,), (1.0, 1.0), (0.0, 0.0), (1.0, 1.0)), "length"),
        (Datum((1,), (2,), (math.nan,), (0.0,), (1.0,)), "finite"),
        (Datum((1,), (2,), (1.0,), (0.0,), (math.inf,)), "finite"),
        (Datum((1,), (2,), (1.0,), (0.0,), (1.0,), temperature=0.0), "greedy"),
    ],
)
def test_malformed_data_are_named(datum, fault):
    """Guards against a NaN or a length that would train silently on rubbish."""
    with pytest.raises(UserError, match=fault):
        check_data([datum])
