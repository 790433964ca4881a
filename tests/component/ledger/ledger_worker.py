"""Works through jobs with a ledger, as a pool does, and writes down what it did. Killed by its test."""

from __future__ import annotations

import fcntl
import os
import random
import sys
import time
from pathlib import Path

from trainsmith.ledger import Claim, Ledger
from trainsmith.records import JobResult, Seeds, Status


def result(job: str, attempt: int, status: Status) -> JobResult:
    return JobResult(
        task="t",
        job=job,
        status=status,
        base_model="b",
        base_revision="r",
        trainer="stand-in",
        seeds=Seeds(train=0),
        steps=attempt,
    )


def note(run: Path, what: str, claim: Claim) -> None:
    descriptor = os.open(run / "worked.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, f"{what} {claim.identity} {claim.attempt}\n".encode())
    os.close(descriptor)


def train(run: Path, ledger: Ledger, claim: Claim) -> None:
    with (run / f"witness-{claim.identity}").open("w") as witness:
        try:
            fcntl.flock(witness, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(run, "overlap", claim)
        note(run, "start", claim)
        time.sleep(random.uniform(0, 0.02))
        void = random.random() < 0.1
        ledger.jobs.finish(claim, result(claim.identity, claim.attempt, Status.VOID if void else Status.OK))
        note(run, "void" if void else "done", claim)


def main(run: Path, jobs: list[str]) -> None:
    with Ledger.open(run) as ledger:
        print("up", flush=True)
        while any(ledger.jobs.result(job) is None for job in jobs):
            for job in random.sample(jobs, len(jobs)):
                claim = ledger.jobs.claim(job)
                if isinstance(claim, Claim):
                    with claim:
                        train(run, ledger, claim)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
