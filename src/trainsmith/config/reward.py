"""How an episode is rewarded: the weights of its parts and the baseline of its uplift (formula: `reward`)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from trainsmith.config.base import Config

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Baseline(StrEnum):
    """Which untrained base the uplift is measured from."""

    BEST = "best"
    """The best of the task's bases: choosing the strong one alone earns no uplift."""
    CHOSEN = "chosen"
    """The base that the job trained."""
    WORST = "worst"
    """The worst of the task's bases."""


class RewardConfig(Config):
    """Weights of the reward; the three parts' weights add up to 1."""

    validation: Share = 0.15
    """Weight of submitting a valid job, the more the fewer probes it took."""
    quality: Share = 0.80
    """Weight of the hidden score after training."""
    speed: Share = 0.05
    """Weight of unspent tokens: a tie-breaker."""
    level: Share = 0.5
    """Share of quality that is the hidden score itself; the rest is its uplift over the baseline."""
    baseline: Baseline = Baseline.BEST

    @model_validator(mode="after")
    def _weights_sum_to_one(self) -> Self:
        total = self.validation + self.quality + self.speed
        if abs(total - 1.0) > 1e-9:
            raise ValueError(f"validation + quality + speed must be 1, not {total:g}")
        return self
