"""Uniform numbers that belong to a row, and the choice of a token by inverting the cumulative distribution.

A row's numbers come from a counter-based generator under the row's own seed, so its tokens depend neither on
the batch it is sampled in nor on the order of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

_BLOCK = 256
"""Vocabulary entries summed in float32 before float64 takes over."""
_CACHED_BYTES = 2**20
"""Logits worked on at a time: what stays in a core's second-level cache."""


def uniforms(seeds: Sequence[int], count: int) -> Tensor:
    """[rows, count] float64 in (0, 1): the first `count` numbers of each seed's Philox stream."""
    rows = np.empty((len(seeds), count))
    for row, seed in enumerate(seeds):
        raw = np.random.Philox(key=seed % 2**64).random_raw(count)
        # The middle of one of 2**53 equal intervals: never 0 and never 1.
        rows[row] = ((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return torch.from_numpy(rows)


def choose(logits_BV: Tensor, temperature_B: Tensor, uniform_B: Tensor) -> tuple[Tensor, Tensor]:
    """One token a row and its logprob, both [B]. The logits are overwritten.

    Rows of temperature 0 take the likeliest token, and its logprob at temperature 1. Others take the token
    at which the cumulative probability passes the uniform number. Logprobs are float64, at the row's
    temperature.
    """
    rows = (
        max(1, _CACHED_BYTES // (4 * logits_BV.shape[1]))
        if logits_BV.device.type == "cpu"
        else len(logits_BV)
    )
    parts = zip(*(torch.split(x, rows) for x in (logits_BV, temperature_B, uniform_B)), strict=True)
    tokens, logprobs = zip(*(_choose(*part) for part in parts), strict=True)
    return torch.cat(tokens), torch.cat(logprobs)


def _choose(logits: Tensor, temperature: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    greedy = temperature == 0
    best = logits.argmax(dim=-1) if bool(greedy.any()) else None
    weights = logits.sub_(logits.amax(dim=-1, keepdim=True))
    weights = weights.div_(torch.where(greedy, 1.0, temperature)[:, None]).exp_()
    tokens, total = invert_cumulative(weights, uniform)
    if best is not None:
        tokens = torch.where(greedy, best, tokens)
    return tokens, (weights.gather(1, tokens[:, None])[:, 0].double() / total).log()


def invert_cumulative(weights_BV: Tensor, uniform_B: Tensor) -> tuple[Tensor, Tensor]:
    """The first index [B] whose cumulative weight exceeds `uniform * total`, and the total [B].

    Works in two levels, blocks of the vocabulary and then one block, since a cumulative sum over the whole
    vocabulary costs as much as a decoder layer. An index of weight 0 is never returned.
    """
    rest = -weights_BV.shape[1] % _BLOCK
    padded = F.pad(weights_BV, (0, rest)) if rest else weights_BV
    blocks = padded.view(len(padded), -1, _BLOCK)
    ends = blocks.sum(dim=-1).double().cumsum(dim=-1)
    total = ends[:, -1:]
    target = uniform_B[:, None] * total
    block = torch.searchsorted(ends, target, right=True).clamp_(max=ends.shape[1] - 1)
    starts = F.pad(ends, (1, 0))
    start, end = starts.gather(1, block), ends.gather(1, block)
    inside = blocks[torch.arange(len(blocks), device=block.device), block[:, 0]].double().cumsum(dim=-1)
    # The share of the block that lies below the target, on the block's own float64 scale.
    target = (target - start) / (end - start) * inside[:, -1:]
    within = torch.searchsorted(inside, target, right=True)
    last = torch.searchsorted(inside, inside[:, -1:].contiguous())
    return (block * _BLOCK + torch.minimum(within, last))[:, 0], total[:, 0]
