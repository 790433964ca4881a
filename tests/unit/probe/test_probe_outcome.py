"""From rollouts to rewards, and who is blamed when they do not end."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import pytest

from trainsmith.config.probe import ProbeConfig
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
from trainsmith.probe.canned import CannedPlayer, play_all
from trainsmith.probe.observations import Canned, ReplyKind
from trainsmith.probe.outcome import outcome
from trainsmith.records import Message

EMPTY = Canned(ReplyKind.EMPTY, "")


def trace(reward: float | None, **changes: object) -> TraceResult:
    sound = TraceResult(
        id="0",
        agent="agent",
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
    return sound.model_copy(update=changes)


def rollout(*traces: TraceResult, **changes: object) -> EnvironmentRollout:
    sound = EnvironmentRollout(index=3, sample=0, ok=True, timed_out=False, errors=(), traces=traces)
    return sound.model_copy(update=changes)


def test_the_mean_of_the_trainable_traces_counts() -> None:
    """Guards against a judge's or an opponent's reward that is taken for the policy's."""
    scored = outcome(rollout(trace(1.0), trace(0.0), trace(9.0, trainable=False)), EMPTY, "q")
    assert scored.reward == 0.5 and not scored.error and not scored.lost


@pytest.mark.parametrize(
    ("played", "why"),
    [
        (rollout(trace(None)), "the reward `right` is not a number"),
        (rollout(trace(math.inf)), "the reward `right` is inf"),
        (rollout(trace(None, rewards=())), "the rollout has no reward"),
        (rollout(trace(None, errors=("TaskError: boom",))), "TaskError: boom"),
        (rollout(errors=("EnvError: boom",), ok=False), "EnvError: boom"),
        (rollout(), "without a single agent run"),
        (rollout(trace(1.0), ok=False), "does not say why"),
    ],
)
def test_a_rollout_without_a_reward_says_why(played: EnvironmentRollout, why: str) -> None:
    """Guards against broken rewards that count as zero."""
    scored = outcome(played, EMPTY, "q")
    assert scored.reward is None and why in scored.error and not scored.lost


@pytest.mark.parametrize(
    ("played", "timed_out"),
    [
        (rollout(timed_out=True, ok=False), True),
        (rollout(trace(None, timed_out=True)), True),
        (rollout(failure=Reason.HUNG, ok=False), True),
        (rollout(failure=Reason.EXITED, ok=False), False),
    ],
)
def test_a_rollout_that_does_not_end_is_lost(played: EnvironmentRollout, timed_out: bool) -> None:
    """Guards against a hang or a dead process that passes as a reward."""
    scored = outcome(played, EMPTY, "q")
    assert scored.lost and scored.timed_out is timed_out and scored.reward is None


class Stage:
    """A stand-in for a jailed environment: some tasks never end and hold up what runs beside them."""

    def __init__(self, hangs: Sequence[int] = (), dies: bool = False, seconds: float = 0.0) -> None:
        self._hangs = frozenset(hangs)
        self._dies = dies
        self._seconds = seconds
        self._running: list[int] = []
        self.played: list[tuple[int, str]] = []

    async def rollout(
        self, index: int, generate: Generate, *, sample: int = 0, seconds: float | None = None
    ) -> EnvironmentRollout:
        if self._dies:
            raise EnvironmentFailed(Reason.EXITED, "gone")
        self._running.append(index)
        call = GenerateCall(
            index=index,
            sample=sample,
            call=0,
            trace="0",
            agent=None,
            messages=(Message(role="user", content=f"question {index}"),),
            max_tokens=None,
        )
        reply = await generate(call)
        self.played.append((index, reply.text))
        await asyncio.sleep(self._seconds)
        hung = bool(self._hangs.intersection(self._running))
        self._running.remove(index)
        return rollout(trace(0.0), index=index, timed_out=hung, environment_seconds=self._seconds)


def tasks(count: int) -> tuple[TaskView, ...]:
    return tuple(
        TaskView(
            index=index,
            key=str(index),
            messages=(Message(role="user", content=f"question {index}"),),
            fields=f'{{"answer": "a{index}"}}',
        )
        for index in range(count)
    )


def test_no_reply_is_blamed_for_its_neighbour() -> None:
    """Guards against an innocent reply as the evidence of a hang."""
    player = CannedPlayer(Stage(hangs=[5]), ProbeConfig())
    scores = asyncio.run(player.at_once([(task, EMPTY) for task in tasks(8)]))
    assert [scored.task for scored in scores if scored.timed_out] == [5]


def test_an_environment_that_is_gone_ends_the_round() -> None:
    """Guards against hundreds of rollouts asked of a dead process."""
    scores = asyncio.run(play_all(Stage(dies=True), None, tasks(8), 64, ProbeConfig()))
    assert scores.first == () and scores.fault is not None and scores.fault.what == "gone"


def test_slow_replies_end_at_the_time_limit() -> None:
    """Guards against a probe that waits for every reply of a slow environment."""
    limits = ProbeConfig(canned_seconds=0.3, canned_tasks=8)
    scores = asyncio.run(play_all(Stage(seconds=0.1), Stage(), tasks(8), 64, limits))
    assert 0 < len(scores.first) < scores.planned and scores.second == ()
    assert scores.mean_seconds == pytest.approx(0.1)


def test_the_second_process_plays_the_same_in_reverse() -> None:
    """Guards against hidden state that the same order would repeat."""
    first, second = Stage(), Stage()
    scores = asyncio.run(play_all(first, second, tasks(8), 64, ProbeConfig()))
    assert second.played == first.played[::-1] and len(scores.second) == len(scores.first) == scores.planned


def test_the_echo_repeats_what_the_model_was_shown() -> None:
    """Guards against an echo of the task's prompt where an Env says something else."""
    stage = Stage()
    asyncio.run(play_all(stage, None, tasks(4), 64, ProbeConfig()))
    assert (2, "question 2") in stage.played
