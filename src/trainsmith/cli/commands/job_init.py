"""`trainsmith job init DIR --task ID`: scaffold a job folder."""

from __future__ import annotations

from trainsmith import families, jobs
from trainsmith.cli.invocation import Invocation
from trainsmith.config.commands import JobInitConfig


def run(invocation: Invocation) -> int:
    """Write the folder."""
    folder = invocation.directory()
    config = invocation.config(JobInitConfig, skip=1)
    task = families.task(config.task)
    jobs.init(folder, task, config.start)
    following = f"next: trainsmith job validate {folder} --task {task.id}"
    text = f"{folder}: a {config.start} job for {task.id}\n{following}"
    invocation.answer({"directory": str(folder), "task": task.id, "start": config.start}, text)
    return 0
