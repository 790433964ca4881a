"""What every trainer is asked to do, and the protocol behind which trainers are exchanged."""

from __future__ import annotations

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


class Trainer(Protocol):
    """Trains a resolved job and leaves safetensors weights."""

    async def train(self, order: TrainOrder) -> TrainOutcome:
        """Train.

        The author's mistakes are statuses of the outcome; a MachineError is raised and makes the job void.
        Cancellation ends every process of the job.
        """
