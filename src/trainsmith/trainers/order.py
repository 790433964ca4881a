"""What every trainer is asked to do, and the protocol behind which trainers are exchanged."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trainsmith.jobs.resolution import ResolvedJob
from trainsmith.progress import Listener, silent
from trainsmith.records import Task, TrainOutcome


@dataclass(frozen=True, slots=True)
class TrainOrder:
    """One job to train."""

    job: ResolvedJob
    folder: Path
    """A snapshot of the job folder; nobody else writes there."""
    task: Task
    output: Path
    """Where metrics, logs and weights go."""
    listen: Listener = silent


class PreparedJob(Protocol):
    """A job whose environment opens while it waits for its turn."""

    async def set_up(self) -> None:
        """Make everything ready for the first step, when nobody else uses the policies any more.

        The author's mistakes are told by `train`; a MachineError is raised.
        """

    async def train(self) -> TrainOutcome:
        """Train, once only; sets up first where that has not been done.

        The author's mistakes are statuses of the outcome; a MachineError is raised and makes the job void.
        Cancellation ends every process of the job.
        """


class Trainer(Protocol):
    """Trains resolved jobs and leaves safetensors weights."""

    def prepare(self, order: TrainOrder) -> AbstractAsyncContextManager[PreparedJob]:
        """Begin whatever needs no turn. Leaving the context ends every process of the job."""
