"""The word at a place of a list that is neither its first nor its last."""

from __future__ import annotations

import random
from dataclasses import dataclass

from trainsmith.families.answers import exact
from trainsmith.families.kind import Kind
from trainsmith.families.recipe import Recipe
from trainsmith.families.words import listed, vocabulary


@dataclass(frozen=True)
class Rule:
    """What this task fixes. `index` counts from 0."""

    words: tuple[str, ...]
    length: int
    place: str
    index: int


def rule(rng: random.Random) -> Rule:
    """Words, length of the lists, and the place asked for."""
    place, index = rng.choice((("second", 1), ("third", 2), ("second to last", -2)))
    return Rule(vocabulary(rng, 60), rng.choice((4, 5)), place, index)


def describe(rule: Rule) -> str:
    """For the brief."""
    return (
        f'"What is the {rule.place} word in this list:", {rule.length} different words joined by commas, and '
        f"a question mark. The words are drawn at random from: {listed(rule.words)}."
    )


def question(rng: random.Random, rule: Rule) -> tuple[str, str]:
    """One question and its answer."""
    words = rng.sample(rule.words, rule.length)
    return f"What is the {rule.place} word in this list: {', '.join(words)}?", words[rule.index]


WORD_AT = Kind(
    name="word-at",
    skill="Given a list of words, name the one at a certain place.",
    answer="The answer is one lower-case word, as it stands in the list.",
    rule=rule,
    describe=describe,
    question=question,
    reward=exact,
    recipe=Recipe(lr=3e-5, steps=20),
    max_tokens=6,
    train_seconds=300,
)
