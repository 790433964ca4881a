"""The next number of a sequence with equal steps."""

from __future__ import annotations

import random
from dataclasses import dataclass

from trainsmith.families.answers import exact
from trainsmith.families.kind import Kind
from trainsmith.families.recipe import Recipe


@dataclass(frozen=True)
class Rule:
    """What this task fixes."""

    steps: tuple[int, ...]
    shown: int
    highest: int


def rule(rng: random.Random) -> Rule:
    """Possible steps, how many numbers are shown, and the highest first number."""
    return Rule(rng.choice(((1, 2, 10), (1, 10), (1, 2, 5, 10))), 4, rng.choice((600, 800)))


def describe(rule: Rule) -> str:
    """For the brief."""
    return (
        f'"What comes next:", {rule.shown} numbers joined by commas, and a question mark. Each number is the '
        f"one before it plus a step; the step is one of {', '.join(map(str, rule.steps))}, the first number "
        f"is from 1 to {rule.highest}, both at random."
    )


def question(rng: random.Random, rule: Rule) -> tuple[str, str]:
    """One question and its answer."""
    first, step = rng.randint(1, rule.highest), rng.choice(rule.steps)
    numbers = [str(first + place * step) for place in range(rule.shown + 1)]
    return f"What comes next: {', '.join(numbers[:-1])}?", numbers[-1]


SEQUENCE = Kind(
    name="sequence",
    skill="Continue a sequence of whole numbers with equal steps.",
    answer="The answer is the next number in digits.",
    rule=rule,
    describe=describe,
    question=question,
    reward=exact,
    recipe=Recipe(lr=3e-5, steps=25),
    max_tokens=6,
    train_seconds=400,
)
