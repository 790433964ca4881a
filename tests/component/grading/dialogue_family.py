"""A family of two-turn tasks as a plug-in would bring it, and a model that needs the second turn."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from trainsmith.engine.records import Completion, SampleRequest
from trainsmith.families import Family, Kind, Recipe
from trainsmith.families.answers import exact
from trainsmith.records import Item, Message


@dataclass(frozen=True)
class Rule:
    """Nothing is fixed."""


def question(rng: random.Random, rule: Rule) -> tuple[str, str]:
    number = rng.randrange(100_000)
    return f"Guess number {number}", str(number + 1)


def hint(item: Item, replies: tuple[str, ...]) -> Message | None:
    if len(replies) == 1 and replies[0] != item.answer:
        return Message(role="user", content=f"Wrong. It is {item.answer}.")
    return None


FAMILY = Family(
    name="dialogue",
    description="Two turns.",
    kinds=(
        Kind(
            name="guess",
            skill="Guess.",
            answer="The number.",
            rule=lambda rng: Rule(),
            describe=lambda rule: "Numbers.",
            question=question,
            reward=exact,
            recipe=Recipe(lr=1e-5, steps=1),
            max_tokens=8,
            train_seconds=1,
            next_message=hint,
        ),
    ),
)


class Listener:
    """Says "even" at first, then repeats the number of the hint; knows odd numbers at once."""

    class Letters:
        def encode_chat(self, messages: Sequence[Message]) -> tuple[int, ...]:
            return tuple(map(ord, "\0".join(message.content for message in messages)))

        def decode(self, tokens: Sequence[int]) -> str:
            return "".join(map(chr, tokens))

    def __init__(self) -> None:
        self.tokenizer = self.Letters()
        self.batches: list[int] = []

    def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        self.batches.append(len(requests))
        return [self._reply(self.tokenizer.decode(request.prompt).split("\0")[-1]) for request in requests]

    def _reply(self, asked: str) -> Completion:
        number = int(asked.rstrip(".").split()[-1])
        text = str(number) if asked.startswith("Wrong") else (str(number + 1) if number % 2 else "even")
        tokens = tuple(map(ord, text))
        return Completion(tokens, (0.0,) * len(tokens), "stop")


def main() -> None:
    from trainsmith import families
    from trainsmith.grading.answers import answer

    task = families.task("dialogue/guess@0")
    items = families.hidden_items(task, bytes(32))
    listener = Listener()
    answers = answer(listener, task, items, seed=0)
    odd = [int(item.question.split()[-1]) % 2 == 1 for item in items]
    assert [len(each.replies) for each in answers] == [1 if first else 2 for first in odd]
    assert all(each.score == 1.0 for each in answers)
    assert all(each.tokens == sum(map(len, each.replies)) for each in answers)
    assert listener.batches == [len(items), odd.count(False)]


if __name__ == "__main__":
    sys.exit(main())
