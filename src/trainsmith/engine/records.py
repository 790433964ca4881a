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
    top_p: float = 1.0
    """Only the likeliest tokens whose probabilities first add up to this, after `top_k`."""
    top_k: int = 0
    """Only so many of the likeliest tokens, and their equals; 0 is all."""
    stop_tokens: tuple[int, ...] | None = None
    """Tokens that end the reply; None: the model's own."""
    stop_strings: tuple[str, ...] = ()
    """The reply ends with the token that completes one of these in its text."""
    prompt_logprobs: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """Sampled tokens, the last one included that ended the reply, with their logprobs.

    Logprobs are at the sampling temperature (at 1 for greedy tokens) over the whole vocabulary, whatever
    `top_p` and `top_k` leave of it: what a learner computes, too.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Literal["stop", "length"]
    prompt_logprobs: tuple[float | None, ...] | None = None
    """Of each prompt token after those before it, at temperature 1; None for the first."""


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
    temperature: float = 1.0
    """The sampling temperature: the learner's logprobs are taken at the same."""


@dataclass(frozen=True, slots=True)
class Datum:
    """One training sequence in Tinker's form: T input tokens, and for each the target to predict after it.

    All tuples have T entries. A target need not be the next input token.
    """

    tokens: tuple[int, ...]
    targets: tuple[int, ...]
    weights: tuple[float, ...]
    """0: not trained. The weights of `CrossEntropy`, the mask (0 or 1) of the other losses."""
    logprobs: tuple[float, ...]
    """The sampler's, of the targets; 0.0 where there is none."""
    advantages: tuple[float, ...]
    temperature: float = 1.0
    """The sampling temperature: the learner's logprobs are taken at the same."""


@dataclass(frozen=True, slots=True)
class SchedulerSpec:
    """The course of the learning rate; keys and meaning of prime-rl's `scheduler`."""

    type: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: int = 10
    decay_steps: int = 10
    """Steps of the final decay (linear only)."""
    min_lr: float = 0.0
    max_steps: int | None = None
    """All steps of the run; a decay ends there."""


@dataclass(frozen=True, slots=True)
class OptimSpec:
    """The optimiser; keys, meaning and defaults of prime-rl's `optim`."""

    type: Literal["adamw", "sgd", "sign_sgd"] = "adamw"
    lr: float = 1e-6
    weight_decay: float = 0.01
    max_norm: float | None = 1.0
    """The gradient's norm is clipped to this; None clips nothing."""
    betas1: float = 0.9
    betas2: float = 0.999
    momentum: float = 0.9
    nesterov: bool = True
    scheduler: SchedulerSpec = SchedulerSpec()


@dataclass(frozen=True, slots=True)
class AdamSpec:
    """One AdamW step; keys, meaning and defaults of Tinker's `AdamParams`."""

    lr: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0
    """Decoupled."""
    grad_clip_norm: float = 0.0
    """The gradient's norm is clipped to this; 0 clips nothing."""


@dataclass(frozen=True, slots=True)
class PrimeLoss:
    """prime-rl's default loss (`trainer.loss`): masked policy gradient plus a squared log-ratio."""

    dppo_mask_low: float = 0.2
    """A token of negative (or zero) advantage is masked once its probability fell by more than this."""
    dppo_mask_high: float = 0.2
    """A token of positive advantage is masked once its probability rose by more than this."""
    adv_tau: float = 1.0
    kl_tau: float = 1e-3


@dataclass(frozen=True, slots=True)
class ImportanceSampling:
    """Tinker's `importance_sampling`: the policy gradient weighted by the probability ratio, unclipped."""


@dataclass(frozen=True, slots=True)
class Ppo:
    """Tinker's `ppo`: the smaller of the ratio's and the clipped ratio's objective, token by token."""

    clip_low_threshold: float = 0.8
    """Bound of the ratio itself, not a distance from 1."""
    clip_high_threshold: float = 1.2


@dataclass(frozen=True, slots=True)
class Cispo:
    """Tinker's `cispo`: the clipped ratio is a constant weight of the logprob."""

    clip_low_threshold: float = 0.8
    """Bound of the ratio itself, not a distance from 1."""
    clip_high_threshold: float = 1.2


@dataclass(frozen=True, slots=True)
class CrossEntropy:
    """Tinker's `cross_entropy`: the weighted negative logprob of the targets. Weights may be negative."""


LossSpec = PrimeLoss | ImportanceSampling | Ppo | Cispo | CrossEntropy
"""A loss with its settings. Every one is a sum over tokens of weight times token loss."""


@dataclass(frozen=True, slots=True)
class LoraSpec:
    """Low-rank adapters on every linear layer; keys and defaults of prime-rl's `model.lora`."""

    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.0


@dataclass(frozen=True, slots=True)
class UpdateStats:
    """What one optimiser step saw. Means are over trained tokens; zero when there were none."""

    loss: float
    entropy: float
    """Of the learner's distribution at the sampling temperature, in nats."""
    mismatch_kl: float
    """Mean of exp(d) - d - 1 with d = learner's minus sampler's logprob."""
    grad_norm: float
    """Before clipping."""
    trained_tokens: int
    """Tokens that the loss runs over."""
    masked_fraction: float
    """Share of trained tokens whose policy gradient the trust region masks."""
    packed_tokens: int
    """Tokens that went through the model after packing."""
    lr: float
    """The learning rate of this step."""


@dataclass(frozen=True, slots=True)
class LossMetrics:
    """What a pass over data saw. Means are over trained tokens; zero when there were none."""

    trained_tokens: int
    """Tokens whose loss depends on their logprob: the weight is not 0, nor the advantage where it counts."""
    packed_tokens: int
    """Tokens that went through the model after packing."""
    entropy: float
    """Of the learner's distribution at the sampling temperature, in nats."""
    mismatch_kl: float
    """Mean of exp(d) - d - 1 with d = learner's minus sampler's logprob; 0 for `CrossEntropy`."""
    masked_fraction: float
    """Share of trained tokens whose gradient the loss masks or clips."""


@dataclass(frozen=True, slots=True)
class ForwardBackward:
    """The outcome of one pass over data."""

    loss: float
    """Sum over all tokens of all data, as Tinker defines it (`loss:sum`)."""
    logprobs: tuple[tuple[float, ...], ...]
    """The learner's logprob of every target, trained or not: T a datum, in the order of the data."""
    metrics: LossMetrics


@dataclass(frozen=True, slots=True)
class OptimStats:
    """One optimiser step."""

    lr: float
    grad_norm: float
    """Before clipping."""
    taken: bool
    """False when the gradient was not finite: weights and optimiser are as before."""
