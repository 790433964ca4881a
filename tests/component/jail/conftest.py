"""Jails that this machine can run, and environments opened once for many tests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import pytest

from trainsmith.errors import MachineError
from trainsmith.jail import Jail
from trainsmith.jail.border import Environment, TimeLimits, open_environment
from trainsmith.jail.bubblewrap import Bubblewrap, find
from trainsmith.jail.choose import test as self_test
from trainsmith.jail.interpreter import Interpreter, current
from trainsmith.jail.landlock import Landlock
from trainsmith.jail.limits import JailLimits

T = TypeVar("T")
ENVIRONMENTS = Path(__file__).parents[2] / "environments"
QUICK = TimeLimits(block_seconds=2.0, hook_seconds=2.0, rollout_seconds=3.0)
SMALL = JailLimits(processes=64, disk_bytes=64 << 20)


class LoopThread:
    """An event loop in a thread of its own, so that an environment stays open from test to test."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._stack = contextlib.AsyncExitStack()
        self._open: dict[tuple[str, str, str, bool], Environment] = {}
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float = 120.0) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout)

    def environment(self, jail: Jail, package: str, *, fast: bool = True, **arguments: Any) -> Environment:
        """Open an environment, or take the one that an earlier test opened in the same way."""
        key = (jail.kind, package, json.dumps(arguments), fast)
        if key not in self._open:
            self._open[key] = self.run(self._enter(jail, package, json.dumps(arguments), fast))
        return self._open[key]

    def leave(self) -> None:
        """Close all environments."""
        self._open.clear()
        self.run(self._stack.aclose())

    def close(self) -> None:
        self.leave()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _enter(self, jail: Jail, package: str, arguments: str, fast: bool) -> Environment:
        opening = open_environment(
            ENVIRONMENTS, package, arguments, jail=jail, limits=SMALL, times=QUICK, workers=2, fast=fast
        )
        return await self._stack.enter_async_context(opening)


@pytest.fixture(scope="session")
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture(scope="session", autouse=True)
def no_orphans(loop: LoopThread) -> Iterator[None]:
    """Guards against processes of any jail that nobody would ever end."""
    before = set(_orphans())
    yield
    loop.leave()
    assert set(_orphans()) - before == set()


def _orphans() -> list[int]:
    """Workers whose jail is gone: they belong to the machine's first process."""
    found = []
    for pid in processes_with("trainsmith_worker"):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1] == "1":
                found.append(pid)
    return found


@pytest.fixture(scope="session")
def bubblewrap() -> Jail:
    program = find()
    if program is None:
        pytest.skip("bubblewrap is not installed")
    return _works(lambda: Bubblewrap(program))


@pytest.fixture(scope="session")
def landlock() -> Jail:
    return _works(lambda: Landlock(readable_interpreter()))


@pytest.fixture(scope="session", params=["bubblewrap", "landlock"])
def jail(request: pytest.FixtureRequest) -> Jail:
    """Each kind of jail in turn."""
    return request.getfixturevalue(request.param)


def _works(build: Callable[[], Jail]) -> Jail:
    try:
        jail = build()
        hole = self_test(jail)
    except MachineError as error:
        pytest.skip(str(error))
    assert not hole
    return jail


def readable_interpreter() -> Interpreter:
    """A Python that another user may read: ours, or the system's of the same version with our packages."""
    ours = current()
    if os.geteuid() != 0 or all(_open_to_all(path) for path in (ours.executable, *ours.needs)):
        return ours
    system = Path(f"/usr/bin/python3.{sys.version_info.minor}")
    if not system.exists() or not all(_open_to_all(path) for path in ours.packages):
        pytest.skip("no Python here that another user may read")
    return Interpreter(system, ours.packages, ours.packages)


def _open_to_all(path: Path) -> bool:
    places = (path, path.resolve())
    return all(folder.stat().st_mode & 0o001 for place in places for folder in place.parents)


def processes_with(word: str) -> list[int]:
    """Processes of this machine whose command line holds a word."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if word.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


@pytest.fixture
def find_processes() -> Callable[[str], list[int]]:
    return processes_with


@pytest.fixture
def user_python(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a Python script as an ordinary user: as we are, or, from root, as another user."""
    interpreter = readable_interpreter()
    source = Path(__file__).parents[3] / "src"
    if os.geteuid() == 0 and not _open_to_all(source / "trainsmith"):
        pytest.skip("another user may not read this checkout")

    def run(script: str, *arguments: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        user = ("setpriv", "--reuid=61234", "--regid=61234", "--clear-groups") if os.geteuid() == 0 else ()
        path = ":".join(map(str, (source, *interpreter.packages)))
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": path}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        environment["TRAINSMITH_TEST_MARK"] = os.environ.get("TRAINSMITH_TEST_MARK", "")
        argv = [*(prefix or user), str(interpreter.executable), "-c", script, *arguments]
        return subprocess.run(argv, env=environment, cwd="/", capture_output=True, text=True, timeout=120)

    return run


class Outside:
    """What an attacker would like to reach: a secret, an open folder, listeners, this process."""

    def __init__(self, folder: Path) -> None:
        self.mark = f"mark-{secrets.token_hex(8)}"
        self.folder = folder
        folder.chmod(0o755)
        self.secret = folder / "secret"
        self.secret.write_text(self.mark)
        self.secret.chmod(0o666)
        self.open_folder = folder / "open"
        self.open_folder.mkdir()
        self.open_folder.chmod(0o777)
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(str(folder / "unix"))
        (folder / "unix").chmod(0o777)
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind("\0" + self.mark)
        for listener in (self.unix, self.abstract):
            listener.listen()
        status = self.open_folder.stat()
        self._before = (status.st_mode, status.st_mtime_ns)
        self.inmates = Path(__file__).parent / "inmates"
        self.listeners = (self.tcp, self.udp, self.unix, self.abstract)

    def arguments(self) -> tuple[str, ...]:
        ports = (str(self.tcp.getsockname()[1]), str(self.udp.getsockname()[1]))
        places = (
            str(self.secret),
            str(self.open_folder),
            str(os.getpid()),
            *ports,
            str(self.folder / "unix"),
        )
        return (*places, self.mark[::-1])

    def reached(self) -> list[socket.socket]:
        """Listeners to which somebody connected or sent."""
        return select.select(self.listeners, [], [], 0.2)[0]

    def untouched(self) -> bool:
        """Whether the secret and the open folder are as they were."""
        status = self.open_folder.stat()
        same = (status.st_mode, status.st_mtime_ns) == self._before
        return same and self.secret.read_text() == self.mark and not list(self.open_folder.iterdir())

    def close(self) -> None:
        for listener in self.listeners:
            listener.close()


@pytest.fixture(scope="session")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    folder = tmp_path_factory.mktemp("outside")
    for parent in (folder.parent, folder.parent.parent):
        if parent.stat().st_uid == os.geteuid():
            parent.chmod(0o755)
    with ExitStack() as stack:
        there = Outside(folder)
        stack.callback(there.close)
        os.environ["TRAINSMITH_TEST_MARK"] = there.mark
        stack.callback(os.environ.pop, "TRAINSMITH_TEST_MARK")
        yield there
