"""A run on disk: one directory that holds everything a run has done.

runs/<name>/  config.json  ledger.sqlite  episodes/<id>/  jobs/<hash>/  report.html
"""

from __future__ import annotations

import re
from pathlib import Path

from trainsmith.errors import UserError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class RunDirectory:
    """Paths of one run; nothing is created by asking for them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def named(cls, name: str, runs: Path) -> RunDirectory:
        """The directory of a run by name. Raises UserError for a name that is no plain folder name."""
        if not _NAME.fullmatch(name):
            fix = "use letters, digits, dot, dash and underscore"
            raise UserError(f"{name!r} cannot name a run", where="--run", fix=fix)
        return cls(runs / name)

    @property
    def config(self) -> Path:
        """The resolved configuration of the command that made the run."""
        return self.root / "config.json"

    @property
    def report(self) -> Path:
        """The page that `trainsmith report` writes."""
        return self.root / "report.html"

    def job(self, identity: str) -> Path:
        """Folder of one job: `job/`, `resolved/`, metrics, examples, weights, `result.json`."""
        return self.root / "jobs" / identity

    def episode(self, episode: str) -> Path:
        """Folder of one episode: trace and workspace."""
        return self.root / "episodes" / episode
