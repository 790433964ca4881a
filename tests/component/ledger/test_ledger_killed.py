"""`kill -9` and Ctrl-C at random moments: no job is lost, doubled or run by two; the ledger always opens."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from trainsmith.ledger import Claim, Ledger

pytestmark = pytest.mark.component
WORKER = Path(__file__).with_name("ledger_worker.py")
JOBS = [f"{number:064x}" for number in range(150)]


def start(run: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(WORKER), str(run), *JOBS]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"up\n"
    return worker


def histories(run: Path) -> dict[str, list[tuple[str, int]]]:
    """What the workers noted of each job, in order: (what, attempt)."""
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for line in (run / "worked.log").read_text().splitlines():
        what, job, attempt = line.split()
        found[job].append((what, int(attempt)))
    return found


def test_killed_workers_lose_and_double_nothing(tmp_path: Path) -> None:
    """Guards against a claim that outlives its process, a result recorded twice, and a torn ledger."""
    rng = random.Random(7)
    workers = [start(tmp_path), start(tmp_path)]
    for _ in range(20):
        time.sleep(rng.uniform(0.0, 0.06))
        victim = rng.randrange(2)
        workers[victim].send_signal(rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT]))
        workers[victim].wait(10)
        Ledger.open(tmp_path).close()  # the next command reads it at once
        workers[victim] = start(tmp_path)
    for worker in workers:
        _, errors = worker.communicate(timeout=60)
        assert worker.returncode == 0, errors.decode()

    with Ledger.existing(tmp_path) as ledger:
        results = {result.job: result for result in ledger.jobs.results()}
        rows = {job: ledger.jobs.row(job) for job in JOBS}
    assert set(results) == set(JOBS)
    assert any(len(history) > 2 for history in histories(tmp_path).values())  # the kills did hit work
    for job, history in histories(tmp_path).items():
        whats = [what for what, _ in history]
        attempts = [attempt for what, attempt in history if what == "start"]
        assert "overlap" not in whats
        assert attempts == sorted(set(attempts))
        assert whats.count("done") <= 1
        assert "start" not in whats[whats.index("done") :] if "done" in whats else True
        assert results[job].steps == attempts[-1]  # the last attempt's result, and none after it
        row = rows[job]
        assert row is not None
        assert row.attempt == attempts[-1]


def test_a_dead_claimant_blocks_nobody(tmp_path: Path) -> None:
    """Guards against waiting for a lease to run out, and against children that keep the lock alive."""
    child = os.fork()
    if child == 0:
        held = Ledger.open(tmp_path).jobs.claim(JOBS[0])
        grandchild = os.fork()
        if grandchild == 0:
            time.sleep(5)
            os._exit(0)
        (tmp_path / "ready").write_text(f"{grandchild} {type(held).__name__}")
        time.sleep(60)
    deadline = time.monotonic() + 10
    while not (tmp_path / "ready").exists() or not (tmp_path / "ready").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    claim = Ledger.open(tmp_path).jobs.claim(JOBS[0])
    os.kill(int((tmp_path / "ready").read_text().split()[0]), signal.SIGKILL)
    assert isinstance(claim, Claim)
    assert claim.attempt == 2
