"""`trainsmith tasks [ID]`: the tasks with calibrated scores of the untrained bases, or one task's brief."""

from __future__ import annotations

from trainsmith import families
from trainsmith.cli.invocation import Invocation
from trainsmith.cli.summaries import interval
from trainsmith.config.commands import ListConfig
from trainsmith.families.listing import TaskRow


def run(invocation: Invocation) -> int:
    """List one task a kind, or show one task as an author sees it."""
    if invocation.has_positional:
        task = families.task(invocation.positional("ID"))
        invocation.config(ListConfig, skip=1)
        invocation.answer(task, f"# {task.id}\n\n{task.brief}")
        return 0
    invocation.config(ListConfig)
    rows = families.listing()
    invocation.answer(rows, "\n".join(_line(row) for row in rows))
    return 0


def _line(row: TaskRow) -> str:
    scores = "  ".join(f"{score.base} {interval(score.score)}" for score in row.baselines)
    return f"{row.id:<28} {row.tier:<6} {scores or 'not calibrated'}"
