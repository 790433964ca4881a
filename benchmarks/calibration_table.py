"""Writes the tables of `docs/families.md` from the shipped `calibration.json`.

python -m benchmarks.calibration_table
"""

from __future__ import annotations

import re
from pathlib import Path

from trainsmith.cli.summaries import interval
from trainsmith.families.calibration import Calibration, Lift, Untrained, calibration
from trainsmith.files import write_atomic

DOCUMENT = Path(__file__).parents[1] / "docs" / "families.md"

_UNTRAINED = """| task | base | greedy | sampled | pass@8 | usable groups | guess |
|---|---|---|---|---|---|---|"""
_LIFTS = """| task | base | lr | steps | seed | before | after | difference [95 %] | tokens | seconds |
|---|---|---|---|---|---|---|---|---|---|"""


def written(document: str, figures: Calibration) -> str:
    """The document with both tables as the figures have them."""
    document = _replaced(document, "untrained", [_UNTRAINED, *map(_untrained, figures.untrained)])
    return _replaced(document, "lifts", [_LIFTS, *map(_lift, figures.lifts)])


def _replaced(document: str, name: str, lines: list[str]) -> str:
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    table = "\n".join([begin, *lines, end])
    return re.sub(f"{begin}.*?{end}", lambda _: table, document, flags=re.DOTALL)


def _untrained(row: Untrained) -> str:
    return (
        f"| {row.task} | {row.base} | {interval(row.greedy)} | {row.sampled:.2f} | {row.pass_at_8:.2f} "
        f"| {row.usable_groups:.2f} | {row.guess:.2f} |"
    )


def _lift(row: Lift) -> str:
    return (
        f"| {row.task} | {row.base} | {row.lr:g} | {row.steps} | {row.seed} | {row.before:.3f} "
        f"| {row.after:.3f} | {row.after - row.before:+.3f} [{row.low:+.3f}, {row.high:+.3f}] n={row.n} "
        f"| {row.tokens} | {row.seconds:.0f} |"
    )


if __name__ == "__main__":
    write_atomic(DOCUMENT, written(DOCUMENT.read_text(encoding="utf-8"), calibration()))
