"""`trainsmith demo`: one episode end to end on this machine, then its page."""

from __future__ import annotations

from trainsmith import report
from trainsmith.cli import summaries
from trainsmith.cli.commands.episode import play, status
from trainsmith.cli.invocation import Invocation
from trainsmith.config.commands import DemoConfig
from trainsmith.runs import RunDirectory


def run(invocation: Invocation) -> int:
    """Play the demo's episode, print its result and the path of its page."""
    config = invocation.config(DemoConfig)
    record = play(config)
    path = report.render(RunDirectory.named(config.run, config.runs).root, record.id)
    document = {"episode": record.model_dump(mode="json"), "report": str(path)}
    invocation.answer(document, f"{summaries.episode(record)}\nreport    {path}")
    return status(record)
