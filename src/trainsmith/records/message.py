"""One chat message."""

from __future__ import annotations

from typing import Literal

from trainsmith.records.base import Record

Role = Literal["system", "user", "assistant", "tool"]


class Message(Record):
    """One chat message; `content` is plain text."""

    role: Role
    content: str
