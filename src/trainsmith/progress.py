"""What a long command says while it works: typed events for whoever shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """Where a piece of work stands."""

    FETCH = "fetch"
    AGENT = "agent"
    PROBE = "probe"
    BASELINE = "baseline"
    TRAIN = "train"
    GRADE = "grade"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Progress:
    """One moment of one phase. `step` of `steps` is 0 of 0 where a phase has no steps."""

    phase: Phase
    message: str = ""
    step: int = 0
    steps: int = 0
    reward: float | None = None
    tokens_per_second: float | None = None
    seconds_left: float | None = None


Listener = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Show nothing."""
