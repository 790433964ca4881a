"""The signal test's rounds, on stand-ins for the environment and the model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from trainsmith.config.probe import ProbeConfig
from trainsmith.engine.records import Completion, SampleRequest
from trainsmith.errors import MachineError
from trainsmith.jail.border import (
    EnvironmentFailed,
    EnvironmentRollout,
    Generate,
    GenerateCall,
    Reason,
    RewardValue,
    TaskView,
    TraceResult,
)
from trainsmith.probe.sampling import sample_groups
from trainsmith.records import Message


class Letters:
    """One token a character."""

    def encode_chat(self, messages: Sequence[Message]) -> tuple[int, ...]:
        return tuple(ord(c) for m in messages for c in m.content)

    def encode_reply_tail(self, messages: Sequence[Message], *, stopped: bool = True) -> tuple[int, ...]:
        return self.encode_chat(messages)

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(map(chr, tokens))


class Model:
    """Says "a" or "b" by the seed; notes how many it was asked for at once, and for how many tokens."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.tokenizer = Letters()
        self.asked: list[tuple[int, int]] = []
        self._seconds = seconds

    async def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        self.asked.append((len(requests), sum(request.max_tokens for request in requests)))
        await asyncio.sleep(self._seconds)
        return [Completion((ord("ab"[request.seed % 2]),), (0.0,), "stop") for request in requests]


class Field:
    """Gives a reward for "a" on some tasks, and fails as it is told to."""

    def __init__(self, learnable: Sequence[int] = (), raises: Exception | None = None) -> None:
        self._learnable = frozenset(learnable)
        self._raises = raises
        self.played: list[int] = []

    async def rollout(self, index: int, generate: Generate, *, sample: int = 0) -> EnvironmentRollout:
        if self._raises is not None:
            raise self._raises
        self.played.append(index)
        reply = await generate(
            GenerateCall(
                index=index,
                sample=sample,
                call=0,
                trace="0",
                agent=None,
                messages=(Message(role="user", content="say"),),
                max_tokens=None,
            )
        )
        reward = float(index in self._learnable and reply.text == "a")
        trace = TraceResult(
            id="0",
            agent=None,
            trainable=True,
            ok=True,
            reward=reward,
            rewards=(RewardValue(name="right", value=reward, weight=1.0),),
            metrics=(),
            turns=1,
            timed_out=False,
            stop=None,
            calls=(0,),
            errors=(),
        )
        return EnvironmentRollout(
            index=index, sample=sample, ok=True, timed_out=False, errors=(), traces=(trace,)
        )


TASKS = tuple(TaskView(index=i, key=str(i), messages=None, fields="{}") for i in range(200))


def run(seen, field: Field, model: Model, limits: ProbeConfig | None = None, **config: int):
    return asyncio.run(sample_groups(field, model, TASKS, seen.config(**config), limits or ProbeConfig()))


def test_one_round_is_enough_when_it_shows_a_signal(seen) -> None:
    """Guards against a probe that samples more than it needs."""
    signal = run(seen, Field(learnable=range(200)), model := Model())
    assert len(signal.groups) == 8 and model.asked == [(32, 256)]


def test_other_tasks_are_tried_before_giving_up(seen) -> None:
    """Guards against refusing hard jobs by the bad luck of one round; tasks are spread over the whole set."""
    signal = run(seen, field := Field(), Model())
    assert len(signal.groups) == 24 and {len(group) for group in signal.groups} == {4}
    tasks = sorted(set(field.played))
    assert len(tasks) == 24 and tasks[0] == 0 and tasks[-1] >= 190


def test_long_replies_are_sampled_a_few_tasks_at_a_time(seen) -> None:
    """Guards against one call of the sampler that outlasts the time limit."""
    run(seen, Field(), model := Model(), seq_len=4096, max_completion_tokens=512)
    assert max(tokens for _, tokens in model.asked) <= ProbeConfig().signal_tokens


def test_what_was_finished_in_time_is_judged(seen) -> None:
    """Guards against a slow model that hides what was seen."""
    signal = run(seen, Field(), Model(seconds=0.3), ProbeConfig(signal_seconds=0.5))
    assert len(signal.groups) == 8


def test_an_environment_that_dies_is_an_observation(seen) -> None:
    """Guards against an agent's fault that ends the probe."""
    signal = run(seen, Field(raises=EnvironmentFailed(Reason.EXITED, "gone")), Model())
    assert signal.fault is not None and signal.fault.what == "gone" and signal.groups == ()


def test_a_fault_of_the_machine_is_raised_as_it_is(seen) -> None:
    """Guards against a machine's fault wrapped so that nobody knows it."""
    with pytest.raises(MachineError, match="no memory"):
        run(seen, Field(raises=MachineError("no memory")), Model())
