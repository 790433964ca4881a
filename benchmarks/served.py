"""A `trainsmith engine serve` of one's own, for as long as a benchmark lasts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from trainsmith.errors import MachineError
from trainsmith.records import Record

_END_SECONDS = 60


class Address(Record):
    """What the server says of itself when it is ready."""

    url: str
    token: str
    model: str


class Served:
    """A running server."""

    def __init__(self, address: Address, process: subprocess.Popen[str]) -> None:
        self.address = address
        self._process: Any = psutil.Process(process.pid)

    def resident(self) -> int:
        """Bytes of the server's process that are in memory now."""
        return int(self._process.memory_info().rss)

    def cpu_seconds(self) -> float:
        """CPU time that the server's process has taken."""
        times = self._process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def serving(base: str, state: Path, *settings: str) -> Iterator[Served]:
    """Start a server of `base` that keeps its state in `state`; end it on leaving."""
    command = [sys.executable, "-m", "trainsmith.cli", "engine", "serve", "--json", "--base", base]
    process = subprocess.Popen(
        [*command, "--state", str(state), *settings], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    try:
        line = process.stdout.readline()
        if not line:
            raise MachineError(f"the server ended with status {process.wait()}", where="engine serve")
        yield Served(Address.model_validate(json.loads(line)), process)
    finally:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
