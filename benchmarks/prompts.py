"""The prompts of all benchmarks: chats about a small task, and rows of bare tokens for a GPU's figures."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from trainsmith.records import Message

if TYPE_CHECKING:
    from trainsmith.engine.chat import ChatTokenizer

WORDS = ("sun", "moon", "tree", "stone", "river", "apple", "green", "cloud", "house", "dog", "night", "paper")

Prompt = tuple[int, ...]


def chats(count: int, *, common: bool = True) -> list[list[Message]]:
    """Two solved examples under a system message, then a question: about 70 tokens.

    About 50 of them are the same in all prompts; with `common` off not even the first few are.
    """
    draw = random.Random(0)
    return [_chat(draw, f"{number} " if not common else "") for number in range(count)]


def _chat(draw: random.Random, mark: str) -> list[Message]:
    messages = [Message(role="system", content=f"{mark}Reply with only the answer.")]
    for question, answer in (("red big cow", "cow"), ("my old hat", "hat")):
        messages.append(Message(role="user", content=f"Last word of: {question}"))
        messages.append(Message(role="assistant", content=answer))
    words = " ".join(draw.sample(WORDS, draw.randint(3, 7)))
    return [*messages, Message(role="user", content=f"Last word of: {words}")]


def encode_chats(tokenizer: ChatTokenizer, count: int, *, common: bool = True) -> list[Prompt]:
    """The chats as tokens."""
    return [tokenizer.encode_chat(chat) for chat in chats(count, common=common)]


def token_rows(count: int, length: int, head: int, vocabulary: int) -> list[Prompt]:
    """Distinct prompts of random tokens, `length` long, of which the first `head` are common."""
    draw = random.Random(0)
    first = [draw.randrange(vocabulary) for _ in range(head)]
    return [(*first, *(draw.randrange(vocabulary) for _ in range(length - head))) for _ in range(count)]
