"""The last word of a list."""

from __future__ import annotations

import random
from dataclasses import dataclass

from trainsmith.families.answers import exact
from trainsmith.families.kind import Kind
from trainsmith.families.recipe import Recipe
from trainsmith.families.words import listed, vocabulary


@dataclass(frozen=True)
class Rule:
    """What this task fixes."""

    words: tuple[str, ...]
    length: int
    separator: str


def rule(rng: random.Random) -> Rule:
    """Words, length of the lists, and what stands between words."""
    return Rule(vocabulary(rng, 60), rng.choice((6, 7)), rng.choice((" ", ", ")))


def describe(rule: Rule) -> str:
    """For the brief."""
    return (
        f'"What is the last word in this list:", {rule.length} different words joined by {rule.separator!r}, '
        f"and a question mark. The words are drawn at random from: {listed(rule.words)}."
    )


def question(rng: random.Random, rule: Rule) -> tuple[str, str]:
    """One question and its answer."""
    words = rng.sample(rule.words, rule.length)
    return f"What is the last word in this list: {rule.separator.join(words)}?", words[-1]


LAST_WORD = Kind(
    name="last-word",
    skill="Given a list of words, name the last one.",
    answer="The answer is one lower-case word, as it stands in the list.",
    rule=rule,
    describe=describe,
    question=question,
    reward=exact,
    recipe=Recipe(lr=3e-5, steps=15),
    max_tokens=6,
    train_seconds=300,
)
