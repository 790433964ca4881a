"""The result of a job: what `result.json` holds."""

from __future__ import annotations

from enum import StrEnum

from trainsmith.records.base import Record
from trainsmith.records.score import Difference, Interval


class Status(StrEnum):
    """How a job ended."""

    OK = "ok"
    INVALID = "invalid"
    FAILED = "failed"
    NO_SIGNAL = "no_signal"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    VOID = "void"
    """The infrastructure failed; the job is not scored."""


class Seeds(Record):
    """Seeds of training and of the evaluation, apart."""

    train: int
    evaluation: int = 0


class Seconds(Record):
    """Wall seconds by phase."""

    queue: float = 0.0
    setup: float = 0.0
    train: float = 0.0
    grade: float = 0.0


class BaseMean(Record):
    """An untrained base of the task with its mean on the same hidden items."""

    name: str
    mean: float


class RewardParts(Record):
    """The reward and its parts, each in [0, 1]."""

    total: float
    validation: float
    quality: float
    speed: float


class TrainOutcome(Record):
    """What a trainer hands to the grader."""

    status: Status
    reason: str = ""
    steps: int = 0
    rollouts: int = 0
    generated_tokens: int = 0
    trained_tokens: int = 0
    setup_seconds: float = 0.0
    train_seconds: float = 0.0
    weights: str = ""
    """Path of the safetensors file; empty when nothing was trained."""

    @property
    def tokens(self) -> int:
        """Generated plus trained tokens."""
        return self.generated_tokens + self.trained_tokens


class JobResult(Record):
    """One finished job."""

    task: str
    job: str
    """Content hash: the job's identity."""
    status: Status
    reason: str = ""
    base_model: str
    base_revision: str
    trainer: str
    seeds: Seeds
    items: str = ""
    """Fingerprint of the hidden items."""
    level: float = 0.95
    """Confidence level of the intervals."""
    pre: Interval | None = None
    post: Interval | None = None
    uplift: Difference | None = None
    best_base: BaseMean | None = None
    bases: tuple[BaseMean, ...] = ()
    """All untrained bases of the task; the reward's baseline is one of them."""
    steps: int = 0
    rollouts: int = 0
    tokens: int = 0
    seconds: Seconds = Seconds()
    cost_usd: float = 0.0
    reward: RewardParts | None = None
