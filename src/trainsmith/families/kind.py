"""A task kind: one skill, from which a seed makes any number of distinct tasks.

A kind is written as plain functions over a small frozen `Rule` that holds what a seed fixes (words, numbers,
separators). The sources of `Rule`, `question` and `reward` are also the body of the kind's reference job
(see `environment`), so they may use the standard library and `answers` only.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from trainsmith.families.answers import exact
from trainsmith.families.recipe import STRONG, Recipe
from trainsmith.records import EpisodeLimits, Item, Message, Tier

R = TypeVar("R")
"""A frozen dataclass named `Rule`."""

Score = Callable[[str, str], float]
"""(reply, answer) to a number in [0, 1]; must take any text."""

REPLIES = "Reply with only the answer."


@dataclass(frozen=True, slots=True)
class Kind(Generic[R]):
    """One skill. All functions are deterministic in their arguments."""

    name: str
    """The part of a task id between `/` and `@`; lower-case words joined by `-`."""
    skill: str
    """One sentence: what the model must learn."""
    answer: str
    """One or two sentences: the exact form of an answer."""
    rule: Callable[[random.Random], R]
    """Draws what a seed fixes."""
    describe: Callable[[R], str]
    """What all questions under a rule have in common, for the brief: enough to write more of them."""
    question: Callable[[random.Random, R], tuple[str, str]]
    """Draws one question with its answer."""
    reward: Score
    """The reference job's reward; may give partial credit."""
    recipe: Recipe
    """The reference job's settings."""
    max_tokens: int
    """New tokens of a reply in the evaluation."""
    train_seconds: float
    """Budget of wall seconds: three times what the reference job takes on two busy cores."""
    working_base: str = STRONG
    """Base of the mediocre job: the weak one where its untrained replies give GRPO a signal at all."""
    score: Score = exact
    """The hidden score."""
    scoring: str = "A reply scores 1 if it is the answer and nothing else, otherwise 0."
    """How `score` works, in words for the brief."""
    system: str = REPLIES
    """System message of the evaluation."""
    generate: Callable[[random.Random, R], tuple[str, str]] | None = None
    """Draws hidden and public items instead of `question`, where a library makes them; the same questions."""
    next_message: Callable[[Item, tuple[str, ...]], Message | None] | None = None
    """The next user message of a conversation of several turns; None: one turn."""
    tier: Tier = Tier.MICRO
    limits: EpisodeLimits = field(default_factory=EpisodeLimits)

    @property
    def package(self) -> str:
        """Name of the reference job's environment package."""
        return self.name.replace("-", "_")


AnyKind = Kind[Any]
