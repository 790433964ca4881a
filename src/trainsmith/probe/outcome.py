"""From a finished rollout to one reward, or to the reason why there is none."""

from __future__ import annotations

import math

from trainsmith.jail.border import EnvironmentRollout, Reason, TraceResult
from trainsmith.probe.averages import mean
from trainsmith.probe.observations import Canned, Scored

NO_REWARD = "the rollout has no reward"


def outcome(played: EnvironmentRollout, reply: Canned, shown: str) -> Scored:
    """The mean reward of the trainable traces; None with a reason when one of them has no finite reward."""
    traces = [trace for trace in played.traces if trace.trainable] or list(played.traces)
    timed_out = played.timed_out or played.failure is Reason.HUNG or any(t.timed_out for t in played.traces)
    error = _error(played, traces)
    rewards = [trace.reward for trace in traces if trace.reward is not None]
    usable = not (error or timed_out or played.failure) and bool(rewards)
    return Scored(
        task=played.index,
        reply=reply,
        reward=mean(rewards) if usable else None,
        error=error,
        timed_out=timed_out,
        died=played.failure is not None and not timed_out,
        values=tuple((r.name, r.value) for trace in traces for r in trace.rewards if r.value is not None),
        shown=shown,
        turns=max((trace.turns for trace in played.traces), default=0),
        seconds=played.environment_seconds,
    )


def _error(played: EnvironmentRollout, traces: list[TraceResult]) -> str:
    errors = [*played.errors, *(error for trace in traces for error in trace.errors)]
    if errors:
        return errors[0]
    if played.failure is not None:
        return f"the rollout ended its process ({played.failure.value})"
    if not traces:
        return "the rollout ended without a single agent run"
    if not played.ok:
        return "the environment calls the rollout failed, and does not say why"
    return next((_unscored(trace) for trace in traces if not _finite(trace.reward)), "")


def _finite(reward: float | None) -> bool:
    return reward is not None and math.isfinite(reward)


def _unscored(trace: TraceResult) -> str:
    """Which reward is no finite number."""
    if not trace.rewards:
        return NO_REWARD
    for reward in trace.rewards:
        if reward.value is None:
            return f"the reward `{reward.name}` is not a number"
        if not math.isfinite(reward.value):
            return f"the reward `{reward.name}` is {reward.value}"
    return "the sum of the rewards is not a finite number"
