"""Which trainer runs a job, and how."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainsmith.config.base import Config


class EmbeddedTrainerConfig(Config):
    type: Literal["embedded"] = "embedded"
    """trainsmith's own engine: synchronous, on-policy GRPO on this machine."""

    no_signal_steps: int = Field(6, ge=1)
    """Steps in a row without one usable group after which training stops."""

    keep_weights: bool = True
    """Keep the trained weights (0.5 GB a job for a 135M model) after they have been graded."""


TrainerConfig = EmbeddedTrainerConfig
