"""The job folder as it lies there: `rl.toml` and files, before any of its code has run."""

from __future__ import annotations

from trainsmith.probe.observations import Observations
from trainsmith.probe.text import plural
from trainsmith.probe.verdicts import failed, passed
from trainsmith.records import Check

FOLDER = "folder"


def folder(seen: Observations) -> tuple[Check, ...]:
    """One failed check a problem; one passed check if there is none."""
    if not seen.problems:
        return (passed(FOLDER, f"rl.toml and {plural(seen.files, 'file')} are well-formed"),)
    return tuple(
        failed(FOLDER, f"{problem.where}: {problem.what}" if problem.where else problem.what, problem.fix)
        for problem in seen.problems
    )
