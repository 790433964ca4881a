"""Attacks on each jail that this machine can run: none may succeed, and nothing may be left."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from trainsmith.jail import Command, Folder, JailLimits, run
from trainsmith.jail.watch import Excess

pytestmark = pytest.mark.component

INMATES = Path(__file__).parent / "inmates"
MIB = 1 << 20


def inmate(jail, script: str, *arguments: str, limits: JailLimits | None = None):
    argv = (str(jail.interpreter.executable), "-S", f"{{jail}}/inmates/{script}.py", *arguments)
    command = Command(
        argv, folders=(Folder(INMATES, "inmates"),), limits=limits or JailLimits(wall_seconds=60.0)
    )
    return run(jail, command)


def test_no_attack_succeeds(jail, outside):
    """Guards against every way out that is known to the suite."""
    end = inmate(jail, "attacks", *outside.arguments())
    assert end.status == 0, end.output
    results = json.loads(end.output.splitlines()[-1])
    assert len(results) > 60
    assert {name: said for name, said in results.items() if said.startswith("SUCCESS")} == {}
    assert outside.reached() == [] and outside.untouched()


def test_a_fork_bomb_meets_its_limit_and_leaves_nothing(jail, outside, find_processes):
    """Guards against a machine out of processes."""
    mark = f"bomb-{outside.mark}"
    end = inmate(jail, "greedy", "fork_bomb", mark, limits=JailLimits(processes=40, wall_seconds=60.0))
    assert end.output.startswith("born") and int(end.output.split()[1]) < 40
    assert find_processes(mark) == []


def test_sixteen_gigabytes_are_refused(jail, outside):
    """Guards against a process that takes the machine's memory."""
    assert inmate(jail, "greedy", "memory", outside.mark).output == "refused\n"


def test_memory_of_many_processes_is_watched(jail, outside, find_processes):
    """Guards against many processes that each stay below the limit of one."""
    mark = f"many-{outside.mark}"
    end = inmate(jail, "greedy", "memory_by_many", mark, limits=JailLimits(total_memory_bytes=512 * MIB))
    assert end.excess is Excess.MEMORY
    assert find_processes(mark) == []


def test_the_disk_cannot_be_filled(jail, outside):
    """Guards against many files: a full mount refuses them, the watcher stops the jail without one."""
    end = inmate(
        jail, "greedy", "disk", outside.mark, limits=JailLimits(disk_bytes=64 * MIB, wall_seconds=60.0)
    )
    if end.excess is None:
        word, written, code = end.output.split()
        assert word == "written" and int(written) <= 64 * MIB and int(code) == errno.ENOSPC
    else:
        assert end.excess is Excess.DISK


def test_one_file_has_a_limit(jail, outside):
    """Guards against one huge file between two looks of the watcher."""
    limits = JailLimits(file_bytes=8 * MIB, wall_seconds=60.0)
    assert (
        inmate(jail, "greedy", "big_file", outside.mark, limits=limits).output == f"refused {errno.EFBIG}\n"
    )


def test_a_daemon_does_not_outlive_the_jail(jail, outside, find_processes):
    """Guards against a process that leaves its session and its parent."""
    mark = f"daemon-{outside.mark}"
    assert inmate(jail, "greedy", "daemon", mark).output == "left one behind\n"
    assert find_processes(mark) == []


def test_wall_time_ends_everything(jail, outside, find_processes):
    """Guards against a command that never ends."""
    mark = f"sleep-{outside.mark}"
    end = inmate(jail, "greedy", "sleep", mark, limits=JailLimits(wall_seconds=0.5))
    assert end.excess is Excess.WALL
    assert find_processes(mark) == []
