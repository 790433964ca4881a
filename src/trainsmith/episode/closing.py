"""How an episode ends: status, reason and reward, from the last state and what became of the job. Pure."""

from __future__ import annotations

from trainsmith import reward
from trainsmith.config.reward import RewardConfig
from trainsmith.episode.machine import EpisodeState
from trainsmith.errors import AgentError, MachineError
from trainsmith.records import JobResult, Record, RewardParts, Status, Task

_UNSCORED = frozenset({Status.VOID, Status.CANCELLED})


class Ending(Record):
    """The outcome of a whole episode."""

    status: Status
    reason: str
    result: JobResult | None = None
    reward: RewardParts | None = None


def spoilt(error: MachineError) -> Ending:
    """The infrastructure failed: void, never a 0."""
    return Ending(status=Status.VOID, reason=str(error))


def invalid(state: EpisodeState) -> Ending:
    """Nothing valid was submitted."""
    return Ending(status=Status.INVALID, reason=str(state.end), reward=reward.NOTHING)


def ran(result: JobResult) -> Ending:
    """The submitted job was run. A result without the reward it should carry is a fault of ours: void."""
    if result.status in _UNSCORED:
        return Ending(status=result.status, reason=result.reason, result=result)
    if result.reward is None:
        return Ending(status=Status.VOID, reason="the job's result carries no reward", result=result)
    return Ending(status=result.status, reason=result.reason, result=result, reward=result.reward)


def failed(error: AgentError, state: EpisodeState, task: Task, config: RewardConfig | None) -> Ending:
    """The author's job could not be run: it was valid by the probe and trained nothing."""
    inputs = reward.RewardInputs(
        validation_attempt=state.first_pass,
        max_validations=state.limits.max_validations,
        post=None,
        baseline=0.0,
        tokens=0,
        budget=task.budget.max_tokens,
    )
    return Ending(status=Status.FAILED, reason=str(error), reward=reward.reward(inputs, config))
