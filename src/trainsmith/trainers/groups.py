"""From rollouts to training sequences: groups, their rewards, their advantages."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from trainsmith.engine.records import Trajectory
from trainsmith.jobs.schema import Algo
from trainsmith.rollout.records import Episode, Rollout
from trainsmith.trainers.advantages import advantages


@dataclass(frozen=True, slots=True)
class Batch:
    """The rollouts of one step, credited."""

    rollouts: int
    failed: int
    first_error: str
    """Why the first failed rollout failed; empty when none did."""
    groups: int
    usable_groups: int
    reward_mean: float
    reward_std: float
    generated_tokens: int
    trajectories: tuple[Trajectory, ...]
    """What the learner gets."""

    @property
    def trained_tokens(self) -> int:
        """Sampled tokens that the learner gets."""
        return sum(sum(trajectory.mask) for trajectory in self.trajectories)


def credit(
    rollouts: Sequence[Rollout], algo: Algo, *, temperature: float, filter_zero_advantages: bool
) -> Batch:
    """Group rollouts by task index, leave failed ones out, and give every sequence its advantage."""
    errors = [rollout.error for rollout in rollouts if rollout.error]
    groups = _groups(rollouts)
    rewards = [episode.reward for group in groups for episode in group]
    trajectories: list[Trajectory] = []
    usable = 0
    for group in groups:
        credits = advantages(group, algo)
        signal = any(credits)
        usable += signal
        if signal or not filter_zero_advantages:
            trajectories += [
                branch.trajectory(advantage, temperature)
                for episode, advantage in zip(group, credits, strict=True)
                for branch in episode.branches
            ]
    return Batch(
        rollouts=len(rollouts),
        failed=len(errors),
        first_error=errors[0] if errors else "",
        groups=len(groups),
        usable_groups=usable,
        reward_mean=statistics.fmean(rewards) if rewards else 0.0,
        reward_std=statistics.pstdev(rewards) if rewards else 0.0,
        generated_tokens=sum(episode.output_tokens for group in groups for episode in group),
        trajectories=tuple(trajectories),
    )


def _groups(rollouts: Sequence[Rollout]) -> list[list[Episode]]:
    """Episodes of one task index together, in the order of the rollouts; empty groups are left out."""
    by_index: dict[int, list[Episode]] = {}
    for rollout in rollouts:
        by_index.setdefault(rollout.key.index, []).extend(rollout.episodes)
    return [group for group in by_index.values() if group]
