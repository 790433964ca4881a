"""A task: one skill to teach, with its brief, public examples, bases and budget."""

from __future__ import annotations

from enum import StrEnum

from trainsmith.records.base import Record
from trainsmith.records.message import Message


class Tier(StrEnum):
    """The size of model that a task is calibrated for."""

    MICRO = "micro"
    """100M-class models on a CPU."""
    SMALL = "small"
    """0.6B to 1.7B models on a GPU."""


class Item(Record):
    """One question with its answer. Hidden items never leave the trusted process."""

    question: str
    answer: str
    details: str = ""
    """JSON text for a scorer that needs more than the answer."""


class Budget(Record):
    """What a job may spend."""

    train_seconds: float
    """Wall seconds of training on the reference machine (2 cores); more is a time-out."""
    max_steps: int
    """Optimiser steps."""
    max_tokens: int
    """Generated plus trained tokens; the reward's speed part is measured against it."""


class EpisodeLimits(Record):
    """What an agent may spend in one episode."""

    max_turns: int = 40
    max_validations: int = 3


class Evaluation(Record):
    """How the hidden evaluation samples; the same before and after training."""

    items: int = 256
    max_tokens: int = 16
    """New tokens a turn."""
    temperature: float = 0.0
    """0 is greedy."""


class Task(Record):
    """One task instance. The id `family/kind@seed` determines every field."""

    id: str
    family: str
    kind: str
    seed: int
    tier: Tier
    brief: str
    """Markdown: what the model must learn, the answer format, how it is scored."""
    prefix: tuple[Message, ...]
    """Messages before the question: the system message and two solved examples as chat turns."""
    examples: tuple[Item, ...]
    """Eight public examples; the first two are the solved ones in `prefix`."""
    bases: tuple[str, ...]
    budget: Budget
    limits: EpisodeLimits = EpisodeLimits()
    evaluation: Evaluation = Evaluation()

    def messages(self, question: str) -> tuple[Message, ...]:
        """The chat that the evaluation opens for one question."""
        return (*self.prefix, Message(role="user", content=question))
