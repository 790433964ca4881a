"""Jobs in the ledger: claimed once, finished once, void ones again."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from trainsmith.errors import MachineError
from trainsmith.ledger import Claim, Held, JobState, Ledger
from trainsmith.records import JobResult, Seeds, Status

JOB = "ab" * 32


def result(job: str = JOB, status: Status = Status.OK, steps: int = 3, seed: int = 1) -> JobResult:
    return JobResult(
        task="strings/last-word@0",
        job=job,
        status=status,
        base_model="smollm2-135m",
        base_revision="r1",
        trainer="embedded",
        seeds=Seeds(train=seed),
        steps=steps,
    )


def claimed(ledger: Ledger, job: str = JOB, recipe: str = "") -> Claim:
    claim = ledger.jobs.claim(job, recipe=recipe)
    assert isinstance(claim, Claim)
    return claim


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(tmp_path / "run")


def test_a_finished_job_is_answered(ledger: Ledger, tmp_path: Path) -> None:
    """Guards against training the same job twice, also after the ledger was closed."""
    ledger.jobs.finish(claimed(ledger), result())
    ledger.close()
    again = Ledger.open(tmp_path / "run")
    assert again.jobs.claim(JOB) == result()
    assert again.jobs.result(JOB) == result()
    row = again.jobs.row(JOB)
    assert row is not None
    assert (row.state, row.attempt) == (JobState.FINISHED, 1)


def test_a_claim_excludes_others(ledger: Ledger, tmp_path: Path) -> None:
    """Guards against two claimants of one job, in this process and by another connection."""
    claim = claimed(ledger)
    other = Ledger.open(tmp_path / "run")
    for table in (ledger.jobs, other.jobs):
        held = table.claim(JOB)
        assert isinstance(held, Held)
        assert held.owner
    claim.release()
    assert claimed(other).attempt == 2


def test_many_threads_get_one_claim(ledger: Ledger) -> None:
    """Guards against a race between check and claim."""
    start = threading.Barrier(8)
    claims: list[object] = []

    def ask() -> None:
        start.wait()
        claims.append(ledger.jobs.claim(JOB))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(claim, Claim) for claim in claims) == 1
    assert sum(isinstance(claim, Held) for claim in claims) == 7


def test_a_void_result_may_be_tried_again(ledger: Ledger) -> None:
    """Guards against counting a fault of the machine as the job's result."""
    ledger.jobs.finish(claimed(ledger), result(status=Status.VOID))
    assert ledger.jobs.result(JOB) is None
    second = claimed(ledger)
    assert second.attempt == 2
    ledger.jobs.finish(second, result())
    assert ledger.jobs.claim(JOB) == result()


def test_a_result_is_recorded_once(ledger: Ledger) -> None:
    """Guards against a second result overwriting the first."""
    claim = claimed(ledger)
    ledger.jobs.finish(claim, result())
    with pytest.raises(MachineError, match="given back"):
        ledger.jobs.finish(claim, result(steps=99))
    assert ledger.jobs.result(JOB) == result()


def test_a_lost_claim_cannot_finish(ledger: Ledger, tmp_path: Path) -> None:
    """Guards against a stale attempt writing over the one that took over (fencing by attempt)."""
    stale = claimed(ledger)
    (tmp_path / "run" / "locks" / f"{JOB}.lock").unlink()  # as if the lock had been lost
    claimed(Ledger.open(tmp_path / "run"))
    with pytest.raises(MachineError, match="took the job over"):
        ledger.jobs.finish(stale, result())


def test_a_result_of_another_job_is_refused(ledger: Ledger) -> None:
    """Guards against results that change places."""
    with claimed(ledger) as claim, pytest.raises(ValueError, match="the claim of"):
        ledger.jobs.finish(claim, result(job="cd" * 32))


@pytest.mark.parametrize("identity", ["", "../../etc/passwd", "xyz", "AB" * 32])
def test_an_identity_is_a_hash(ledger: Ledger, identity: str) -> None:
    """Guards against a path of someone's choosing becoming a lock file."""
    with pytest.raises(ValueError, match="not a job identity"):
        ledger.jobs.claim(identity)


def test_results_of_a_recipe_are_its_seeds(ledger: Ledger) -> None:
    """Guards against mixing configurations when a recipe is scored by the mean over its seeds."""
    for seed, (job, recipe) in enumerate([("aa" * 32, "r1"), ("bb" * 32, "r2"), ("cc" * 32, "r1")]):
        ledger.jobs.finish(claimed(ledger, job, recipe), result(job=job, seed=seed))
    claimed(ledger, "dd" * 32, "r1").release()
    assert [found.seeds.train for found in ledger.jobs.results(recipe="r1")] == [0, 2]
    assert len(ledger.jobs.results()) == 3


def test_locks_leave_no_files(ledger: Ledger, tmp_path: Path) -> None:
    """Guards against one leftover file a job in long runs."""
    ledger.jobs.finish(claimed(ledger), result())
    assert list((tmp_path / "run" / "locks").iterdir()) == []
