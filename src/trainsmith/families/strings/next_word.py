"""The neighbour of a word in a list."""

from __future__ import annotations

import random
from dataclasses import dataclass

from trainsmith.families.answers import exact
from trainsmith.families.kind import Kind
from trainsmith.families.recipe import WEAK, Recipe
from trainsmith.families.words import listed, vocabulary


@dataclass(frozen=True)
class Rule:
    """What this task fixes. `step` is 1 for the word after, -1 for the word before."""

    words: tuple[str, ...]
    length: int
    side: str
    step: int


def rule(rng: random.Random) -> Rule:
    """Words, length of the lists, and the side asked for."""
    side, step = rng.choice((("after", 1), ("before", -1)))
    return Rule(vocabulary(rng, 60), rng.choice((4, 5)), side, step)


def describe(rule: Rule) -> str:
    """For the brief."""
    return (
        f"'Which word comes right {rule.side} \"WORD\":', {rule.length} different words joined by commas, "
        f"and a question mark. WORD is any of them that has a word {rule.side} it, at random. The words are "
        f"drawn from: {listed(rule.words)}."
    )


def question(rng: random.Random, rule: Rule) -> tuple[str, str]:
    """One question and its answer."""
    words = rng.sample(rule.words, rule.length)
    asked = rng.randrange(rule.length - 1) + (rule.step < 0)
    text = f'Which word comes right {rule.side} "{words[asked]}": {", ".join(words)}?'
    return text, words[asked + rule.step]


NEXT_WORD = Kind(
    name="next-word",
    skill="Given a list of words and one of them, name its neighbour.",
    answer="The answer is one lower-case word, as it stands in the list.",
    rule=rule,
    describe=describe,
    question=question,
    reward=exact,
    recipe=Recipe(lr=3e-5, steps=30),
    working_base=WEAK,
    max_tokens=6,
    train_seconds=400,
)
