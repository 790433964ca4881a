"""Token bookkeeping of a rollout: what was rendered, what was sampled, turn by turn.

A turn whose messages continue an earlier turn extends that turn's exact sampled tokens, so a multi-turn
rollout is one sequence with a mask; anything else opens a new branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from trainsmith.engine.records import Completion
from trainsmith.records import Message
from trainsmith.rollout.records import Branch


class Renderer(Protocol):
    """The part of the engine's `ChatTokenizer` that renders."""

    def encode_chat(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Tokens of a whole chat with the generation prompt."""

    def encode_reply_tail(self, messages: Sequence[Message], *, stopped: bool = True) -> tuple[int, ...]:
        """Tokens that follow a sampled turn up to the next generation prompt."""


@dataclass
class _Open:
    """A branch that may still grow."""

    messages: tuple[Message, ...]
    tokens: list[int] = field(default_factory=list)
    mask: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    stopped: bool = True
    """Whether the last sampled turn ended with a stop token, or was cut short."""


class Conversations:
    """All branches of the traces of one rollout."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._open: dict[str, list[_Open]] = {}
        self._turns: dict[str, int] = {}
        self._replies: dict[str, list[str]] = {}

    def prompt(self, trace: str, messages: tuple[Message, ...]) -> tuple[int, ...]:
        """Prompt tokens of the next turn of `trace`."""
        earlier = self._continued(trace, messages)
        if earlier is None:
            return self._renderer.encode_chat(messages)
        tail = self._renderer.encode_reply_tail(messages[len(earlier.messages) :], stopped=earlier.stopped)
        return (*earlier.tokens, *tail)

    def commit(
        self,
        trace: str,
        messages: tuple[Message, ...],
        prompt: tuple[int, ...],
        completion: Completion,
        text: str,
    ) -> None:
        """Record a sampled turn: `prompt` must be what `prompt()` gave for the same messages."""
        branch = self._continued(trace, messages)
        if branch is None:
            branch = _Open(messages=())
            self._open.setdefault(trace, []).append(branch)
        rendered = len(prompt) - len(branch.tokens)
        branch.mask += [False] * rendered + [True] * len(completion.tokens)
        branch.logprobs += [0.0] * rendered + list(completion.logprobs)
        branch.stopped = completion.finish == "stop"
        branch.tokens = [*prompt, *completion.tokens]
        branch.messages = (*messages, Message(role="assistant", content=text))
        self._turns[trace] = self.turns(trace) + 1
        self._replies.setdefault(trace, []).append(text)

    def turns(self, trace: str) -> int:
        """Sampled turns of a trace."""
        return self._turns.get(trace, 0)

    def replies(self, trace: str) -> tuple[str, ...]:
        """Sampled texts of a trace, in order."""
        return tuple(self._replies.get(trace, ()))

    def branches(self, trace: str) -> tuple[Branch, ...]:
        """The branches of a trace as they stand."""
        return tuple(
            Branch(tuple(b.tokens), tuple(b.mask), tuple(b.logprobs)) for b in self._open.get(trace, ())
        )

    def _continued(self, trace: str, messages: tuple[Message, ...]) -> _Open | None:
        """The longest branch that `messages` continue, if any."""
        fitting = [
            branch
            for branch in self._open.get(trace, ())
            if len(messages) > len(branch.messages) and messages[: len(branch.messages)] == branch.messages
        ]
        return max(fitting, key=lambda branch: len(branch.messages), default=None)
