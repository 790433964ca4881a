"""Things worth remembering that are no state: retries, void attempts, costs. Append-only."""

from __future__ import annotations

import time

from trainsmith.ledger.database import Database
from trainsmith.records import Record


class Event(Record):
    """One remembered moment."""

    at: float
    """Seconds since the epoch."""
    kind: str
    subject: str
    """A job's identity, an episode's id, or whatever the kind is about."""
    detail: str


class EventLog:
    """The events of one ledger."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, kind: str, subject: str, detail: str = "") -> None:
        """Append an event."""
        with self._database.write() as connection:
            connection.execute(
                "INSERT INTO events (at, kind, subject, detail) VALUES (?, ?, ?, ?)",
                (time.time(), kind, subject, detail),
            )

    def of(self, subject: str) -> tuple[Event, ...]:
        """All events of a subject, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT at, kind, subject, detail FROM events WHERE subject = ? ORDER BY number", (subject,)
            ).fetchall()
        return tuple(
            Event(at=row["at"], kind=row["kind"], subject=row["subject"], detail=row["detail"])
            for row in rows
        )
