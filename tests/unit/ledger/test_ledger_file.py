"""The ledger's file: fast to open, honest about what it is, safe against several openers."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

import pytest

from trainsmith.errors import MachineError, UserError
from trainsmith.ledger import Ledger


def test_opens_fast(tmp_path: Path) -> None:
    """Guards against a slow start of every command: opening takes under 50 ms."""
    Ledger.open(tmp_path).close()
    times = []
    for _ in range(5):
        started = time.perf_counter()
        Ledger.open(tmp_path).close()
        times.append(time.perf_counter() - started)
    assert min(times) < 0.05


def test_many_openers_of_a_new_ledger(tmp_path: Path) -> None:
    """Guards against 'database is locked' or half a schema when several processes start at once."""
    errors: list[BaseException] = []
    start = threading.Barrier(8)

    def open_it(folder: Path) -> None:
        start.wait()
        try:
            with Ledger.open(folder) as ledger:
                ledger.events.add("opened", "test")
        except BaseException as error:  # noqa: BLE001 - reported below
            errors.append(error)

    for attempt in range(5):
        folder = tmp_path / str(attempt)
        threads = [threading.Thread(target=open_it, args=(folder,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with Ledger.existing(folder) as ledger:
            assert len(ledger.events.of("test")) == 8
    assert errors == []


def test_a_missing_run_is_the_users_mistake(tmp_path: Path) -> None:
    """Guards against `report NOWHERE` making an empty run."""
    with pytest.raises(UserError, match="is not a run directory"):
        Ledger.existing(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_other_files_are_refused(tmp_path: Path) -> None:
    """Guards against writing tables into someone's database, and against junk."""
    other = sqlite3.connect(tmp_path / "ledger.sqlite")
    other.execute("CREATE TABLE things (id)")
    other.close()
    with pytest.raises(UserError, match="not a trainsmith ledger"):
        Ledger.open(tmp_path)
    (tmp_path / "junk").mkdir()
    (tmp_path / "junk" / "ledger.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(MachineError, match="the ledger failed"):
        Ledger.open(tmp_path / "junk")


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    """Guards against an old program damaging the ledger of a newer one."""
    Ledger.open(tmp_path).close()
    newer = sqlite3.connect(tmp_path / "ledger.sqlite")
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(UserError, match="newer than"):
        Ledger.open(tmp_path)


def test_wal_and_foreign_keys_are_on(tmp_path: Path) -> None:
    """Guards against losing concurrent readers, and against episodes that name unknown jobs."""
    with Ledger.open(tmp_path) as ledger, ledger.episodes._database.read() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA foreign_keys").fetchone()[0] == 1


def test_a_full_disk_is_the_machines_fault(tmp_path: Path) -> None:
    """Guards against a raw sqlite error, and against a ledger that is unusable afterwards."""
    with Ledger.open(tmp_path) as ledger:
        with ledger.episodes._database.read() as connection:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(MachineError, match="full"):
            ledger.events.add("big", "test", "x" * 100_000)
        with ledger.episodes._database.read() as connection:
            connection.execute("PRAGMA max_page_count = 1000000")
        ledger.events.add("small", "test")
        assert [event.kind for event in ledger.events.of("test")] == ["small"]
