"""The largest or the smallest of some numbers."""

from __future__ import annotations

import random
from dataclasses import dataclass

from trainsmith.families.answers import exact
from trainsmith.families.kind import Kind
from trainsmith.families.recipe import WEAK, Recipe


@dataclass(frozen=True)
class Rule:
    """What this task fixes."""

    word: str
    count: int
    low: int
    high: int


def rule(rng: random.Random) -> Rule:
    """Which end is asked for, of how many numbers, from which range (both ends included)."""
    return Rule(rng.choice(("largest", "smallest")), rng.choice((3, 4)), rng.choice((10, 20)), 99)


def describe(rule: Rule) -> str:
    """For the brief."""
    return (
        f'"Which number is the {rule.word}:", {rule.count} different whole numbers from {rule.low} to '
        f"{rule.high} joined by commas, and a question mark. The numbers and their order are random."
    )


def question(rng: random.Random, rule: Rule) -> tuple[str, str]:
    """One question and its answer."""
    numbers = rng.sample(range(rule.low, rule.high + 1), rule.count)
    answer = max(numbers) if rule.word == "largest" else min(numbers)
    return f"Which number is the {rule.word}: {', '.join(map(str, numbers))}?", str(answer)


EXTREME = Kind(
    name="extreme",
    skill="Find the largest or the smallest of a few whole numbers.",
    answer="The answer is the number in digits.",
    rule=rule,
    describe=describe,
    question=question,
    reward=exact,
    recipe=Recipe(lr=3e-5, steps=30),
    working_base=WEAK,
    max_tokens=6,
    train_seconds=400,
)
