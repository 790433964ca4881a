"""Everything of a jail dies with its environment, with its caller, with a signal; nothing stays on disk."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from trainsmith.errors import MachineError
from trainsmith.jail import Command, run
from trainsmith.jail.border import EnvironmentFailed, GenerateCall, GenerateReply, open_environment
from trainsmith.jail.process import descendants

pytestmark = pytest.mark.component

ENVIRONMENTS = Path(__file__).parents[2] / "environments"
INMATES = Path(__file__).parent / "inmates"
DEATH_SECONDS = 2.0


async def never(call: GenerateCall) -> GenerateReply:
    await asyncio.sleep(1e6)
    raise AssertionError


def leftovers() -> list[str]:
    """Folders of jails in the temporary folder."""
    return [path.name for path in Path(tempfile.gettempdir()).glob("trainsmith-jail-*")]


def alive(pids: list[int]) -> list[int]:
    """Those that still run; a zombie does not."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            if "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text():
                found.append(pid)
    return found


def assert_dead(pids: list[int], folders: list[str]) -> None:
    """All gone within two seconds, folders included."""
    end = time.monotonic() + DEATH_SECONDS
    while alive(pids) or set(leftovers()) - set(folders):
        assert time.monotonic() < end, (alive(pids), leftovers())
        time.sleep(0.02)


def tree() -> list[int]:
    """Live processes below this one."""
    return [pid for pid, _ in descendants(os.getpid()) if pid != os.getpid()]


@pytest.mark.parametrize(
    ("name", "end"),
    [("bubblewrap", end) for end in ("leave", "raise", "cancel", "kill")] + [("landlock", "cancel")],
)
def test_nothing_is_left_of_an_environment(request, name, end):
    """Guards against processes or folders that stay when an environment is left, in whichever way."""
    jail = request.getfixturevalue(name)
    folders, before, inside = leftovers(), set(tree()), []

    async def use() -> None:
        async with open_environment(ENVIRONMENTS, "arith", jail=jail) as env:
            await env.score(0, "junk")
            inside.extend(set(tree()) - before)
            if end == "raise":
                raise KeyError(end)
            if end == "kill":
                threading.Timer(0.1, env.kill).start()
            if end in ("kill", "cancel"):
                await env.rollout(0, never)

    async def cancelled() -> None:
        task = asyncio.create_task(use())
        while not inside:
            await asyncio.sleep(0.02)
        task.cancel()
        await task

    expected = {"raise": KeyError, "kill": MachineError, "cancel": asyncio.CancelledError}
    with pytest.raises(expected[end]) if end in expected else contextlib.nullcontext():
        asyncio.run(cancelled() if end == "cancel" else use())
    assert len(inside) >= 2
    assert_dead(inside, folders)


@pytest.mark.parametrize(
    ("name", "kind"), [(signal.SIGKILL, 9), (signal.SIGINT, 2)], ids=["SIGKILL", "SIGINT"]
)
def test_nothing_outlives_the_caller(jail, name, kind):
    """Guards against a jail, and a daemon in it, that goes on when its caller is killed."""
    folders = leftovers()
    command = [
        str(jail.interpreter.executable),
        str(INMATES / "parent.py"),
        jail.kind,
        str(ENVIRONMENTS),
        "wait",
    ]
    path = ":".join([str(Path(__file__).parents[3] / "src"), *map(str, jail.interpreter.packages)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    parent = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert parent.stdout is not None
    outer = int(parent.stdout.readline())
    inside = [pid for pid, _ in descendants(outer)]
    assert len(inside) >= 3
    parent.send_signal(name)
    assert parent.wait(10) == (-9 if kind == 9 else -2)
    parent.stdout.close()
    assert_dead(inside, folders)


def test_a_second_jail_gets_a_user_of_its_own(bubblewrap):
    """Guards against two jails that could signal each other."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    argv = ("/bin/sh", "-c", "id -u; sleep 0.3")
    first = bubblewrap.start(Command(argv))
    second = bubblewrap.start(Command(argv))
    users = {os.read(process.output, 100) for process in (first, second)}
    assert len(users) == 2
    assert first.wait(5) == second.wait(5) == 0


def test_the_environment_of_a_jail_is_clean(jail, monkeypatch):
    """Guards against keys and tokens of the caller that come along."""
    monkeypatch.setenv("TRAINSMITH_API_KEY", "secret-key")
    end = run(jail, Command((sys.executable if jail.kind == "bubblewrap" else "/usr/bin/env",)))
    assert "secret-key" not in end.output
    end = run(jail, Command(("/usr/bin/env",)))
    assert "HOME=" in end.output and "secret-key" not in end.output


def test_the_caller_keeps_its_own_status(jail):
    """Guards against an exit status or output that gets lost on the way."""
    end = run(jail, Command(("/bin/sh", "-c", "echo said; echo also >&2; exit 7")))
    assert (end.status, end.output, end.excess) == (7, "said\nalso\n", None)


def test_a_command_that_does_not_exist_says_so(jail):
    """Guards against a riddle where a program is missing."""
    end = run(jail, Command(("/no/such/program",)))
    assert end.status == 127 and "/no/such/program" in end.output


def test_a_jail_that_cannot_start_is_the_machines_fault(bubblewrap, tmp_path):
    """Guards against a broken jail that is blamed on the author."""
    broken = type(bubblewrap)(tmp_path / "absent")

    async def use() -> None:
        async with open_environment(ENVIRONMENTS, "arith", jail=broken):
            raise AssertionError

    with pytest.raises(MachineError) as caught:
        asyncio.run(use())
    assert not isinstance(caught.value, EnvironmentFailed)


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "/var/tmp"])
def test_python_may_lie_in_a_folder_for_temporary_files(bubblewrap, place):
    """Guards against a clone in /tmp, whose virtual environment no jail can mount."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        Path(folder).chmod(0o755)
        Path(folder, "seen").write_text("here")
        python = dataclasses.replace(
            bubblewrap.interpreter, needs=(*bubblewrap.interpreter.needs, Path(folder))
        )
        script = f"cat {folder}/seen; echo x > $TMPDIR/mine && echo scratch; echo x > {folder}/seen"
        end = run(dataclasses.replace(bubblewrap, interpreter=python), Command(("/bin/sh", "-c", script)))
        assert "herescratch" in end.output
        assert end.status != 0
        assert Path(folder, "seen").read_text() == "here"
