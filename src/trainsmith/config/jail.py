"""How the author's code is confined."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainsmith.config.base import Config


class JailConfig(Config):
    kind: Literal["auto", "bubblewrap", "landlock", "none"] = "auto"
    """`auto` takes the best jail that works here and fails if none does; `none` runs the code unconfined."""

    workers: int = Field(1, ge=1)
    """Processes that play rollouts."""
