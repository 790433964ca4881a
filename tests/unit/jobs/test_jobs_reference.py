"""The jobs that the families bring: all of them are in this format."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainsmith import families
from trainsmith.jobs import JobError, init, load, resolve

TASKS = families.task_ids()


@pytest.mark.parametrize("start", ["working", "reference"])
@pytest.mark.parametrize("task_id", TASKS)
def test_a_familys_job_loads_and_completes(task_id: str, start: str, tmp_path: Path) -> None:
    """Fault: the expert's or the starting job is refused by the checks that agents must pass."""
    task = families.task(task_id)
    init(tmp_path / "job", task, start)
    job = load(tmp_path / "job", task, trainer="embedded")
    for trainer in ("embedded", "prime_rl"):
        assert len(resolve(job, task, "r", trainer, 0).identity) == 64


@pytest.mark.parametrize("task_id", TASKS)
def test_a_skeleton_of_any_task_does_not_pass(task_id: str, tmp_path: Path) -> None:
    """Fault: the skeleton of some task passes, or breaks on its name."""
    task = families.task(task_id)
    init(tmp_path / "job", task, "skeleton")
    with pytest.raises(JobError, match="3 problems"):
        load(tmp_path / "job", task)
