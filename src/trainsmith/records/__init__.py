"""Frozen records that cross module borders. Nothing here imports torch or does I/O."""

from trainsmith.records.base import Record
from trainsmith.records.message import Message, Role
from trainsmith.records.probe import Check, ProbeReport, Verdict
from trainsmith.records.result import (
    BestBase,
    JobResult,
    RewardParts,
    Seconds,
    Seeds,
    Status,
    TrainOutcome,
)
from trainsmith.records.score import Difference, HiddenScore, Interval
from trainsmith.records.task import Budget, EpisodeLimits, Evaluation, Item, Task, Tier

__all__ = [
    "BestBase",
    "Budget",
    "Check",
    "Difference",
    "EpisodeLimits",
    "Evaluation",
    "HiddenScore",
    "Interval",
    "Item",
    "JobResult",
    "Message",
    "ProbeReport",
    "Record",
    "RewardParts",
    "Role",
    "Seconds",
    "Seeds",
    "Status",
    "Task",
    "Tier",
    "TrainOutcome",
    "Verdict",
]
