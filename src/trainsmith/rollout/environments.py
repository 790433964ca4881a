"""Opens the environment of a resolved job in the configured jail, within the limits that its author set."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from trainsmith import jail
from trainsmith.config.jail import JailConfig
from trainsmith.jail.border import Environment, TimeLimits, open_environment
from trainsmith.jail.border.environment import MAX_TURNS
from trainsmith.jobs.resolution import ResolvedJob
from trainsmith.jobs.schema import AuthorConfig


def open_job_environment(
    job: ResolvedJob, folder: Path, config: JailConfig
) -> AbstractAsyncContextManager[Environment]:
    """The environment of `job`, whose files are in `folder`. Raises EnvironmentFailed, MachineError."""
    return open_environment(
        folder / "environment",
        job.package,
        job.taskset_args,
        jail=jail.choose(config.kind),
        times=time_limits(job.config),
        workers=config.workers,
        max_turns=min(job.config.source.env.agent.max_turns or MAX_TURNS, MAX_TURNS),
    )


def time_limits(config: AuthorConfig) -> TimeLimits:
    """trainsmith's limits, lowered to the author's own where those are stricter."""
    ours, author = TimeLimits(), config.source.env.agent.timeout
    hooks = [limit for limit in (author.setup, author.finalize, author.scoring) if limit is not None]
    return ours.model_copy(
        update={
            "hook_seconds": min([ours.hook_seconds, *hooks]),
            "rollout_seconds": min(ours.rollout_seconds, author.rollout or ours.rollout_seconds),
        }
    )
