"""Values that cross the engine's border. Free of torch, so that any module may name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """One sequence to sample. Requests with equal prompts share their prefill."""

    prompt: tuple[int, ...]
    max_tokens: int
    temperature: float
    """0 is greedy."""
    seed: int
    """Seeds this row alone: the same request gives the same tokens in any batch, up to rounding."""


@dataclass(frozen=True, slots=True)
class Completion:
    """Sampled tokens, the stop token included, with their logprobs at the sampling temperature."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One training sequence; several turns when the mask has several runs.

    `tokens`, `mask` and `logprobs` have one entry a token; `mask` is True where the policy sampled,
    `logprobs` holds the sampler's logprob there and 0.0 elsewhere.
    """

    tokens: tuple[int, ...]
    mask: tuple[bool, ...]
    logprobs: tuple[float, ...]
    advantage: float
