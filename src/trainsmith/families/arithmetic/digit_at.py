"""One digit of a number."""

from __future__ import annotations

import random
from dataclasses import dataclass

from trainsmith.families.answers import exact
from trainsmith.families.kind import Kind
from trainsmith.families.recipe import WEAK, Recipe


@dataclass(frozen=True)
class Rule:
    """What this task fixes. `index` counts from 0."""

    place: str
    index: int
    digits: int


def rule(rng: random.Random) -> Rule:
    """The place asked for, and how many digits a number has."""
    place, index = rng.choice((("last", -1), ("second", 1), ("second to last", -2)))
    return Rule(place, index, rng.choice((4, 5)))


def describe(rule: Rule) -> str:
    """For the brief."""
    return (
        f'"What is the {rule.place} digit of NUMBER?", with a random whole number of {rule.digits} digits '
        "for NUMBER. Its first digit is not 0."
    )


def question(rng: random.Random, rule: Rule) -> tuple[str, str]:
    """One question and its answer."""
    number = str(rng.randrange(10 ** (rule.digits - 1), 10**rule.digits))
    return f"What is the {rule.place} digit of {number}?", number[rule.index]


DIGIT_AT = Kind(
    name="digit-at",
    skill="Name the digit at a certain place of a whole number.",
    answer="The answer is one digit.",
    rule=rule,
    describe=describe,
    question=question,
    reward=exact,
    recipe=Recipe(lr=3e-5, steps=20),
    working_base=WEAK,
    max_tokens=4,
    train_seconds=300,
)
