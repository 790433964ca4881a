"""Frozen records that cross module borders. Nothing here imports torch or does I/O."""

from trainsmith.records.base import Record
from trainsmith.records.episode import (
    BaselineScore,
    Briefing,
    EpisodeRecord,
    FileEntry,
    Observation,
    Start,
)
from trainsmith.records.message import Message, Role
from trainsmith.records.probe import Check, ProbeReport, Verdict
from trainsmith.records.result import (
    BaseMean,
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
    "BaseMean",
    "BaselineScore",
    "Briefing",
    "Budget",
    "Check",
    "Difference",
    "EpisodeLimits",
    "EpisodeRecord",
    "Evaluation",
    "FileEntry",
    "HiddenScore",
    "Interval",
    "Item",
    "JobResult",
    "Message",
    "Observation",
    "ProbeReport",
    "Record",
    "RewardParts",
    "Role",
    "Seconds",
    "Seeds",
    "Start",
    "Status",
    "Task",
    "Tier",
    "TrainOutcome",
    "Verdict",
]
