"""Rollouts of honest environments through the border, in each jail that this machine can run."""

from __future__ import annotations

import asyncio
import itertools
import json
import re

import pytest

from trainsmith.jail.border import EnvironmentRollout, GenerateCall, GenerateRefused, GenerateReply

pytestmark = pytest.mark.component


async def solve(call: GenerateCall) -> GenerateReply:
    """A model that multiplies, and guesses by halving."""
    numbers = re.findall(r"What is (\d+) \* (\d+)", call.messages[-1].content)
    text = f"<answer>{int(numbers[0][0]) * int(numbers[0][1])}</answer>" if numbers else _halve(call)
    return GenerateReply(text=text, finish="stop", prompt_tokens=7, completion_tokens=len(text))


def _halve(call: GenerateCall) -> str:
    low, high, guess = 1, 50, 25
    for message in call.messages:
        if message.content == "Higher.":
            low = guess + 1
        elif message.content == "Lower.":
            high = guess - 1
        guess = (low + high) // 2
    return str(guess)


def test_single_turn_rewards_come_out_right(loop, jail):
    """Guards against rewards that get lost or mixed up between many rollouts at once."""
    env = loop.environment(jail, "arith")

    async def play() -> list[EnvironmentRollout]:
        good = [env.rollout(index, solve, sample=sample) for index in range(8) for sample in range(4)]
        bad = [env.score(index, "<answer>1</answer>") for index in range(8)]
        return list(await asyncio.gather(*good, *bad))

    results = loop.run(play())
    assert [result.traces[0].reward for result in results] == [1.2] * 32 + [0.2] * 8
    assert [(result.index, result.sample) for result in results[:5]] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 0),
    ]
    assert all(result.ok and result.failure is None for result in results)
    assert results[0].traces[0].metrics[0].value == len("<answer>3717</answer>")


def test_tasks_show_prompts_and_the_authors_fields(loop, jail):
    """Guards against tasks that come in another order, cut short, or without their data."""
    env = loop.environment(jail, "arith")
    tasks = loop.run(env.tasks(0, 1000))
    assert [task.index for task in tasks] == list(range(256)) and env.info.tasks == 256
    assert [message.role for message in tasks[0].messages or ()] == ["system", "user"]
    assert json.loads(tasks[0].fields) == {"answer": 3717}
    assert len({task.key for task in tasks}) == len({task.fields + repr(task.messages) for task in tasks})
    assert env.info.rewards == ("correct", "formatted") and env.info.single_turn


def test_the_general_path_agrees_with_the_fast_one(loop, bubblewrap):
    """Guards against a fast path that scores otherwise than verifiers' own Env, Agent and Rollout."""
    fast, general = loop.environment(bubblewrap, "arith"), loop.environment(bubblewrap, "arith", fast=False)
    assert fast.info.fast and not general.info.fast

    async def play(env) -> list[EnvironmentRollout]:
        replies = ["", "junk", "<answer>3717</answer>", "<answer>1</answer><answer>2</answer>"]
        return [await env.score(0, reply) for reply in replies] + [await env.rollout(5, refuse)]

    assert _without_clock(loop.run(play(fast))) == _without_clock(loop.run(play(general)))


def test_multi_turn_env_runs_and_marks_what_is_new(loop, jail):
    """Guards against a lost user turn, and against calls whose known part is not what was said before."""
    env = loop.environment(jail, "guess")
    calls: list[GenerateCall] = []

    async def generate(call: GenerateCall) -> GenerateReply:
        calls.append(call)
        return await solve(call)

    result = loop.run(env.rollout(3, generate))
    trace = result.traces[0]
    assert trace.reward is not None and trace.reward > 1.0 and trace.turns == len(calls) > 1
    assert trace.calls == tuple(range(len(calls))) == tuple(call.call for call in calls)
    for earlier, later in itertools.pairwise(calls):
        assert later.previous == earlier.call and later.known == len(earlier.messages) + 1
        assert later.messages[: len(earlier.messages)] == earlier.messages
        assert later.messages[later.known - 1].content == _halve(earlier)


def test_two_agents_keep_their_names_and_turns(loop, bubblewrap):
    """Guards against traces of one agent that are credited to another."""
    env = loop.environment(bubblewrap, "semantics")
    result = loop.run(env.rollout(0, solve))
    assert [(trace.agent, trace.trainable, trace.turns) for trace in result.traces] == [
        ("solver", True, 4),
        ("judge", False, 1),
    ]
    assert [trace.calls for trace in result.traces] == [(0, 1, 2, 3), (4,)]


async def refuse(call: GenerateCall) -> GenerateReply:
    raise GenerateRefused("the prompt is too long")


def test_a_refused_call_fails_its_rollout_only(loop, bubblewrap):
    """Guards against a refusal that ends the run or passes for an empty reply."""
    result = loop.run(loop.environment(bubblewrap, "arith").rollout(0, refuse))
    assert not result.ok and "the prompt is too long" in result.traces[0].errors[0]
    assert result.traces[0].reward is None


def test_a_failing_sampler_reaches_the_caller(loop, bubblewrap):
    """Guards against a fault of the trusted side that is blamed on the author."""
    env = loop.environment(bubblewrap, "arith")

    async def broken(call: GenerateCall) -> GenerateReply:
        raise KeyError("engine")

    with pytest.raises(KeyError):
        loop.run(env.rollout(0, broken))
    assert loop.run(env.rollout(0, solve)).ok


def test_a_cancelled_rollout_leaves_the_others_alone(loop, bubblewrap):
    """Guards against a cancellation that hangs, or that takes the worker along."""
    env = loop.environment(bubblewrap, "arith")

    async def never(call: GenerateCall) -> GenerateReply:
        await asyncio.sleep(1e6)
        raise AssertionError

    async def play() -> EnvironmentRollout:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(env.rollout(0, never), 0.3)
        return await env.rollout(1, solve)

    assert loop.run(play()).ok


def test_a_task_that_does_not_exist_is_refused_here(loop, bubblewrap):
    """Guards against an index that crosses the border unchecked."""
    with pytest.raises(IndexError):
        loop.run(loop.environment(bubblewrap, "arith").rollout(256, solve))


def test_waiting_for_tokens_costs_the_environment_nothing(loop, bubblewrap):
    """Guards against slow sampling that is counted as the author's time."""
    env = loop.environment(bubblewrap, "arith")

    async def slow(call: GenerateCall) -> GenerateReply:
        await asyncio.sleep(0.5)
        return await solve(call)

    result = loop.run(env.rollout(0, slow, seconds=0.4))
    assert result.ok and result.environment_seconds < 0.4


def _without_clock(results: list[EnvironmentRollout]) -> list[EnvironmentRollout]:
    return [result.model_copy(update={"environment_seconds": 0.0}) for result in results]
