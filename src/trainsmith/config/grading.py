"""How hidden scores are taken and summarised. What is sampled (items, tokens) is the task's, not set here."""

from __future__ import annotations

from pydantic import Field

from trainsmith.config.base import Config


class GradingConfig(Config):
    """The evaluation's seed and the confidence level of every interval."""

    seed: int = Field(default=0, ge=0)
    """Seed of the evaluation's sampling; apart from any training seed."""
    level: float = Field(default=0.95, gt=0.5, lt=1.0)
    """Confidence level of the intervals."""
