"""Jobs by identity: each is trained once, whoever asks for it and whatever dies on the way.

    (absent) -> claimed -> finished            the result stands for ever
                claimed -> void -> claimed     the infrastructure failed; may be claimed again
                claimed -> claimed             the claimant died; the next claim takes over

A claim is a row plus a file lock that dies with its process, so a dead claimant blocks nobody.
"""

from __future__ import annotations

import os
import re
import socket
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from trainsmith.errors import MachineError
from trainsmith.ledger.database import Database
from trainsmith.ledger.locks import FileLock
from trainsmith.records import JobResult, Record, Status


class JobState(StrEnum):
    """Where a job stands."""

    CLAIMED = "claimed"
    """Some process took it; it may be dead."""
    FINISHED = "finished"
    VOID = "void"


class JobRow(Record):
    """One job as the ledger knows it."""

    identity: str
    recipe: str
    state: JobState
    attempt: int
    """How-maniest claim this is, from 1."""
    owner: str
    claimed_at: float
    finished_at: float | None
    result: JobResult | None
    """Of the last attempt, void ones included."""


class Held(Record):
    """Another claimant that is alive works on the job; ask again later."""

    identity: str
    owner: str


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to run a job once. Leaving it (`with claim:`) without a result makes the job claimable."""

    identity: str
    attempt: int
    lock: FileLock

    def release(self) -> None:
        """Let others claim the job."""
        self.lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


_IDENTITY = re.compile(r"[0-9a-f]{8,128}")


class JobTable:
    """The jobs of one ledger."""

    def __init__(self, database: Database, locks: Path) -> None:
        self._database = database
        self._locks = locks

    def claim(self, identity: str, *, recipe: str = "") -> Claim | JobResult | Held:
        """The right to run the job, or its finished result, or who has it.

        `recipe` is the identity without the seed: it groups the seeds of one configuration.
        """
        if not _IDENTITY.fullmatch(identity):
            raise ValueError(f"not a job identity: {identity!r}")
        if result := self.result(identity):
            return result
        lock = FileLock.take(self._locks / f"{identity}.lock")
        if lock is None:
            return self.result(identity) or Held(identity=identity, owner=self._owner(identity))
        try:
            claimed = self._claim_locked(identity, recipe, lock)
        except BaseException:
            lock.release()
            raise
        if isinstance(claimed, JobResult):
            lock.release()
        return claimed

    def finish(self, claim: Claim, result: JobResult) -> None:
        """Record the result of a claimed job, exactly once, and give the claim back.

        A void result leaves the job claimable. Raises MachineError when the claim is no longer the job's.
        """
        if result.job != claim.identity:
            raise ValueError(f"the result is of job {result.job}, the claim of {claim.identity}")
        if not claim.lock.held:
            raise MachineError("the claim was given back before its result", where=f"job {claim.identity}")
        state = JobState.VOID if result.status is Status.VOID else JobState.FINISHED
        with self._database.write() as connection:
            changed = connection.execute(
                "UPDATE jobs SET state = ?, finished_at = ?, task = ?, status = ?, result = ?"
                " WHERE identity = ? AND attempt = ? AND state = 'claimed'",
                (
                    state,
                    time.time(),
                    result.task,
                    result.status,
                    result.model_dump_json(),
                    claim.identity,
                    claim.attempt,
                ),
            ).rowcount
            if changed != 1:
                raise MachineError("another claim took the job over", where=f"job {claim.identity}")
        claim.release()

    def result(self, identity: str) -> JobResult | None:
        """The finished result; None for unknown, claimed and void jobs."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT result FROM jobs WHERE identity = ? AND state = 'finished'", (identity,)
            ).fetchone()
        return JobResult.model_validate_json(row["result"]) if row else None

    def results(self, *, recipe: str = "") -> tuple[JobResult, ...]:
        """All finished results in order of their claims, or only the seeds of one recipe."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT result FROM jobs WHERE state = 'finished' AND (? = '' OR recipe = ?) ORDER BY rowid",
                (recipe, recipe),
            ).fetchall()
        return tuple(JobResult.model_validate_json(row["result"]) for row in rows)

    def row(self, identity: str) -> JobRow | None:
        """What the ledger knows of a job."""
        with self._database.read() as connection:
            found = connection.execute("SELECT * FROM jobs WHERE identity = ?", (identity,)).fetchone()
        if found is None:
            return None
        return JobRow(
            identity=found["identity"],
            recipe=found["recipe"],
            state=JobState(found["state"]),
            attempt=found["attempt"],
            owner=found["owner"],
            claimed_at=found["claimed_at"],
            finished_at=found["finished_at"],
            result=JobResult.model_validate_json(found["result"]) if found["result"] else None,
        )

    def _claim_locked(self, identity: str, recipe: str, lock: FileLock) -> Claim | JobResult:
        """With the lock held, nobody else changes this row."""
        if result := self.result(identity):
            return result
        with self._database.write() as connection:
            attempt = connection.execute(
                "INSERT INTO jobs (identity, recipe, state, attempt, owner, claimed_at)"
                " VALUES (?, ?, 'claimed', 1, ?, ?)"
                " ON CONFLICT (identity) DO UPDATE SET state = 'claimed', attempt = attempt + 1,"
                " owner = excluded.owner, claimed_at = excluded.claimed_at,"
                " finished_at = NULL, status = NULL, result = NULL"
                " RETURNING attempt",
                (identity, recipe, _owner(), time.time()),
            ).fetchone()["attempt"]
        return Claim(identity, attempt, lock)

    def _owner(self, identity: str) -> str:
        row = self.row(identity)
        return row.owner if row else ""


def _owner() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
