"""Hidden scores that are kept so that no model is graded twice on the same items. Numbers only, no text."""

from __future__ import annotations

import sqlite3

from trainsmith.grading.baselines import KeptScore, ScoreKey
from trainsmith.ledger.database import Database
from trainsmith.records import HiddenScore


class ScoreTable:
    """The hidden scores of one ledger; a `grading.baselines.ScoreStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def score(self, key: ScoreKey) -> HiddenScore | None:
        """The kept score, if there is one."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT score FROM scores"
                " WHERE task = ? AND model = ? AND revision = ? AND items = ? AND evaluation = ?",
                _values(key),
            ).fetchone()
        return _score(row) if row else None

    def of_items(self, task: str, items: str) -> tuple[KeptScore, ...]:
        """All that was scored on these items of the task, in order of keeping."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT * FROM scores WHERE task = ? AND items = ? ORDER BY rowid", (task, items)
            ).fetchall()
        return tuple(KeptScore(key=_key(row), score=_score(row)) for row in rows)

    def keep_score(self, key: ScoreKey, score: HiddenScore) -> None:
        """Keep a score; the first one kept stays."""
        if score.items != key.items:
            raise ValueError(f"a score of items {score.items} does not belong to items {key.items}")
        with self._database.write() as connection:
            connection.execute(
                "INSERT INTO scores (task, model, revision, items, evaluation, score)"
                " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (*_values(key), score.model_dump_json()),
            )


def _values(key: ScoreKey) -> tuple[str, ...]:
    return (key.task, key.model, key.revision, key.items, key.evaluation)


def _key(row: sqlite3.Row) -> ScoreKey:
    return ScoreKey(
        task=row["task"],
        model=row["model"],
        revision=row["revision"],
        items=row["items"],
        evaluation=row["evaluation"],
    )


def _score(row: sqlite3.Row) -> HiddenScore:
    return HiddenScore.model_validate_json(row["score"])
