"""Trajectories to micro-batches: packed token trees with the loss terms that hang on them. Free of torch.

Trajectories are sorted by their tokens, so that those which share a prefix meet in one micro-batch. Equal
trajectories share their tokens in the tree and keep their own terms, so packing changes no gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainsmith.engine.records import Trajectory
from trainsmith.engine.token_tree import Indices, TokenTree, build_tree, common_prefix
from trainsmith.errors import UserError

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A tree of T tokens, the R rows of logits that are needed, and N loss terms that read from them."""

    tree: TokenTree
    rows_R: Indices
    """Packed token after which each row of logits is taken, ascending."""
    temperature_R: Floats
    row_N: Indices
    """Row of logits of each term, ascending."""
    target_N: Indices
    """The token that was sampled."""
    sampler_logprob_N: Floats
    advantage_N: Floats


def check_trajectories(trajectories: Sequence[Trajectory]) -> None:
    """Raise UserError for a trajectory that cannot be trained on."""
    for number, trajectory in enumerate(trajectories):
        where = f"trajectory {number}"
        if not len(trajectory.tokens) == len(trajectory.mask) == len(trajectory.logprobs):
            raise UserError("tokens, mask and logprobs differ in length", where=where)
        if trajectory.mask and trajectory.mask[0]:
            raise UserError("the first token has no context to be sampled from", where=where)
        if trajectory.temperature <= 0:
            raise UserError(
                "greedy samples have no policy gradient", where=where, fix="sample at temperature 1"
            )
        if not np.isfinite([*trajectory.logprobs, trajectory.advantage]).all():
            raise UserError("a logprob or the advantage is not finite", where=where)


def trained_tokens(trajectories: Sequence[Trajectory]) -> int:
    """Number of tokens that the loss runs over."""
    return sum(map(sum, (trajectory.mask for trajectory in trajectories)))


def pack(trajectories: Sequence[Trajectory], limit: int) -> list[MicroBatch]:
    """Micro-batches of at most `limit` packed tokens, or of one longer trajectory alone."""
    useful = sorted((t for t in trajectories if any(t.mask)), key=lambda t: t.tokens)
    batches: list[list[Trajectory]] = []
    size = 0
    previous: Indices = np.empty(0, dtype=np.int64)
    for trajectory in useful:
        context = np.asarray(_context(trajectory), dtype=np.int64)
        fresh = len(context) - common_prefix(previous, context)
        if not batches or size + fresh > limit:
            batches.append([])
            size, fresh = 0, len(context)
        batches[-1].append(trajectory)
        size, previous = size + fresh, context
    return [_micro_batch(batch) for batch in batches]


def _context(trajectory: Trajectory) -> tuple[int, ...]:
    """The tokens that the model reads: all before the last trained one."""
    last = len(trajectory.mask) - 1 - trajectory.mask[::-1].index(True)
    return trajectory.tokens[:last]


def _micro_batch(trajectories: Sequence[Trajectory]) -> MicroBatch:
    tree = build_tree([_context(trajectory) for trajectory in trajectories])
    nodes, targets, logprobs, advantages, temperatures = [], [], [], [], []
    for trajectory, path in zip(trajectories, tree.paths, strict=True):
        trained = np.flatnonzero(trajectory.mask)
        nodes.append(path[trained - 1])
        targets.append(np.asarray(trajectory.tokens, dtype=np.int64)[trained])
        logprobs.append(np.asarray(trajectory.logprobs, dtype=np.float32)[trained])
        advantages.append(np.full(len(trained), trajectory.advantage, dtype=np.float32))
        temperatures.append(np.full(len(trained), trajectory.temperature, dtype=np.float32))
    keys = np.stack((np.concatenate(nodes).astype(np.float64), np.concatenate(temperatures)))
    unique, row = np.unique(keys, axis=1, return_inverse=True)
    order = np.argsort(row, kind="stable")
    return MicroBatch(
        tree=tree,
        rows_R=unique[0].astype(np.int64),
        temperature_R=unique[1].astype(np.float32),
        row_N=row[order],
        target_N=np.concatenate(targets)[order],
        sampler_logprob_N=np.concatenate(logprobs)[order],
        advantage_N=np.concatenate(advantages)[order],
    )
