"""The border to an author's environment: a jailed worker on one side, typed records on the other.

    async with open_environment(folder, "arith", "{}", jail=choose()) as env:
        tasks = await env.tasks(0, 8)
        rollout = await env.rollout(0, generate)

The trusted side imports neither verifiers nor the author's code; tokens, budgets and hidden items stay on it.
The jailed side is the package `worker`. What comes back is the author's word about rewards, nothing else.
"""

from trainsmith.jail.border.environment import Environment, open_environment
from trainsmith.jail.border.failure import EnvironmentFailed, Reason
from trainsmith.jail.border.records import (
    EnvironmentInfo,
    EnvironmentRollout,
    Generate,
    GenerateCall,
    GenerateRefused,
    GenerateReply,
    Metric,
    RewardValue,
    TaskView,
    TimeLimits,
    TraceResult,
)

__all__ = [
    "Environment",
    "EnvironmentFailed",
    "EnvironmentInfo",
    "EnvironmentRollout",
    "Generate",
    "GenerateCall",
    "GenerateRefused",
    "GenerateReply",
    "Metric",
    "Reason",
    "RewardValue",
    "TaskView",
    "TimeLimits",
    "TraceResult",
    "open_environment",
]
