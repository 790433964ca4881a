"""The base of all records: frozen, strict about unknown fields, JSON both ways."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A frozen value that crosses a module border."""

    model_config = ConfigDict(frozen=True, extra="forbid")
