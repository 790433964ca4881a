"""The ledger of one run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from trainsmith.errors import UserError
from trainsmith.ledger.database import Database
from trainsmith.ledger.episodes import EpisodeTable
from trainsmith.ledger.events import EventLog
from trainsmith.ledger.jobs import JobTable
from trainsmith.ledger.scores import ScoreTable

FILE = "ledger.sqlite"
"""Its name in a run directory."""
LOCKS = "locks"
"""The folder of job locks in a run directory."""


class Ledger:
    """Jobs, episodes, scores and events of a run. Safe for threads and for several processes."""

    def __init__(self, run: Path) -> None:
        self._database = Database(run / FILE)
        self.jobs = JobTable(self._database, run / LOCKS)
        self.episodes = EpisodeTable(self._database)
        self.scores = ScoreTable(self._database)
        self.events = EventLog(self._database)

    @classmethod
    def open(cls, run: Path) -> Ledger:
        """The ledger of a run directory; directory and ledger are made if they are missing.

        Raises:
            UserError: the file is no ledger, or one of a newer trainsmith.
            MachineError: it is damaged or cannot be written.
        """
        return cls(run)

    @classmethod
    def existing(cls, run: Path) -> Ledger:
        """The ledger of a run that must be there already; UserError otherwise."""
        if not (run / FILE).is_file():
            raise UserError("is not a run directory", where=str(run), fix="name a folder that holds a ledger")
        return cls(run)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
