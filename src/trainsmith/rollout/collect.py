"""Plays rollouts of a jailed environment with the policy and keeps their token trajectories."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Protocol

from trainsmith.engine.records import Completion, SampleRequest
from trainsmith.errors import UserError
from trainsmith.jail.border.records import (
    EnvironmentRollout,
    Generate,
    GenerateCall,
    GenerateRefused,
    GenerateReply,
    TraceResult,
)
from trainsmith.rollout.batcher import Batcher
from trainsmith.rollout.conversation import Conversations, Renderer
from trainsmith.rollout.records import Episode, Rollout, RolloutKey, Sampling
from trainsmith.seeds import derive


class Tokenizer(Renderer, Protocol):
    """The part of the engine's `ChatTokenizer` that rollouts need."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of sampled tokens, special tokens skipped."""


class AsyncPolicy(Protocol):
    """A policy that samples off the event loop."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Renders and decodes for this policy."""

    async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        """Completions in the order of `requests`."""


class Environment(Protocol):
    """The part of a jailed environment that rollouts need."""

    async def rollout(self, index: int, generate: Generate, *, sample: int = 0) -> EnvironmentRollout:
        """Play task `index`, asking `generate` for every model turn."""


async def collect(
    environment: Environment, policy: AsyncPolicy, keys: Sequence[RolloutKey], sampling: Sampling
) -> list[Rollout]:
    """Play all `keys` at once; results come in their order.

    A rollout that fails is returned with its `error`; only faults of the machine are raised.
    """
    batcher = Batcher(policy.sample)
    batcher.enter(len(keys))
    players = [_Player(key, policy.tokenizer, batcher, sampling) for key in keys]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(player.play(environment)) for player in players]
    except BaseExceptionGroup as failures:
        raise _first(failures) from failures
    finally:
        await batcher.close()
    return [task.result() for task in tasks]


class _Player:
    """Answers the generation calls of one rollout."""

    def __init__(self, key: RolloutKey, tokenizer: Tokenizer, batcher: Batcher, sampling: Sampling) -> None:
        self._key = key
        self._tokenizer = tokenizer
        self._batcher = batcher
        self._sampling = sampling
        self._conversations = Conversations(tokenizer)
        self._traces: list[str] = []

    async def play(self, environment: Environment) -> Rollout:
        try:
            finished = await environment.rollout(self._key.index, self._generate, sample=self._key.sample)
        finally:
            self._batcher.leave()
        return self._rollout(finished)

    async def _generate(self, call: GenerateCall) -> GenerateReply:
        if call.trace not in self._traces:
            self._traces.append(call.trace)
        prompt = self._prompt(call)
        room = self._sampling.seq_len - len(prompt)
        wanted = min(call.max_tokens or self._sampling.max_tokens, self._sampling.max_tokens, room)
        if wanted <= 0:
            raise GenerateRefused(
                f"the prompt of {len(prompt)} tokens leaves no room in {self._sampling.seq_len}"
            )
        completion = await self._batcher.generate(
            self._sort_key(call.trace), self._request(call, prompt, wanted)
        )
        text = self._tokenizer.decode(completion.tokens)
        self._conversations.commit(call.trace, call.messages, prompt, completion, text)
        return GenerateReply(
            text=text,
            finish=completion.finish,
            prompt_tokens=len(prompt),
            completion_tokens=len(completion.tokens),
        )

    def _prompt(self, call: GenerateCall) -> tuple[int, ...]:
        try:
            return self._conversations.prompt(call.trace, call.messages)
        except UserError as error:  # the chat template refuses the environment's messages
            raise GenerateRefused(str(error)) from error

    def _sort_key(self, trace: str) -> tuple[int, int, int, int]:
        return (
            self._key.index,
            self._key.sample,
            self._traces.index(trace),
            self._conversations.turns(trace),
        )

    def _request(self, call: GenerateCall, prompt: tuple[int, ...], max_tokens: int) -> SampleRequest:
        seed = derive(self._sampling.seed, *self._sort_key(call.trace))
        return SampleRequest(prompt, max_tokens, self._sampling.temperature, seed)

    def _rollout(self, finished: EnvironmentRollout) -> Rollout:
        trained = [trace for trace in finished.traces if trace.trainable]
        error = _error(finished, trained)
        if error:
            return Rollout(self._key, (), error)
        return Rollout(self._key, tuple(self._episode(trace) for trace in trained))

    def _episode(self, trace: TraceResult) -> Episode:
        return Episode(
            reward=trace.reward if trace.reward is not None else math.nan,
            turns=self._conversations.turns(trace.id),
            branches=self._conversations.branches(trace.id),
            replies=self._conversations.replies(trace.id),
        )


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first fault itself: the others only followed from it."""
    first: BaseException = failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


def _error(finished: EnvironmentRollout, trained: Sequence[TraceResult]) -> str:
    """Why a rollout cannot be trained on; empty if it can."""
    if not finished.ok:
        return "; ".join(finished.errors) or "the environment reported a failed rollout"
    if not trained:
        return "the rollout has no trainable trace"
    for trace in trained:
        if trace.timed_out:
            return "scoring timed out"
        if trace.reward is None or not math.isfinite(trace.reward):
            return "; ".join(trace.errors) or "the reward is not a finite number"
    return ""
