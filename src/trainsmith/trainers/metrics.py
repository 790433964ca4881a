"""`metrics.jsonl`: one line a training step."""

from __future__ import annotations

from pathlib import Path

from trainsmith.records import Record


class StepMetrics(Record):
    """One optimiser step. Means are over the step's rollouts or its trained tokens."""

    step: int
    """From 1."""
    reward_mean: float
    reward_std: float
    groups: int
    usable_groups: int
    """Groups whose advantages are not all zero."""
    rollouts: int
    failed_rollouts: int
    generated_tokens: int
    trained_tokens: int
    loss: float = 0.0
    entropy: float = 0.0
    """Nats a token, of the learner's distribution."""
    mismatch_kl: float = 0.0
    """KL between sampler and learner, estimated by ratio - 1 - log ratio."""
    grad_norm: float = 0.0
    """Before clipping."""
    masked_fraction: float = 0.0
    """Share of tokens outside the loss's trust region."""
    lr: float = 0.0
    rollout_seconds: float
    update_seconds: float = 0.0
    tokens_per_second: float
    """Generated tokens over rollout seconds."""


class MetricsFile:
    """Appends steps; each line is on disk before the next step begins."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8", buffering=1)

    def append(self, step: StepMetrics) -> None:
        """Write one line."""
        self._file.write(step.model_dump_json() + "\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read(path: Path) -> tuple[StepMetrics, ...]:
    """All whole steps of a metrics file; a last line cut by a crash is left out."""
    if not path.exists():
        return ()
    lines = path.read_text(encoding="utf-8").split("\n")
    return tuple(StepMetrics.model_validate_json(line) for line in lines[:-1] if line)
