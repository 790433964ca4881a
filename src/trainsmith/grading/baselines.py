"""Hidden scores of the untrained bases: measured once, then answered from a store.

The store is whoever keeps scores (the ledger does); this module says what a stored score depends on.
Scores of trained weights may be kept under the same kind of key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from trainsmith.config.grading import GradingConfig
from trainsmith.records import BaseMean, HiddenScore, Record, Task


class ScoreKey(Record):
    """All that a hidden score depends on."""

    task: str
    model: str
    """Base id, or a job's identity."""
    revision: str
    """The base's revision, or the sha256 of the trained weights."""
    items: str
    """Fingerprint of the hidden items."""
    evaluation: str
    """Fingerprint of prompt, sampling, seed and engine."""


class KeptScore(Record):
    """A hidden score with its key."""

    key: ScoreKey
    score: HiddenScore

    @property
    def is_base(self) -> bool:
        """True for an untrained base, whose score is named by its id and revision."""
        return self.score.model == f"{self.key.model}@{self.key.revision}"


class BaseScore(Record):
    """One untrained base with its hidden score."""

    base: str
    score: HiddenScore

    @property
    def mean(self) -> float:
        """Mean hidden score."""
        return sum(self.score.scores) / len(self.score.scores)


class ScoreStore(Protocol):
    """Where hidden scores are kept."""

    def score(self, key: ScoreKey) -> HiddenScore | None:
        """The kept score, if there is one."""

    def keep_score(self, key: ScoreKey, score: HiddenScore) -> None:
        """Keep a score; the first one kept stays."""


def score_key(
    task: Task, model: str, revision: str, items: str, config: GradingConfig, *, engine: str = ""
) -> ScoreKey:
    """The key under which a hidden score is kept.

    `engine` names what else may move a token (device, precision), if the caller wants scores of several
    engines kept apart.
    """
    prefix = "".join(message.model_dump_json() for message in task.prefix)
    parts = "\x1f".join((prefix, task.evaluation.model_dump_json(), str(config.seed), engine))
    evaluation = hashlib.sha256(parts.encode()).hexdigest()[:16]
    return ScoreKey(task=task.id, model=model, revision=revision, items=items, evaluation=evaluation)


async def baselines(
    keys: Sequence[ScoreKey], store: ScoreStore, measure: Callable[[str], Awaitable[HiddenScore]]
) -> tuple[BaseScore, ...]:
    """Scores of all `keys`, in order and one after the other; `measure(base id)` makes what is not kept."""
    found = []
    for key in keys:
        score = store.score(key)
        if score is None:
            score = await measure(key.model)
            store.keep_score(key, score)
        found.append(BaseScore(base=key.model, score=score))
    return tuple(found)


def best(scores: Sequence[BaseScore]) -> BaseMean:
    """The best untrained base; of equals, the first."""
    top = max(scores, key=lambda each: each.mean)
    return BaseMean(name=top.base, mean=top.mean)
