"""Uniform numbers that belong to a row, and the choice of a token by inverting the cumulative distribution.

A row's numbers come from a counter-based generator under the row's own seed, so its tokens depend neither on
the batch it is sampled in nor on the order of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trainsmith.engine.failure import NotFinite
from trainsmith.engine.records import SampleRequest

_DRAWN = 32
"""Numbers drawn at once."""
_LIKELIEST = 512
"""Sorted first for top-p: nearly always they suffice, and a whole vocabulary takes 50 times as long."""
_BLOCK = 256
"""Vocabulary entries summed in float32 before float64 takes over."""
_CACHED_BYTES = 2**20
"""Logits worked on at a time: what stays in a core's second-level cache."""


class Uniforms:
    """Float64 numbers in (0, 1): one seed's Philox stream, in order."""

    def __init__(self, seed: int) -> None:
        self._philox = np.random.Philox(key=seed % 2**64)
        self._ready: list[float] = []

    def next(self) -> float:
        """The next number."""
        if not self._ready:
            raw = self._philox.random_raw(_DRAWN)
            # The middle of one of 2**53 equal intervals: never 0 and never 1.
            self._ready = (((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53).tolist()[::-1]
        return self._ready.pop()


def uniforms(seeds: Sequence[int], count: int) -> Tensor:
    """The first `count` numbers of each seed, [rows, count]."""
    streams = [Uniforms(seed) for seed in seeds]
    return torch.tensor([[stream.next() for _ in range(count)] for stream in streams], dtype=torch.float64)


@dataclass(frozen=True, slots=True)
class Choice:
    """How one row chooses its tokens; `SampleRequest` says what the fields mean."""

    temperature: float
    top_p: float
    top_k: int
    numbers: Uniforms

    @classmethod
    def of(cls, request: SampleRequest) -> Choice:
        """A request's, with its numbers from the first on."""
        return cls(request.temperature, request.top_p, request.top_k, Uniforms(request.seed))

    @property
    def narrow(self) -> bool:
        """Whether some tokens cannot be chosen."""
        return self.temperature > 0 and (self.top_p < 1 or self.top_k > 0)


def choose(logits_BV: Tensor, choices: Sequence[Choice]) -> tuple[Tensor, Tensor]:
    """One token a row and its logprob, both [B]. The logits are overwritten.

    Rows of temperature 0 take the likeliest token, and its logprob at temperature 1. Others take the token
    at which the cumulative probability passes the row's next number. Logprobs are float64, at the row's
    temperature, over the whole vocabulary. Raises NotFinite for rows with NaN or infinite likeliest logits.
    """
    device = logits_BV.device
    rows = max(1, _CACHED_BYTES // (4 * logits_BV.shape[1])) if device.type == "cpu" else len(logits_BV)
    tokens, logprobs = [], []
    for start in range(0, len(choices), rows):
        part = choices[start : start + rows]
        numbers = torch.tensor([choice.numbers.next() for choice in part], dtype=torch.float64)
        some = _choose(logits_BV[start : start + rows], part, numbers.to(device))
        tokens.append(some[0])
        logprobs.append(some[1])
    return torch.cat(tokens), torch.cat(logprobs)


def _choose(logits: Tensor, choices: Sequence[Choice], uniform: Tensor) -> tuple[Tensor, Tensor]:
    degrees = [choice.temperature for choice in choices]
    temperature = torch.tensor(degrees, dtype=torch.float32, device=logits.device)
    best = logits.argmax(dim=-1) if 0 in degrees else None
    weights = logits.sub_(logits.amax(dim=-1, keepdim=True))
    weights = weights.div_(torch.where(temperature == 0, 1.0, temperature)[:, None]).exp_()
    tokens, total = invert_cumulative(weights, uniform)
    if not total.isfinite().all():  # one NaN of a row reaches all its weights through the largest logit
        raise NotFinite
    for row, choice in enumerate(choices):
        if choice.narrow:
            few = narrowed(weights[row], choice.top_k, choice.top_p)[None]
            tokens[row] = invert_cumulative(few, uniform[row : row + 1])[0][0]
    if best is not None:
        tokens = torch.where(temperature == 0, best, tokens)
    return tokens, (weights.gather(1, tokens[:, None])[:, 0].double() / total).log()


def narrowed(weights_V: Tensor, top_k: int, top_p: float) -> Tensor:
    """The weights with 0 for tokens that may not be chosen: top-k first, then top-p of what is left.

    Tokens as likely as the last one kept are kept, too. Source of top-p: arXiv 1904.09751.
    """
    if 0 < top_k < len(weights_V):
        weights_V = _at_least(weights_V, weights_V.topk(top_k).values[-1])
    if top_p < 1:
        enough = top_p * weights_V.sum(dtype=torch.float64)
        for size in (min(_LIKELIEST, len(weights_V)), len(weights_V)):
            ordered = weights_V.topk(size).values
            sums = ordered.double().cumsum(dim=0)
            if sums[-1] >= enough:
                break
        before = sums - ordered
        weights_V = _at_least(weights_V, ordered[max(1, int((before < enough).sum())) - 1])
    return weights_V


def _at_least(weights_V: Tensor, least: Tensor) -> Tensor:
    return torch.where(weights_V >= least, weights_V, 0.0)


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
