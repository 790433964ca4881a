"""Plain single-turn tasks without verifiers' Env, Agent and Rollout: a trace built by hand, scored by the
task.

Two to three times as fast as the general path. `suits` is strict: any hook or setting that would be lost
sends the task down the general path.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import verifiers.v1 as vf
from verifiers.v1 import graph
from verifiers.v1.configs.agent import resolve_agent
from verifiers.v1.errors import RolloutError, TaskError
from verifiers.v1.state import state_cls
from verifiers.v1.trace import AgentInfo, ModelCall, TimeSpan, Trace, TraceTask
from verifiers.v1.utils.decorators import discover_decorated

from .boundary import ENDPOINT, MODEL, Sample
from .package import Package, prompt_messages

_UNTOUCHED = ("setup", "finalize", "runtime_env", "score", "hooks", "stage_verifier", "defer_scoring")


class FastPath:
    """The fast path of one package."""

    def __init__(self, package: Package, context: Any, hook_seconds: float) -> None:
        self._package = package
        self._context = context
        self._hook_seconds = hook_seconds
        self._suits: dict[int, bool] = {}
        self._tasks: dict[int, Any] = {}
        """What traces record about a task, by index: two content hashes each."""

    def suits(self, index: int) -> bool:
        """Whether a task may go this way."""
        if index not in self._suits:
            self._suits[index] = suits(self._package.env, self._package.tasks[index])
        return self._suits[index]

    async def play(self, index: int, sample: Sample, seen: Callable[[Any], None]) -> Any:
        """One rollout: the finished trace. Failures are recorded on it, as verifiers does."""
        task = self._package.tasks[index]
        trace = self._trace(index, task)
        seen(trace)
        try:
            await _one_turn(task, trace, sample)
            trace.stop("agent_completed")
            await _score(task, trace, self._hook_seconds)
            trace.ok = True
        except RolloutError as error:
            trace.record_error(error)
        except Exception as error:  # noqa: BLE001 - a failure of the author's hook is data on the trace
            trace.record_error(TaskError(f"{type(error).__name__}: {error}"))
        trace.is_completed = True
        return trace

    def _trace(self, index: int, task: Any) -> Any:
        if index not in self._tasks:
            kind = type(task).__name__
            self._tasks[index] = TraceTask(type=kind, data=task.data, key=task.key, hash=task.hash)
        agent = resolve_agent(
            self._package.env.config.agent,
            model=MODEL,
            client=self._context.client,
            sampling=self._context.sampling,
        )
        return Trace(
            task=self._tasks[index],
            state=state_cls(type(task))(),
            agent=AgentInfo(config=agent, name="agent", trainable=True),
        )


def suits(env: Any, task: Any) -> bool:
    """Whether a task gives the same result without Env, Agent and Rollout."""
    if type(env) is not vf.SingleAgentEnv:
        return False
    return _plain_data(task.data) and _plain_task(task) and _plain_agent(env.config)


async def _one_turn(task: Any, trace: Any, sample: Sample) -> None:
    messages = prompt_messages(task.data)
    turn = graph.prepare_turn(trace, messages)
    response = await sample(trace, messages, trace.agent.config.sampling)
    node = turn.commit(response)
    trace.calls.append(
        ModelCall(
            node=node,
            model=MODEL,
            endpoint=ENDPOINT,
            finish_reason=response.finish_reason,
            usage=response.usage,
            time=TimeSpan(),
        )
    )


async def _score(task: Any, trace: Any, hook_seconds: float) -> None:
    try:
        async with asyncio.timeout(hook_seconds) as limit:
            await task.score(trace)
    except TimeoutError:
        if not limit.expired():
            raise
        trace.record_timeout("scoring")


def _plain_data(data: Any) -> bool:
    return (
        data.prompt is not None
        and not data.artifacts
        and data.workdir is None
        and all(value is None for value in (data.timeout.setup, data.timeout.agent, data.timeout.finalize))
        and data.timeout.scoring is None
    )


def _plain_task(task: Any) -> bool:
    kind = type(task)
    if any(getattr(kind, name) is not getattr(vf.Task, name) for name in _UNTOUCHED):
        return False
    if task.hooks("stop") or discover_decorated(task, "intercept") or task.plugged_judges():
        return False
    hooks = (*task.hooks("reward"), *task.hooks("metric"))
    return not any("runtime" in inspect.signature(hook).parameters for hook in hooks)


def _plain_agent(config: Any) -> bool:
    agent = config.agent
    times = (agent.timeout.setup, agent.timeout.rollout, agent.timeout.finalize, agent.timeout.scoring)
    tokens = (agent.max_input_tokens, agent.max_output_tokens, agent.max_total_tokens)
    if any(limit is not None for limit in (*times, *tokens)):
        return False
    return not _retries(agent.retries) and not _retries(config.retries)


def _retries(retries: Any) -> bool:
    return bool(retries.max_retries or retries.rules)
