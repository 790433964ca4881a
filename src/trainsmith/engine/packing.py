"""Training sequences to micro-batches: packed token trees with the loss terms that hang on them.

Sequences are sorted by their tokens, so that those which share a prefix meet in one micro-batch. Equal
sequences share their tokens in the tree and keep their own terms, so packing changes no gradient.

Free of torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trainsmith.engine.records import CrossEntropy, Datum, LossSpec, PrimeLoss, Trajectory
from trainsmith.engine.token_tree import Indices, TokenTree, build_tree, common_prefix
from trainsmith.errors import UserError

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A tree of T tokens, the R rows of logits that are needed, N loss terms and M more logprobs to read.

    The first `trained_rows` rows carry loss terms; no gradient flows through the others.
    """

    tree: TokenTree
    rows_R: Indices
    """Packed token after which each row of logits is taken, ascending among trained rows and among others."""
    temperature_R: Floats
    trained_rows: int
    row_N: Indices
    """Row of logits of each term, ascending."""
    target_N: Indices
    sampler_logprob_N: Floats
    advantage_N: Floats
    weight_N: Floats
    place_N: Indices
    """Where the term stands when all tokens of all data stand in one line."""
    row_M: Indices
    """Row of logits of each logprob that is read without a loss, ascending."""
    target_M: Indices
    place_M: Indices


def check_trajectories(trajectories: Sequence[Trajectory]) -> None:
    """Raise UserError for a trajectory that cannot be trained on."""
    for number, trajectory in enumerate(trajectories):
        where = f"trajectory {number}"
        if not len(trajectory.tokens) == len(trajectory.mask) == len(trajectory.logprobs):
            raise UserError("tokens, mask and logprobs differ in length", where=where)
        if trajectory.mask and trajectory.mask[0]:
            raise UserError("the first token has no context to be sampled from", where=where)
        _check_numbers(trajectory.temperature, (*trajectory.logprobs, trajectory.advantage), where)


def check_data(data: Sequence[Datum]) -> None:
    """Raise UserError for a datum that cannot be trained on."""
    for number, datum in enumerate(data):
        where = f"datum {number}"
        lengths = {len(x) for x in (datum.targets, datum.weights, datum.logprobs, datum.advantages)}
        if lengths != {len(datum.tokens)}:
            raise UserError("tokens, targets, weights, logprobs and advantages differ in length", where=where)
        if not datum.tokens:
            raise UserError("a datum needs at least one token", where=where)
        _check_numbers(datum.temperature, (*datum.logprobs, *datum.advantages, *datum.weights), where)


def _check_numbers(temperature: float, numbers: Iterable[float], where: str) -> None:
    if temperature <= 0:
        raise UserError("greedy samples have no policy gradient", where=where, fix="sample at temperature 1")
    if not np.isfinite([*numbers]).all():
        raise UserError("a logprob, weight or advantage is not finite", where=where)


def as_datum(trajectory: Trajectory) -> Datum:
    """The trajectory in Tinker's form: every token but the first is a target."""
    mask = trajectory.mask[1:]
    return Datum(
        tokens=trajectory.tokens[:-1],
        targets=trajectory.tokens[1:],
        weights=tuple(map(float, mask)),
        logprobs=trajectory.logprobs[1:],
        advantages=(trajectory.advantage,) * len(mask),
        temperature=trajectory.temperature,
    )


def without_idle(data: Sequence[Datum], loss: LossSpec) -> list[Datum]:
    """Weights set to 0 where the advantage is 0 and the loss is a multiple of it.

    Neither loss nor gradient change, but a prompt that came without a mask costs no backward pass.
    """
    if isinstance(loss, PrimeLoss | CrossEntropy):
        return list(data)
    return [
        replace(d, weights=tuple(w if a else 0.0 for w, a in zip(d.weights, d.advantages, strict=True)))
        for d in data
    ]


def trained_tokens(data: Iterable[Datum]) -> int:
    """Number of tokens that the loss runs over."""
    return sum(sum(weight != 0 for weight in datum.weights) for datum in data)


def pack(data: Sequence[Datum], limit: int, *, read_all: bool = False) -> list[MicroBatch]:
    """Micro-batches of at most `limit` packed tokens, or of one longer sequence alone.

    With `read_all` every target's logprob is read, else those of the loss terms only.
    """
    places = np.cumsum([0, *(len(datum.tokens) for datum in data)])
    pieces = [_Piece(datum, int(place), read_all) for datum, place in zip(data, places, strict=False)]
    batches: list[list[_Piece]] = []
    size = 0
    previous: Indices = np.empty(0, dtype=np.int64)
    for piece in sorted((p for p in pieces if len(p.context)), key=lambda piece: piece.order):
        fresh = len(piece.context) - common_prefix(previous, piece.context)
        if not batches or size + fresh > limit:
            batches.append([])
            size, fresh = 0, len(piece.context)
        batches[-1].append(piece)
        size, previous = size + fresh, piece.context
    return [_micro_batch(batch) for batch in batches]


class _Piece:
    """A datum as arrays, cut after the last token that the model must read."""

    def __init__(self, datum: Datum, place: int, read_all: bool) -> None:
        self.order = (*datum.tokens, *datum.targets[-1:])
        weights = np.asarray(datum.weights, dtype=np.float32)
        needed = np.ones(len(weights), dtype=np.bool_) if read_all else weights != 0
        end = int(np.flatnonzero(needed)[-1]) + 1 if needed.any() else 0
        self.context = np.asarray(datum.tokens[:end], dtype=np.int64)
        self.targets = np.asarray(datum.targets[:end], dtype=np.int64)
        self.weights = weights[:end]
        self.logprobs = np.asarray(datum.logprobs[:end], dtype=np.float32)
        self.advantages = np.asarray(datum.advantages[:end], dtype=np.float32)
        self.temperatures = np.full(end, datum.temperature, dtype=np.float32)
        self.places = np.arange(place, place + end)
        self.needed = needed[:end]


def _micro_batch(pieces: Sequence[_Piece]) -> MicroBatch:
    tree = build_tree([piece.context for piece in pieces])
    needed = np.concatenate([piece.needed for piece in pieces])
    node = np.concatenate(tree.paths)[needed]
    temperature = np.concatenate([piece.temperatures for piece in pieces])[needed]
    weight = np.concatenate([piece.weights for piece in pieces])[needed]
    rows, row = np.unique(np.stack((node.astype(np.float64), temperature)), axis=1, return_inverse=True)
    trained_row = np.zeros(rows.shape[1], dtype=np.bool_)
    trained_row[row[weight != 0]] = True
    # Trained rows first: those that are only read take no part in the backward pass.
    order_of_rows = np.argsort(~trained_row, kind="stable")
    rank = np.argsort(order_of_rows)
    row = rank[row]
    order = np.argsort(row, kind="stable")
    terms, reads = order[weight[order] != 0], order[weight[order] == 0]
    target, place, logprob, advantage = (
        np.concatenate([getattr(piece, name) for piece in pieces])[needed]
        for name in ("targets", "places", "logprobs", "advantages")
    )
    return MicroBatch(
        tree=tree,
        rows_R=rows[0, order_of_rows].astype(np.int64),
        temperature_R=rows[1, order_of_rows].astype(np.float32),
        trained_rows=int(trained_row.sum()),
        row_N=row[terms],
        target_N=target[terms],
        sampler_logprob_N=logprob[terms],
        advantage_N=advantage[terms],
        weight_N=weight[terms],
        place_N=place[terms],
        row_M=row[reads],
        target_M=target[reads],
        place_M=place[reads],
    )
