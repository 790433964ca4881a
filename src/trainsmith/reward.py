"""The reward of an episode: one pure function of what happened. It knows nothing of how it was measured.

    R = 0.15 * validation + 0.80 * quality + 0.05 * speed          (weights: config.reward)
    validation = 1 - (k - 1) / K         the k-th of K probes passed; 0 (and R = 0) if none did
    quality    = level * post + (1 - level) * max(0, (post - b) / (1 - b))
    speed      = 1 - tokens / budget     only when quality > 0

with `post` the hidden mean after training and `b` an untrained base's hidden mean on the same items.
An episode that the infrastructure spoilt is void and must not be scored here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import Field, model_validator

from trainsmith.config.reward import Baseline, RewardConfig
from trainsmith.records import Record, RewardParts

NOTHING = RewardParts(total=0.0, validation=0.0, quality=0.0, speed=0.0)
"""The reward of an episode that submitted nothing valid."""


class RewardInputs(Record):
    """All that the reward of one episode depends on."""

    validation_attempt: int | None = Field(ge=1)
    """Number of the first probe that passed, from 1; None if nothing valid was submitted."""
    max_validations: int = Field(ge=1)
    """Probes that the episode allowed."""
    post: float | None = Field(ge=0.0, le=1.0)
    """Hidden mean after training; None when the job left no weights to grade."""
    baseline: float = Field(ge=0.0, le=1.0)
    """Hidden mean of the untrained base that uplift is measured from: see `baseline`."""
    tokens: int = Field(ge=0)
    """Generated plus trained tokens of the job."""
    budget: int = Field(ge=1)
    """Tokens that the task allows."""

    @model_validator(mode="after")
    def _within_limit(self) -> Self:
        if self.validation_attempt is not None and self.validation_attempt > self.max_validations:
            raise ValueError(f"probe {self.validation_attempt} of {self.max_validations} cannot have passed")
        return self


def baseline(means: Sequence[float], chosen: float, form: Baseline) -> float:
    """The hidden mean that uplift is measured from.

    `means` are those of all the task's untrained bases, `chosen` that of the base which the job trained.
    """
    if form is Baseline.CHOSEN:
        return chosen
    return max(means) if form is Baseline.BEST else min(means)


def reward(inputs: RewardInputs, config: RewardConfig | None = None) -> RewardParts:
    """The reward and its parts, each in [0, 1]."""
    if inputs.validation_attempt is None:
        return NOTHING
    weights = config or RewardConfig()
    validation = 1.0 - (inputs.validation_attempt - 1) / inputs.max_validations
    quality = 0.0 if inputs.post is None else _quality(inputs.post, inputs.baseline, weights.level)
    speed = max(0.0, 1.0 - inputs.tokens / inputs.budget) if quality > 0.0 else 0.0
    total = weights.validation * validation + weights.quality * quality + weights.speed * speed
    return RewardParts(total=min(1.0, total), validation=validation, quality=quality, speed=speed)


def _quality(post: float, base: float, level: float) -> float:
    """The score itself and the share of the room above the baseline that was won; 0 room gives no uplift."""
    uplift = max(0.0, (post - base) / (1.0 - base)) if base < 1.0 else 0.0
    return min(1.0, level * post + (1.0 - level) * uplift)
