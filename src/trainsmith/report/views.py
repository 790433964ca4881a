"""What the page shows, read from a run and ready to print. Every part may be missing but the names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trainsmith.episode.trace import Turn
from trainsmith.grading.examples import Examples
from trainsmith.ledger import EpisodeState
from trainsmith.records import EpisodeRecord, Interval, JobResult, Task
from trainsmith.trainers.metrics import StepMetrics
from trainsmith.versions import Versions


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One text file of a job."""

    path: str
    text: str
    """Cut at a limit; empty if the file is no text."""
    note: str
    """What of the file is not shown, if something is not."""

    @property
    def lines(self) -> list[str]:
        """The text by lines."""
        return self.text.splitlines()


@dataclass(frozen=True, slots=True)
class ModelScore:
    """One model's hidden score on the job's items."""

    name: str
    """Base id."""
    interval: Interval
    chosen: bool
    """True for the base that the job trained."""
    trained: bool = False


@dataclass(frozen=True, slots=True)
class ItemFlow:
    """Hidden items by their outcome before and after; only where scores are 0/1."""

    kept: int
    won: int
    lost: int
    missed: int


@dataclass(frozen=True, slots=True)
class JobView:
    """One job with everything that is on disk about it."""

    result: JobResult
    task: Task | None
    """None if the task's family is not installed here."""
    steps: tuple[StepMetrics, ...]
    examples: Examples | None
    files: tuple[SourceFile, ...]
    models: tuple[ModelScore, ...]
    flow: ItemFlow | None
    versions: Versions | None
    detailed: bool = True
    """False if only the overview shows it."""

    @property
    def identity(self) -> str:
        """The job's content hash."""
        return self.result.job


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """One episode with its job."""

    id: str
    agent: str
    task_id: str
    state: EpisodeState
    task: Task | None
    record: EpisodeRecord | None
    """None while the episode runs, or if it was cut off."""
    turns: tuple[Turn, ...]
    files: tuple[SourceFile, ...]
    """The submitted job, or the workspace at the end."""
    job: JobView | None
    detailed: bool = True
    """False if only the overview shows it."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that one page shows."""

    run: str
    made_at: datetime
    level: float
    """Confidence level of the intervals."""
    episodes: tuple[EpisodeView, ...]
    jobs: tuple[JobView, ...]
    """Jobs without an episode."""
