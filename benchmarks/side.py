"""One side of a comparison in a process of its own: `python -m benchmarks.side MODULE:FUNCTION SPEC`.

The parent (`turns.py`) says when a turn begins, so that two sides never run at once; each has its own peak
of memory. A side is a function of its settings (JSON) and `Turns`, of which it calls `next`, `start`, `stop`.
Orders are lines on stdin, answers lines to what was stdout; all that a library prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TextIO

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


class Turns:
    """The turns that the parent gives this side."""

    def __init__(self, orders: TextIO, answers: TextIO) -> None:
        self._orders, self._answers = orders, answers
        self._wall = self._cpu = 0.0
        self._life_peak = 0

    def next(self) -> str | None:
        """Wait for the next order; None when there is none left."""
        return json.loads(line) if (line := self._orders.readline()) else None

    def start(self) -> None:
        """The measured part begins; what came before since `next` was preparation."""
        self._life_peak = max(self._life_peak, _peak())
        _forget_peak()
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def stop(self, tokens: int) -> None:
        """The measured part ends; it made `tokens` new tokens."""
        _finish_gpu()
        wall, life_cpu, memory = time.perf_counter() - self._wall, time.process_time(), _peak()
        self._life_peak = max(self._life_peak, memory)
        self._answer(
            {
                "wall": wall,
                "cpu": life_cpu - self._cpu,
                "tokens": tokens,
                "memory": memory,
                "gpu_memory": _gpu_peak(),
                "life_cpu": life_cpu,
                "life_memory": self._life_peak,
            }
        )

    def ready(self) -> None:
        """The process has started."""
        self._answer({})

    def _answer(self, document: dict[str, float]) -> None:
        self._answers.write(json.dumps(document) + "\n")
        self._answers.flush()


def _finish_gpu() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _forget_peak() -> None:
    _finish_gpu()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()
    if _CLEAR.exists():
        _CLEAR.write_text("5")


def _peak() -> int:
    """Bytes: the most that this process has had resident since the last start; 0 where that is unknown."""
    if not _STATUS.exists():
        return 0
    lines = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines() if ":" in line)
    return int(lines["VmHWM"].split()[0]) * 1024


def _gpu_peak() -> int:
    """Bytes that torch reserved of a GPU at most since the last start."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return 0
    return int(torch.cuda.max_memory_reserved())


def main() -> None:
    """Run the side that the command line names."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module, function = sys.argv[1].split(":")
    turns = Turns(sys.stdin, answers)
    turns.ready()
    getattr(import_module(module), function)(sys.argv[2], turns)


if __name__ == "__main__":
    main()
