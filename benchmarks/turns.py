"""Sides of a comparison that take turns: processes of `side.py`, one of them at work at a time."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import trainsmith.engine  # noqa: F401 - settles how threads wait, for all sides alike
from trainsmith.records import Record

T = TypeVar("T")
ROOT = Path(__file__).parents[1]


class SideFailed(Exception):
    """A side's process ended; what it said stands on stderr."""


class Turn(Record):
    """One measured turn of one side."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds of all the process's threads."""
    tokens: int
    memory: int
    """Bytes: the most resident during the turn; 0 where the system does not tell."""
    gpu_memory: int = 0
    """Bytes that torch reserved on the GPU at most; 0 without one."""
    life_cpu: float = 0.0
    """`cpu` since the process began."""
    life_memory: int = 0
    """`memory` since the process began."""


class Speeds(Record):
    """All turns of one side: medians, with the lowest and the highest wall time."""

    side: str
    n: int
    tokens: int
    """New tokens of a turn."""
    wall: float
    wall_low: float
    wall_high: float
    cpu: float
    memory: int
    """The most of any turn, bytes."""
    gpu_memory: int

    @property
    def per_wall_second(self) -> float:
        """New tokens."""
        return self.tokens / self.wall

    @property
    def per_cpu_second(self) -> float:
        """New tokens."""
        return self.tokens / self.cpu


class Side:
    """A side's process. Use as a context manager; leaving it ends the process."""

    def __init__(self, name: str, function: str, spec: str, *, threads: int) -> None:
        """`function` is `module:function`, `spec` its settings as JSON."""
        self.name = name
        self._began = time.perf_counter()
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.side", function, spec],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=ROOT,
        )
        self._answer()

    def __enter__(self) -> Side:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.kill()
        self.close()

    def close(self) -> None:
        """Give no more turns and wait until the process has ended."""
        assert self._process.stdin and self._process.stdout
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    @property
    def age(self) -> float:
        """Seconds since the process was started."""
        return time.perf_counter() - self._began

    def turn(self, order: str = "") -> Turn:
        """Let it work once. Raises SideFailed."""
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise SideFailed(self.name) from None
        return Turn.model_validate_json(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise SideFailed(f"{self.name} ended with status {self._process.wait()}")
        return line


def take_turns(sides: Sequence[Side], repeats: int, order: str = "", *, warm_up: int = 1) -> list[Speeds]:
    """Each side `warm_up` turns that do not count, then `repeats` rounds in which all work once."""
    for side in sides:
        for _ in range(warm_up):
            side.turn(order)
    rounds = [[side.turn(order) for side in _from(sides, number)] for number in range(repeats)]
    # The one that begins changes from round to round; put the turns back in the sides' order.
    ordered = [list(_from(turns, -number)) for number, turns in enumerate(rounds)]
    return [speeds(side.name, turns) for side, turns in zip(sides, zip(*ordered, strict=True), strict=True)]


def _from(items: Sequence[T], first: int) -> Iterator[T]:
    """All items, beginning at one of them and going round."""
    first %= len(items)
    yield from items[first:]
    yield from items[:first]


def speeds(name: str, turns: Sequence[Turn]) -> Speeds:
    """Medians of turns that did the same work."""
    (tokens,) = {turn.tokens for turn in turns}
    walls = [turn.wall for turn in turns]
    return Speeds(
        side=name,
        n=len(turns),
        tokens=tokens,
        wall=statistics.median(walls),
        wall_low=min(walls),
        wall_high=max(walls),
        cpu=statistics.median(turn.cpu for turn in turns),
        memory=max(turn.memory for turn in turns),
        gpu_memory=max(turn.gpu_memory for turn in turns),
    )
