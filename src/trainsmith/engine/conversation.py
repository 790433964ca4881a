"""A conversation with tools, as a chat template takes it. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainsmith.records import Role


@dataclass(frozen=True, slots=True)
class Tool:
    """One function that the model may call."""

    name: str
    declaration: str
    """JSON: `{"type": "function", "function": {...}}`, as OpenAI's protocol has it."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that the model has written."""

    name: str
    arguments: dict[str, Any]
    """A JSON object."""
    id: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message; `calls` only of the assistant, `call_id` only of a tool's answer."""

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    name: str = ""
