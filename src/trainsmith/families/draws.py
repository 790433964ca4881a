"""Draws of distinct items: public examples, the reference job's training questions, hidden items."""

from __future__ import annotations

import hashlib
import hmac
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from trainsmith.errors import MachineError
from trainsmith.families.kind import AnyKind
from trainsmith.families.normal import normalise
from trainsmith.records import Item
from trainsmith.seeds import derive

PUBLIC = 8
SOLVED = 2
"""How many public examples stand solved in the prompt."""
TRAINING_SEED = 0
"""The `seed` of the reference job's taskset."""
_PATIENCE = 200
"""Draws an item that may turn out to be known already before the space counts as too small."""

Draw = Callable[[random.Random], tuple[str, str]]


class Source(NamedTuple):
    """A task's kind under its rule: draws its questions."""

    id: str
    kind: AnyKind
    rule: object

    @classmethod
    def of(cls, task_id: str, kind: AnyKind) -> Source:
        """The rule follows from the task's id alone."""
        return cls(task_id, kind, kind.rule(random.Random(derive("rule", task_id))))

    def item(self, rng: random.Random) -> tuple[str, str]:
        """One question and its answer, as the evaluation asks it."""
        return (self.kind.generate or self.kind.question)(rng, self.rule)

    def training(self, rng: random.Random) -> tuple[str, str]:
        """One question and its answer, as the reference job trains it."""
        question, answer = self.kind.question(rng, self.rule)
        return question, answer


def public_items(source: Source) -> tuple[Item, ...]:
    """The public examples. The first two are the solved ones, and their answers differ."""
    rng = random.Random(derive("public", source.id))
    items = [_item(pair) for pair in _distinct(source, source.item, rng, PUBLIC, set())]
    other = next((item for item in items[1:] if item.answer != items[0].answer), items[1])
    rest = [item for item in items[1:] if item is not other]
    return (items[0], other, *rest)


def training_items(source: Source) -> tuple[Item, ...]:
    """What the reference job's `load()` gives (`environment.template` draws in the same way)."""
    rng = random.Random(TRAINING_SEED)
    found: dict[str, str] = {}
    for _ in range(_PATIENCE * source.kind.recipe.num_tasks):
        if len(found) == source.kind.recipe.num_tasks:
            return tuple(map(_item, found.items()))
        question, answer = source.training(rng)
        found.setdefault(question, answer)
    raise _too_small(source, source.kind.recipe.num_tasks)


def hidden_items(source: Source, secret: bytes, count: int) -> tuple[Item, ...]:
    """Items that only the holder of `secret` can draw: none is public, none trained on by the reference job.

    MachineError if the kind has too few questions for that.
    """
    digest = hmac.new(secret, source.id.encode(), hashlib.sha256).digest()
    known = {normalise(item.question) for item in (*public_items(source), *training_items(source))}
    rng = random.Random(int.from_bytes(digest, "big"))
    return tuple(map(_item, _distinct(source, source.item, rng, count, known)))


def _distinct(
    source: Source, draw: Draw, rng: random.Random, count: int, known: set[str]
) -> Iterator[tuple[str, str]]:
    """`count` pairs whose questions differ, in normal form, from each other and from `known`."""
    seen = set(known)
    for _ in range(_PATIENCE * count):
        if len(seen) == len(known) + count:
            return
        question, answer = draw(rng)
        if (normal := normalise(question)) not in seen:
            seen.add(normal)
            yield question, answer
    if len(seen) < len(known) + count:
        raise _too_small(source, count)


def _item(pair: tuple[str, str]) -> Item:
    return Item(question=pair[0], answer=pair[1])


def _too_small(source: Source, count: int) -> MachineError:
    return MachineError(
        f"the kind has too few distinct questions for {count} more",
        where=source.id,
        fix="give its rule more words or a wider range",
    )
