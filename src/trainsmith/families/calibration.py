"""What the untrained bases score, measured once and shipped: `calibration.json`.

`benchmarks/calibrate.py` makes the file. Not here: measuring (it needs a model), and the hidden items of this
machine's own secret, on which the grader measures anew.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from trainsmith.records import Interval, Record


class Untrained(Record):
    """One base on one task, before any training."""

    task: str
    base: str
    revision: str
    """Of the base."""
    greedy: Interval
    """Hidden score with greedy replies."""
    sampled: float
    """Mean score at temperature 1."""
    pass_at_8: float
    """Share of questions that at least one of eight replies at temperature 1 answers."""
    usable_groups: float
    """Share of questions whose eight replies differ in score: what GRPO can learn from."""
    sampled_questions: int
    """Questions behind the three figures above."""
    guess: float
    """Score of the best constant reply."""


class Lift(Record):
    """The reference job on one task with one training seed, on hidden items."""

    task: str
    base: str
    seed: int
    before: float
    after: float
    low: float
    high: float
    """95 % interval of the paired difference."""
    n: int
    lr: float
    steps: int
    tokens: int
    """Generated plus trained."""
    seconds: float
    """Wall seconds of training on the machine of the calibration."""


class Calibration(Record):
    """The shipped file."""

    versions: dict[str, str]
    """Packages that made it."""
    untrained: tuple[Untrained, ...] = ()
    lifts: tuple[Lift, ...] = ()


@cache
def calibration() -> Calibration:
    """The shipped figures."""
    text = files("trainsmith.families").joinpath("calibration.json").read_text(encoding="utf-8")
    return Calibration.model_validate_json(text)
