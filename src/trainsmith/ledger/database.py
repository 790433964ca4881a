"""The SQLite file under the ledger: opening, schema, transactions, and errors in our own terms.

Safe for several threads (one connection, one lock) and several processes (WAL, busy time-out).
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainsmith.errors import MachineError, UserError
from trainsmith.ledger.schema import APPLICATION, STATEMENTS, VERSION

_BUSY_SECONDS = 30.0
_UPDATE = "update trainsmith"
_OTHER = "choose another run folder"


class Database:
    """One connection to a ledger file."""

    def __init__(self, path: Path) -> None:
        """Open the file, make it if it is missing.

        Raises:
            UserError: it is no ledger, or one of a newer trainsmith.
            MachineError: it is damaged or cannot be written.
        """
        self.path = path
        self._lock = threading.RLock()
        with self._translated():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._connection.row_factory = sqlite3.Row
            self._prepare()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Statements that only read."""
        with self._lock, self._translated():
            yield self._connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: everything in it happens, or nothing. Waits for other writers."""
        with self._lock, self._translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:  # SQLite itself rolls back when the disk is full
                    self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA foreign_keys = ON")
        self._connection.execute("PRAGMA synchronous = FULL")  # a result costs minutes, a sync milliseconds
        if self._pragma("user_version") != VERSION:
            self._create()
        if self._pragma("application_id") != APPLICATION:
            raise UserError("is not a trainsmith ledger", where=str(self.path), fix=_OTHER)

    def _create(self) -> None:
        """Make the tables, unless another process is just doing it."""
        self._connection.execute("PRAGMA journal_mode = WAL")
        with self.write() as connection:
            found = self._pragma("user_version")
            if found == VERSION:
                return
            if found > VERSION:
                raise UserError(
                    f"has schema {found}, newer than {VERSION}", where=str(self.path), fix=_UPDATE
                )
            if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                raise UserError("is not a trainsmith ledger", where=str(self.path), fix=_OTHER)
            for statement in STATEMENTS:
                connection.execute(statement)

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError:
            raise  # a broken rule of ours: a bug, not the machine
        except (sqlite3.Error, OSError) as error:
            fix = "free disk space, or move the run folder to a local disk; a damaged file must be restored"
            raise MachineError(f"the ledger failed ({error})", where=str(self.path), fix=fix) from error
