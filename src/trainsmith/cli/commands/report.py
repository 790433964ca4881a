"""`trainsmith report RUN`: one self-contained page of a run."""

from __future__ import annotations

from trainsmith import report
from trainsmith.cli.invocation import Invocation
from trainsmith.config.commands import ReportConfig
from trainsmith.runs import RunDirectory


def run(invocation: Invocation) -> int:
    """Write the page and print its path."""
    name = invocation.positional("RUN")
    config = invocation.config(ReportConfig, skip=1)
    path = report.render(RunDirectory.named(name, config.runs).root, config.episode)
    invocation.answer({"report": str(path)}, str(path))
    return 0
