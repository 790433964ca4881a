"""Completes a job for one trainer, base revision and seed, and gives it its identity.

The identity is the sha256 of canonical JSON of: the completed config, the digest of every file but
rl.toml, the base's revision, the task, the trainer, the seed and the conditions. rl.toml counts by what it
says: comments, spacing, the order of its keys and written-out defaults do not change the identity; any byte
of any other file does, even in a comment. Paths, ports and GPUs (`Placement`) never do.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, cast

from trainsmith.config.trainer import EmbeddedTrainerConfig
from trainsmith.jobs.completion import Placement, complete, prime_rl_toml
from trainsmith.jobs.honours import TrainerName, honours
from trainsmith.jobs.load import Job
from trainsmith.jobs.paths import CONFIG
from trainsmith.jobs.schema import AuthorConfig
from trainsmith.jobs.tree import FileDigest
from trainsmith.records import Record, Task

_FORMAT = 1
"""Raised when the same job would train differently, so that recorded results no longer stand for it."""


class Conditions(Record):
    """Settings outside the job folder that change what a training gives."""

    engine: str = "auto/auto"
    """Device and precision, as `Policies.engine` names them."""
    no_signal_steps: int = EmbeddedTrainerConfig().no_signal_steps


class ResolvedJob(Record):
    """A job that a trainer can run."""

    identity: str
    """sha256 in hex; the same identity is never trained twice."""
    recipe: str
    """The same without the seed: what the seeds of one configuration have in common."""
    task: str
    trainer: TrainerName
    seed: int
    """Seed of training."""
    base: str
    base_revision: str
    package: str
    config: AuthorConfig
    """Completed: nothing that depends on other keys is left out."""
    taskset_args: str
    """Canonical JSON object of the environment's own arguments."""
    toml: str
    """The completed `rl.toml`, for prime-rl's own parser."""
    files: tuple[FileDigest, ...]


def resolve(
    job: Job,
    task: Task,
    base_revision: str,
    trainer: str,
    seed: int,
    placement: Placement | None = None,
    conditions: Conditions | None = None,
) -> ResolvedJob:
    """Complete a job. JobError for keys that the trainer cannot honour, UserError for an unknown trainer."""
    honours(job.config, trainer)
    config = complete(job.config)
    conditions = conditions or Conditions()
    return ResolvedJob(
        identity=_identity(config, job.files, base_revision, task.id, trainer, seed, conditions),
        recipe=_identity(config, job.files, base_revision, task.id, trainer, None, conditions),
        task=task.id,
        trainer=cast(TrainerName, trainer),  # `honours` refuses other names
        seed=seed,
        base=job.base,
        base_revision=base_revision,
        package=job.package,
        config=config,
        taskset_args=_canonical(config.source.env.taskset.arguments),
        toml=prime_rl_toml(config, seed, placement or Placement()),
        files=job.files,
    )


def _identity(
    config: AuthorConfig,
    files: tuple[FileDigest, ...],
    revision: str,
    task: str,
    trainer: str,
    seed: int | None,
    conditions: Conditions,
) -> str:
    parts: dict[str, Any] = {
        "format": _FORMAT,
        "config": config.model_dump(mode="json"),
        "files": sorted([file.path, file.sha256] for file in files if file.path != CONFIG),
        "base_revision": revision,
        "task": task,
        "trainer": trainer,
        "seed": seed,
    }
    if changed := conditions.model_dump(mode="json", exclude_defaults=True):
        parts["conditions"] = changed  # the defaults are left out: results recorded before stay valid
    return hashlib.sha256(_canonical(parts).encode()).hexdigest()


def _canonical(value: Any) -> str:
    """One text for equal values: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
