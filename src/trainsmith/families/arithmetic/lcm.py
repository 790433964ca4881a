"""The least common multiple of two numbers: questions of reasoning-gym's data set `lcm`."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from trainsmith.families.answers import exact
from trainsmith.families.kind import Kind
from trainsmith.families.recipe import Recipe


@dataclass(frozen=True)
class Rule:
    """What this task fixes."""

    highest: int


def rule(rng: random.Random) -> Rule:
    """The highest number; the lowest is 1."""
    return Rule(rng.choice((36, 42, 48)))


def describe(rule: Rule) -> str:
    """For the brief."""
    return (
        '"Find the Least Common Multiple (LCM) of these numbers: A, B", with random whole numbers from 1 to '
        f"{rule.highest}. Pairs with a common divisor are drawn more often than others: a pair without one "
        "is drawn anew, up to two times. The questions are those of reasoning-gym's data set `lcm`."
    )


def question(rng: random.Random, rule: Rule) -> tuple[str, str]:
    """One question and its answer."""
    for _ in range(3):
        first, second = rng.randint(1, rule.highest), rng.randint(1, rule.highest)
        if math.gcd(first, second) > 1:
            break
    text = f"Find the Least Common Multiple (LCM) of these numbers: {first}, {second}"
    return text, str(math.lcm(first, second))


def generate(rng: random.Random, rule: Rule) -> tuple[str, str]:
    """The same from reasoning-gym, whose import takes seconds."""
    from reasoning_gym import create_dataset

    made = create_dataset(
        "lcm",
        size=1,
        seed=rng.getrandbits(32),
        min_numbers=2,
        max_numbers=2,
        min_value=1,
        max_value=rule.highest,
    )[0]
    return made["question"], str(made["answer"])


LCM = Kind(
    name="lcm",
    skill="Find the least common multiple of two small numbers.",
    answer="The answer is the number in digits.",
    rule=rule,
    describe=describe,
    question=question,
    reward=exact,
    recipe=Recipe(lr=1e-4, steps=30),
    max_tokens=6,
    train_seconds=400,
    generate=generate,
)
