"""What the server keeps on disk, one JSON document each."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from trainsmith.records.base import Record


class SessionRecord(Record):
    """One client's session."""

    id: str
    created: datetime
    metadata: dict[str, Any] | None = None
    name: str | None = None
    finished: bool = False


class RunRecord(Record):
    """One training run: a LoRA learner over the base."""

    id: str
    session: str
    base: str
    rank: int
    alpha: float
    seed: int
    created: datetime
    metadata: dict[str, Any] | None = None


class SamplerRecord(Record):
    """One sampling session: which weights its requests are answered with."""

    id: str
    session: str
    base: str
    path: str | None = None
    """A `tinker://` path; None with `folder` empty is the base itself."""
    folder: str = ""
    """Unnamed weights below the runs' directory: they end with their session."""


class CheckpointRecord(Record):
    """One saved state."""

    path: str
    base: str
    rank: int
    alpha: float
    optimiser: bool
    created: datetime
    expires: datetime | None = None
    metadata: dict[str, str] | None = None
