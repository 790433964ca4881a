"""The environment of a job as the probe opens it.

Also of a job whose `rl.toml` is refused: an agent has few probes, and should hear of a wrong key and of a
broken import in the same one.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

from trainsmith.jobs import Job, Problem

CONFIG = "rl.toml"
ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class Package:
    """What it takes to open an environment."""

    folder: Path
    """Holds the package."""
    name: str
    arguments: str = "{}"
    """JSON object for the taskset's config."""
    max_turns: int | None = None


def of_job(job: Job, job_dir: Path) -> Package:
    """The package of a sound job."""
    env = job.config.source.env
    arguments = json.dumps(env.taskset.arguments)
    return Package(job_dir / ENVIRONMENT, job.package, arguments, env.agent.max_turns)


def of_refused(problems: tuple[Problem, ...], job_dir: Path) -> Package | None:
    """The package of a job whose problems all lie in `rl.toml`; None if any lies elsewhere.

    Its arguments are left out where they cannot be read.
    """
    if not all(problem.where.startswith(CONFIG) for problem in problems):
        return None
    names = [entry.name for entry in (job_dir / ENVIRONMENT).iterdir() if (entry / "__init__.py").is_file()]
    return Package(job_dir / ENVIRONMENT, names[0], _arguments(job_dir)) if len(names) == 1 else None


def _arguments(job_dir: Path) -> str:
    try:
        document = tomllib.loads((job_dir / CONFIG).read_text(encoding="utf-8"))
        taskset = document["orchestrator"]["train"]["source"][0]["env"]["taskset"]
        return json.dumps({name: value for name, value in taskset.items() if name != "id"})
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return "{}"
