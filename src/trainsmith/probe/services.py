"""What the probe is given to work with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from trainsmith.config.probe import ProbeConfig
from trainsmith.records import Message

if TYPE_CHECKING:
    from trainsmith.jail import Jail
    from trainsmith.rollout.collect import AsyncPolicy


class PromptTokenizer(Protocol):
    """The part of the engine's `ChatTokenizer` that measures prompts."""

    def encode_chat(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Tokens of a chat with the generation prompt."""


@dataclass(frozen=True, slots=True)
class ProbeServices:
    """Jail, limits, and the ways to a base model by its id.

    The policy must hold the base's own weights; it is asked for only when all cheaper checks have passed.
    What tokenizer and policy take to load counts towards no limit of the job.
    """

    jail: Jail
    tokenizer: Callable[[str], Awaitable[PromptTokenizer]]
    policy: Callable[[str], Awaitable[AsyncPolicy]]
    context: Callable[[str], int]
    """Longest sequence of a base model, in tokens."""
    trainer: str = "embedded"
    """The trainer that is to run the job; keys that it cannot honour fail the probe."""
    limits: ProbeConfig = field(default_factory=ProbeConfig)
