"""Hidden scores of a model, and what training changed.

Both sides of a comparison see the same items, seeds, sampling and token budget; the tokenizer and the chat
template are always the pinned base's. Hidden text stays in here: a `HiddenScore` holds numbers only.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from trainsmith import families
from trainsmith.config.grading import GradingConfig
from trainsmith.grading.answers import Sampler, answer
from trainsmith.grading.statistics import mean_interval, paired_difference
from trainsmith.records import Difference, HiddenScore, Interval, Item, Task


def grade(
    sampler: Sampler, task: Task, items: Sequence[Item], *, model: str, config: GradingConfig
) -> HiddenScore:
    """Score the weights that `sampler` holds now on all `items`.

    `model` names them in records: the base's id and revision, or the hash of trained weights.
    """
    started = time.monotonic()
    answers = answer(sampler, task, items, config.seed)
    return HiddenScore(
        model=model,
        items=families.items_key(tuple(items)),
        scores=tuple(each.score for each in answers),
        generated_tokens=sum(each.tokens for each in answers),
        seconds=time.monotonic() - started,
    )


def summary(score: HiddenScore, config: GradingConfig) -> Interval:
    """The mean hidden score with its interval over items."""
    return mean_interval(score.scores, config.level)


def compare(pre: HiddenScore, post: HiddenScore, config: GradingConfig) -> Difference:
    """The paired difference `post - pre`, with its interval over items.

    Raises ValueError if the two were not scored on the same items.
    """
    if pre.items != post.items:
        raise ValueError(f"scores of other items cannot be paired: {pre.items} and {post.items}")
    return paired_difference(pre.scores, post.scores, config.level)
