"""How every benchmark tells its figures: a table on stderr for people, JSON on stdout or in a file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import Machine
from benchmarks.turns import Speeds
from trainsmith.records import Record


class Comparison(Record):
    """The same work on several sides; the first is ours."""

    name: str
    threads: int
    dtype: str
    prompt_tokens: int
    """Of the longest prompt."""
    sides: tuple[Speeds, ...]

    def ratio(self, side: Speeds) -> float:
        """How many times as fast as that side ours is, in wall time."""
        return side.wall / self.sides[0].wall

    def ratio_cpu(self, side: Speeds) -> float:
        """The same in CPU time."""
        return side.cpu / self.sides[0].cpu


class Document(Record):
    """What a benchmark writes."""

    benchmark: str
    machine: Machine
    rows: tuple[Comparison, ...]

    def as_json(self) -> str:
        """With the ratios, which follow from the rest."""
        rows = [
            row.model_dump()
            | {
                "ratios": {
                    side.side: {"wall": round(row.ratio(side), 3), "cpu": round(row.ratio_cpu(side), 3)}
                    for side in row.sides[1:]
                }
            }
            for row in self.rows
        ]
        return _json(self.model_dump(exclude={"rows"}) | {"rows": rows})


def _json(document: object) -> str:
    import json

    return json.dumps(document, indent=1)


def parser(text: str | None) -> argparse.ArgumentParser:
    """A command line with what all benchmarks have."""
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--repeats", type=int, default=5)
    made.add_argument("--json", type=Path, help="write JSON to this file instead of stdout")
    return made


def write(document: str, file: Path | None) -> None:
    """The JSON, to a file or to stdout."""
    if file:
        file.write_text(document + "\n", encoding="utf-8")
    else:
        print(document)


def show(title: str, rows: Sequence[Comparison]) -> None:
    """A table: for every piece of work a line a side."""
    print(f"\n{title}", file=sys.stderr)
    print(
        f"{'work':>22} {'thr':>3} {'type':>8} {'side':<24} {'n':>2} {'wall s [low, high]':>26} {'cpu s':>8} "
        f"{'tok/s':>8} {'peak MB':>8} {'ours: wall':>10} {'cpu':>6}",
        file=sys.stderr,
    )
    for row in rows:
        for side in row.sides:
            print(_line(row, side), file=sys.stderr)


def _line(row: Comparison, side: Speeds) -> str:
    spread = f"{side.wall:.3f} [{side.wall_low:.3f}, {side.wall_high:.3f}]"
    memory = (side.gpu_memory or side.memory) / 2**20
    ratios = "" if side is row.sides[0] else f"{row.ratio(side):>9.2f}x {row.ratio_cpu(side):>5.2f}x"
    return (
        f"{row.name:>22} {row.threads:>3} {row.dtype:>8} {side.side:<24} {side.n:>2} {spread:>26} "
        f"{side.cpu:>8.2f} {side.per_wall_second:>8.0f} {memory:>8.0f} {ratios}".rstrip()
    )
