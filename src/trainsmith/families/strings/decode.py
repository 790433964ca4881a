"""Look a word up in a code that the question gives."""

from __future__ import annotations

import random
from dataclasses import dataclass

from trainsmith.families.answers import exact
from trainsmith.families.kind import Kind
from trainsmith.families.recipe import Recipe
from trainsmith.families.words import CITIES, COLOURS, NAMES, listed, vocabulary


@dataclass(frozen=True)
class Rule:
    """What this task fixes."""

    words: tuple[str, ...]
    codes: tuple[str, ...]
    length: int
    sign: str


def rule(rng: random.Random) -> Rule:
    """Words, what they may stand for, entries of a code, and the sign between word and meaning."""
    codes = rng.choice((COLOURS, NAMES, CITIES))
    return Rule(vocabulary(rng, 40), vocabulary(rng, 10, codes), 3, rng.choice(("=", "is")))


def describe(rule: Rule) -> str:
    """For the brief."""
    return (
        f'"Code:", {rule.length} entries such as "{rule.words[0]} {rule.sign} {rule.codes[0]}" joined by '
        f'commas, then ". Decode:" and one of the {rule.length} words. Each question has a code of its own: '
        f"different words of {listed(rule.words)}, which stand for different ones of "
        f"{listed(rule.codes)}, at random."
    )


def question(rng: random.Random, rule: Rule) -> tuple[str, str]:
    """One question and its answer."""
    words, codes = rng.sample(rule.words, rule.length), rng.sample(rule.codes, rule.length)
    entries = [f"{word} {rule.sign} {code}" for word, code in zip(words, codes, strict=True)]
    asked = rng.randrange(rule.length)
    return f"Code: {', '.join(entries)}. Decode: {words[asked]}", codes[asked]


DECODE = Kind(
    name="decode",
    skill="Given a small code that says what each word stands for, decode one word.",
    answer="The answer is what the word stands for, written as in the code.",
    rule=rule,
    describe=describe,
    question=question,
    reward=exact,
    recipe=Recipe(lr=3e-5, steps=30),
    max_tokens=6,
    train_seconds=400,
)
