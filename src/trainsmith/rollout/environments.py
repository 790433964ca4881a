"""Opens the environment of a resolved job in the configured jail, within the limits that its author set."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from trainsmith import jail
from trainsmith.config.jail import JailConfig
from trainsmith.jail.border import Environment, TimeLimits, open_environment
from trainsmith.jobs.limits import MAX_TURNS
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
        max_turns=job.config.source.env.agent.max_turns or MAX_TURNS,
    )


def time_limits(config: AuthorConfig) -> TimeLimits:
    """The border's limits, or the author's; `jobs.honours` has seen to it that those are within ours."""
    ours, author = TimeLimits(), config.source.env.agent.timeout
    return ours.model_copy(
        update={
            "hook_seconds": author.scoring or author.setup or author.finalize or ours.hook_seconds,
            "rollout_seconds": author.rollout or ours.rollout_seconds,
        }
    )
