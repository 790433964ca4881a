"""`trainsmith tasks`: the tasks, with the calibrated scores of the untrained bases."""

from __future__ import annotations

from trainsmith import families
from trainsmith.cli.invocation import Invocation
from trainsmith.cli.summaries import interval
from trainsmith.config.commands import ListConfig


def run(invocation: Invocation) -> int:
    """List one task a kind."""
    invocation.config(ListConfig)
    rows = families.listing()
    lines = []
    for row in rows:
        scores = "  ".join(f"{score.base} {interval(score.score)}" for score in row.baselines)
        lines.append(f"{row.id:<28} {row.tier:<6} {scores or 'not calibrated'}")
    invocation.answer(rows, "\n".join(lines))
    return 0
