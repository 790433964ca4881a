"""How the canned replies stand to each other: mean rewards, and which field, if any, is the right answer.

A field counts as the answer only if a task's own value earns more than another task's value in the same form:
a reward that cannot tell these apart says nothing about which reply is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trainsmith.probe.averages import mean
from trainsmith.probe.observations import HOLLOW, Observations, ReplyKind, Scored, rewarded

APART = 0.1
"""Share of the spread of all means by which the own value must beat a swapped one."""
TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean reward of one canned reply over its tasks."""

    kind: ReplyKind
    form: str
    reward: float
    example: Scored
    """The rollout with the highest reward."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Means by reply, and the scale on which they are compared."""

    means: tuple[Mean, ...]
    low: float
    """The lowest mean of any reply."""
    reference: Mean | None
    """The field and form that earn most, when they are known to be the answer."""
    swapped: Mean | None
    """The same form with another task's value."""

    @property
    def hollow(self) -> tuple[Mean, ...]:
        """Replies without content, the best first."""
        found = [mean for mean in self.means if mean.kind in HOLLOW]
        return tuple(sorted(found, key=lambda mean: -mean.reward))

    @property
    def high(self) -> float:
        """The highest mean of any reply."""
        return max((mean.reward for mean in self.means), default=0.0)

    def share(self, reward: float, best: float) -> float:
        """Where `reward` lies between the lowest mean (0) and `best` (1); 0 if these are equal."""
        return (reward - self.low) / (best - self.low) if best - self.low > TINY else 0.0


def standing(seen: Observations) -> Standing:
    """Sum up the canned rollouts of the first process; those without a reward are left out."""
    means = tuple(_means(seen.scores))
    judged = [mean for mean in means if mean.kind is not ReplyKind.STRESS]
    low = min((mean.reward for mean in judged), default=0.0)
    high = max((mean.reward for mean in judged), default=0.0)
    reference, swapped = _reference(judged, APART * (high - low))
    return Standing(means, low, reference, swapped)


def _means(scores: Iterable[Scored]) -> Iterable[Mean]:
    groups: dict[tuple[ReplyKind, str], list[tuple[Scored, float]]] = {}
    for scored, reward in rewarded(scores):
        groups.setdefault((scored.reply.kind, scored.reply.form), []).append((scored, reward))
    for (kind, form), group in groups.items():
        example, _ = max(group, key=lambda pair: pair[1])
        yield Mean(kind, form, mean(reward for _, reward in group), example)


def _reference(means: Iterable[Mean], margin: float) -> tuple[Mean | None, Mean | None]:
    wrong = {mean.form: mean for mean in means if mean.kind is ReplyKind.SWAPPED}
    right = [
        mean
        for mean in means
        if mean.kind is ReplyKind.FIELD
        and mean.form in wrong
        and mean.reward - wrong[mean.form].reward > max(margin, TINY)
    ]
    if not right:
        return None, None
    best = max(right, key=lambda mean: mean.reward)
    return best, wrong[best.form]


def best_forms(scores: Iterable[Scored], count: int) -> tuple[str, ...]:
    """The forms of fields that earned most, to be tried on further tasks; the author's order breaks ties."""
    means = [mean for mean in _means(scores) if mean.kind is ReplyKind.FIELD]
    return tuple(mean.form for mean in sorted(means, key=lambda mean: -mean.reward)[:count])
