"""Look a price up in a short list."""

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
    highest: int


def rule(rng: random.Random) -> Rule:
    """Things for sale, how many a question lists, and the highest price."""
    return Rule(vocabulary(rng, 50), rng.choice((4, 5)), rng.choice((60, 99)))


def describe(rule: Rule) -> str:
    """For the brief."""
    return (
        f'"Prices:", {rule.length} entries such as "{rule.words[0]} 16" joined by commas, then ". What does '
        f'the WORD cost?" with one of the words. Words and prices are different within a question and '
        f"drawn at random: prices from 2 to {rule.highest}, words from {listed(rule.words)}."
    )


def question(rng: random.Random, rule: Rule) -> tuple[str, str]:
    """One question and its answer."""
    words = rng.sample(rule.words, rule.length)
    prices = rng.sample(range(2, rule.highest + 1), rule.length)
    entries = [f"{word} {price}" for word, price in zip(words, prices, strict=True)]
    asked = rng.randrange(rule.length)
    return f"Prices: {', '.join(entries)}. What does the {words[asked]} cost?", str(prices[asked])


PRICE = Kind(
    name="price",
    skill="Look up the price of one thing in a short price list.",
    answer="The answer is the price in digits.",
    rule=rule,
    describe=describe,
    question=question,
    reward=exact,
    recipe=Recipe(lr=3e-5, steps=20),
    max_tokens=4,
    train_seconds=400,
)
