"""A probe with the machine's own jail and a policy that follows a script instead of a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from trainsmith import jail
from trainsmith.config.probe import ProbeConfig
from trainsmith.engine.records import Completion, SampleRequest
from trainsmith.probe import ProbeServices
from trainsmith.records import Budget, Message, Task, Tier

JOBS = Path(__file__).parents[2] / "jobs"
Script = Callable[[str, int], str]
"""Prompt text and seed to a reply."""


class PieceTokenizer:
    """One token a word with the space before it; the vocabulary grows as texts come."""

    stop = 0

    def __init__(self) -> None:
        self._pieces = [""]
        self._ids = {"": self.stop}

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._id(piece) for piece in re.findall(r"\s*\S+|\s+$", text))

    def encode_chat(self, messages: Sequence[Message]) -> tuple[int, ...]:
        return self.encode("".join(f"\n{message.role}: {message.content}" for message in messages))

    def encode_reply_tail(self, messages: Sequence[Message], *, stopped: bool = True) -> tuple[int, ...]:
        return self.encode_chat(messages)

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self._pieces[token] for token in tokens)

    def _id(self, piece: str) -> int:
        if piece not in self._ids:
            self._ids[piece] = len(self._pieces)
            self._pieces.append(piece)
        return self._ids[piece]


class ScriptedPolicy:
    """Replies as a function of prompt and seed; counts what it was asked."""

    def __init__(self, tokenizer: PieceTokenizer, script: Script) -> None:
        self.tokenizer = tokenizer
        self.asked = 0
        self._script = script

    async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        self.asked += len(requests)
        return [self._complete(request) for request in requests]

    def _complete(self, request: SampleRequest) -> Completion:
        text = self._script(self.tokenizer.decode(request.prompt), request.seed)
        tokens = (*self.tokenizer.encode(text), PieceTokenizer.stop)[: request.max_tokens]
        finish = "stop" if tokens[-1] == PieceTokenizer.stop else "length"
        return Completion(tokens, (0.0,) * len(tokens), finish)


def last_word_or_not(prompt: str, seed: int) -> str:
    """Right in half of the samples."""
    words = re.findall(r"\b[a-z]+\b", prompt)
    return words[-1] if seed % 2 else "dunno"


class Bench:
    """Makes services for one probe and remembers the policy that it was given."""

    def __init__(self, chosen: jail.Jail) -> None:
        self.jail = chosen
        self.tokenizer = PieceTokenizer()
        self.policy: ScriptedPolicy | None = None

    def services(
        self,
        script: Script = last_word_or_not,
        limits: ProbeConfig | None = None,
        jail: jail.Jail | None = None,
    ) -> ProbeServices:
        async def tokenizer(base: str) -> PieceTokenizer:
            return self.tokenizer

        async def policy(base: str) -> ScriptedPolicy:
            self.policy = ScriptedPolicy(self.tokenizer, script)
            return self.policy

        return ProbeServices(
            jail=jail or self.jail,
            tokenizer=tokenizer,
            policy=policy,
            context=lambda base: 2048,
            limits=limits or ProbeConfig(),
        )

    @staticmethod
    def job(name: str) -> Path:
        return JOBS / name

    @staticmethod
    def task() -> Task:
        return Task(
            id="strings/last-word@0",
            family="strings",
            kind="last-word",
            seed=0,
            tier=Tier.MICRO,
            brief="Say the last word of a list.",
            prefix=(),
            examples=(),
            bases=("smollm2-135m", "smollm2-135m-28l"),
            budget=Budget(train_seconds=180, max_steps=100, max_tokens=10_000_000),
        )


@pytest.fixture
def bench() -> Bench:
    return Bench(jail.choose())
