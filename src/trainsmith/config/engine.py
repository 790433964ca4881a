"""How the local engine runs."""

from __future__ import annotations

from typing import Literal

from trainsmith.config.base import Config


class EngineConfig(Config):
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where tensors live; `auto` takes a GPU when there is one."""

    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of the working weights; `auto` takes bfloat16 where the device computes it natively."""
