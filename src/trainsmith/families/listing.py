"""The table of tasks: one a kind, with what the untrained bases score."""

from __future__ import annotations

from trainsmith.families.calibration import calibration
from trainsmith.families.registry import families
from trainsmith.records import BaselineScore, Record, Tier


class TaskRow(Record):
    """One kind's first task."""

    id: str
    family: str
    tier: Tier
    skill: str
    baselines: tuple[BaselineScore, ...]
    """Calibrated scores of the untrained bases; empty if the kind was not calibrated."""


def listing() -> tuple[TaskRow, ...]:
    """All kinds, by family, from what ships: no model is run."""
    scores: dict[str, list[BaselineScore]] = {}
    for found in calibration().untrained:
        scores.setdefault(found.task, []).append(BaselineScore(base=found.base, score=found.greedy))
    return tuple(
        TaskRow(
            id=(task := f"{family.name}/{kind.name}@0"),
            family=family.name,
            tier=kind.tier,
            skill=kind.skill,
            baselines=tuple(scores.get(task, ())),
        )
        for family in families()
        for kind in family.kinds
    )
