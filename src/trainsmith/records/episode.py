"""One episode as its agent and its readers see it: briefing, observations, baseline scores, the record."""

from __future__ import annotations

from enum import StrEnum

from trainsmith.records.base import Record
from trainsmith.records.probe import ProbeReport
from trainsmith.records.result import JobResult, RewardParts, Status
from trainsmith.records.score import Interval
from trainsmith.records.task import Task


class Start(StrEnum):
    """What the workspace holds when the agent enters it, beside the guide."""

    EMPTY = "empty"
    SKELETON = "skeleton"
    """Commented files that do not pass the probe."""
    WORKING = "working"
    """A mediocre job that passes the probe."""


class FileEntry(Record):
    """One file of the workspace."""

    path: str
    """Relative, with `/` between folders."""
    size: int
    """Bytes."""
    read_only: bool = False


class BaselineScore(Record):
    """The hidden score of one untrained base model of the task."""

    base: str
    score: Interval


class Observation(Record):
    """What the agent sees after one action."""

    text: str
    ok: bool
    """False when the action was refused or failed; `text` then says how to mend it."""
    done: bool
    """True when the episode takes no more actions."""
    turns_left: int
    validations_left: int


class Briefing(Record):
    """What the agent sees before its first action. Nothing here is hidden from it, nothing more is shown."""

    episode: str
    task: Task
    start: Start
    files: tuple[FileEntry, ...]
    text: str
    """Markdown: the task's brief, examples, bases, budget and the rules of the episode."""


class EpisodeRecord(Record):
    """One finished episode."""

    id: str
    task: str
    agent: str
    start: Start
    status: Status
    """The job's status; `invalid` if nothing valid was submitted; `void` if the infrastructure failed."""
    reason: str = ""
    turns: int
    validations: int
    """Probes spent."""
    validation_attempt: int | None = None
    """The k of the reward: number of the first probe that passed; None if none did."""
    probes: tuple[ProbeReport, ...] = ()
    """Reports of all spent probes, in order."""
    job: str = ""
    """Folder of the submitted job, relative to the episode's; empty if nothing valid was submitted."""
    result: JobResult | None = None
    reward: RewardParts | None = None
    """None only when void: a fault of the infrastructure is never a 0."""
    files: tuple[FileEntry, ...] = ()
    """The workspace at the end."""
    seconds: float = 0.0
    """Wall seconds, the job's included."""
