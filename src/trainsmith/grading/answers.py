"""Lets a model answer items, all at once, and scores what it says.

Runs in the trusted process, on the items of the hidden evaluation and on the public examples alike. Every
turn renders the whole chat anew with the pinned tokenizer, as an API client would, so that any backend which
samples from a chat gives the same conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from trainsmith import families
from trainsmith.engine.records import Completion, SampleRequest
from trainsmith.records import Item, Message, Task
from trainsmith.seeds import derive

MAX_TURNS = 64
"""A conversation that a family never ends is scored as it stands."""


class Tokenizer(Protocol):
    """The part of the engine's `ChatTokenizer` that answers need."""

    def encode_chat(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Tokens of a whole chat with the generation prompt."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of sampled tokens, special tokens skipped."""


class Sampler(Protocol):
    """The part of the engine's `Policy` that answers need."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Renders and decodes for this model."""

    def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        """Completions in the order of `requests`."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said to one item."""

    replies: tuple[str, ...]
    """One text a turn."""
    score: float
    tokens: int
    """Sampled tokens of all turns."""


@dataclass
class _Conversation:
    item: Item
    messages: list[Message]
    replies: list[str] = field(default_factory=list)
    tokens: int = 0


def answer(sampler: Sampler, task: Task, items: Sequence[Item], seed: int) -> tuple[Answer, ...]:
    """Answers in item order. A row's seed derives from (`seed`, item index, turn), not from its batch."""
    conversations = [_Conversation(item, list(task.messages(item.question))) for item in items]
    waiting = list(enumerate(conversations))
    for turn in range(MAX_TURNS):
        if not waiting:
            break
        requests = [_request(sampler.tokenizer, task, each, derive(seed, i, turn)) for i, each in waiting]
        for (_, each), completion in zip(waiting, sampler.sample(requests), strict=True):
            _take(each, completion, sampler.tokenizer)
        waiting = [(i, each) for i, each in waiting if _continues(task, each)]
    return tuple(_scored(task, each) for each in conversations)


def _request(tokenizer: Tokenizer, task: Task, conversation: _Conversation, seed: int) -> SampleRequest:
    prompt = tokenizer.encode_chat(conversation.messages)
    return SampleRequest(prompt, task.evaluation.max_tokens, task.evaluation.temperature, seed)


def _take(conversation: _Conversation, completion: Completion, tokenizer: Tokenizer) -> None:
    reply = tokenizer.decode(completion.tokens)
    conversation.tokens += len(completion.tokens)
    conversation.replies.append(reply)
    conversation.messages.append(Message(role="assistant", content=reply))


def _continues(task: Task, conversation: _Conversation) -> bool:
    """Open the next turn if the family has one."""
    following = families.next_message(task, conversation.item, tuple(conversation.replies))
    if following is None:
        return False
    conversation.messages.append(following)
    return True


def _scored(task: Task, conversation: _Conversation) -> Answer:
    replies = tuple(conversation.replies)
    return Answer(replies, families.score(task, conversation.item, replies), conversation.tokens)
