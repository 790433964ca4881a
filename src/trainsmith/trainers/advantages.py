"""Advantages of the rollouts of one group, defined as prime-rl 0.8 defines them.

GRPO: reward minus the group's mean, no division by the deviation; MaxRL (arXiv:2602.02710): that, divided by
the mean.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainsmith.jobs.schema import Algo, LengthPenalty, MaxRl
from trainsmith.rollout.records import Episode


def advantages(episodes: Sequence[Episode], algo: Algo) -> list[float]:
    """One advantage an episode, in order; all episodes belong to one group.

    A group without signal (equal rewards, or for MaxRL a mean of at most 0) gives zeros.
    """
    rewards = [episode.reward for episode in episodes]
    if isinstance(algo, MaxRl):
        return _max_rl(rewards)
    if algo.length_penalty is not None:
        rewards = _penalised(episodes, rewards, algo.length_penalty)
    return _centred(rewards)


def _centred(values: Sequence[float]) -> list[float]:
    if max(values) == min(values):
        return [0.0] * len(values)  # exactly: the mean of equal floats may differ from them by rounding
    mean = sum(values) / len(values)
    return [value - mean for value in values]


def _max_rl(rewards: Sequence[float]) -> list[float]:
    mean = sum(rewards) / len(rewards)
    return [0.0] * len(rewards) if mean <= 0 else [value / mean for value in _centred(rewards)]


def _penalised(episodes: Sequence[Episode], rewards: Sequence[float], penalty: LengthPenalty) -> list[float]:
    """Subtract mean reward x (weighted sum of each quantity as a fraction of the group's largest)."""
    outputs = _fractions([episode.output_tokens for episode in episodes])
    inputs = _fractions([episode.total_tokens - episode.output_tokens for episode in episodes])
    turns = _fractions([episode.turns for episode in episodes])
    mean = sum(rewards) / len(rewards)
    return [
        reward
        - mean
        * (
            penalty.num_output_tokens_weight * output
            + penalty.num_input_tokens_weight * read
            + penalty.num_turns_weight * turn
        )
        for reward, output, read, turn in zip(rewards, outputs, inputs, turns, strict=True)
    ]


def _fractions(counts: Sequence[int]) -> list[float]:
    largest = max(1, *counts) if counts else 1
    return [count / largest for count in counts]
