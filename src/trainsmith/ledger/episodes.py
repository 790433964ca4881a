"""Episodes by id: begun, then finished exactly once with their record. Void ones may be begun again."""

from __future__ import annotations

import time
from enum import StrEnum

from trainsmith.errors import MachineError
from trainsmith.ledger.database import Database
from trainsmith.records import Record, Status
from trainsmith.records.episode import EpisodeRecord


class EpisodeState(StrEnum):
    """Where an episode stands."""

    RUNNING = "running"
    """Begun; its process may be dead."""
    FINISHED = "finished"
    VOID = "void"


class EpisodeRow(Record):
    """One episode as the ledger knows it."""

    id: str
    task: str
    agent: str
    state: EpisodeState
    attempt: int
    """How-maniest beginning this is, from 1."""
    started_at: float
    finished_at: float | None
    record: EpisodeRecord | None
    """Of the last attempt, void ones included."""


class EpisodeTable:
    """The episodes of one ledger."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, episode: str, *, task: str, agent: str) -> EpisodeRecord | None:
        """Note that the episode runs (again). A finished one is left alone and its record returned."""
        with self._database.write() as connection:
            connection.execute(
                "INSERT INTO episodes (id, task, agent, state, attempt, started_at)"
                " VALUES (?, ?, ?, 'running', 1, ?)"
                " ON CONFLICT (id) DO UPDATE SET state = 'running', attempt = attempt + 1,"
                " started_at = excluded.started_at, finished_at = NULL, job = NULL, status = NULL,"
                " reward = NULL, record = NULL WHERE state != 'finished'",
                (episode, task, agent, time.time()),
            )
        row = self.row(episode)
        return row.record if row and row.state is EpisodeState.FINISHED else None

    def finish(self, record: EpisodeRecord) -> None:
        """Keep the record of a running episode, exactly once; a void one may be begun again.

        Its job, if any, must be in the ledger. Raises MachineError if the episode is not running.
        """
        state = EpisodeState.VOID if record.status is Status.VOID else EpisodeState.FINISHED
        with self._database.write() as connection:
            changed = connection.execute(
                "UPDATE episodes SET state = ?, finished_at = ?, job = ?, status = ?, reward = ?, record = ?"
                " WHERE id = ? AND state = 'running'",
                (
                    state,
                    time.time(),
                    record.result.job or None if record.result else None,
                    record.status,
                    record.reward.total if record.reward else None,
                    record.model_dump_json(),
                    record.id,
                ),
            ).rowcount
            if changed != 1:
                raise MachineError("it is not running, so it cannot finish", where=f"episode {record.id}")

    def row(self, episode: str) -> EpisodeRow | None:
        """What the ledger knows of an episode."""
        return next(iter(self._rows("WHERE id = ?", (episode,))), None)

    def latest(self) -> EpisodeRow | None:
        """The episode that was first begun last."""
        return next(iter(self._rows("ORDER BY number DESC LIMIT 1", ())), None)

    def all(self) -> tuple[EpisodeRow, ...]:
        """All episodes in the order in which they were first begun."""
        return self._rows("ORDER BY number", ())

    def _rows(self, clause: str, values: tuple[str, ...]) -> tuple[EpisodeRow, ...]:
        with self._database.read() as connection:
            found = connection.execute(f"SELECT * FROM episodes {clause}", values).fetchall()
        return tuple(
            EpisodeRow(
                id=row["id"],
                task=row["task"],
                agent=row["agent"],
                state=EpisodeState(row["state"]),
                attempt=row["attempt"],
                started_at=row["started_at"],
                finished_at=row["finished_at"],
                record=EpisodeRecord.model_validate_json(row["record"]) if row["record"] else None,
            )
            for row in found
        )
