"""Two words in capital letters."""

from __future__ import annotations

import random
from dataclasses import dataclass

from trainsmith.families.answers import clean
from trainsmith.families.kind import Kind
from trainsmith.families.recipe import Recipe
from trainsmith.families.words import listed, vocabulary


@dataclass(frozen=True)
class Rule:
    """What this task fixes."""

    words: tuple[str, ...]


def rule(rng: random.Random) -> Rule:
    """Words."""
    return Rule(vocabulary(rng, 60))


def describe(rule: Rule) -> str:
    """For the brief."""
    return (
        f"'Write \"WORD WORD\" in capital letters.', with two different lower-case words for WORD, drawn at "
        f"random from: {listed(rule.words)}."
    )


def question(rng: random.Random, rule: Rule) -> tuple[str, str]:
    """One question and its answer."""
    text = " ".join(rng.sample(rule.words, 2))
    return f'Write "{text}" in capital letters.', text.upper()


def reward(reply: str, answer: str) -> float:
    """Half for the whole answer, half for the share of words that are right: one word is learned first."""
    said, wanted = clean(reply).split(), answer.split()
    if len(said) != len(wanted):
        return 0.0
    right = sum(one == other for one, other in zip(said, wanted, strict=True))
    return 0.5 * (right == len(wanted)) + 0.5 * right / len(wanted)


UPPER_CASE = Kind(
    name="upper-case",
    skill="Write two words in capital letters.",
    answer="The answer is the two words in capital letters with one space between them.",
    rule=rule,
    describe=describe,
    question=question,
    reward=reward,
    recipe=Recipe(lr=1e-4, steps=30),
    max_tokens=12,
    train_seconds=500,
)
