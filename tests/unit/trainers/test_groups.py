"""From rollouts to a batch."""

from trainsmith.jobs.schema import Grpo
from trainsmith.rollout.records import Branch, Episode, Rollout, RolloutKey
from trainsmith.trainers.groups import credit


def rollout(index: int, sample: int, reward: float | None) -> Rollout:
    key = RolloutKey(index, sample)
    if reward is None:
        return Rollout(key, (), "boom")
    branch = Branch((1, 2, 3), (False, True, True), (0.0, -1.0, -1.0))
    return Rollout(key, (Episode(reward, 1, (branch,), ("x",)),))


def test_a_failed_rollout_leaves_its_group_and_is_counted() -> None:
    """Guards against a crashed rollout that counts as reward 0."""
    batch = credit(
        [rollout(0, 0, 1.0), rollout(0, 1, None), rollout(0, 2, 0.0)],
        Grpo(),
        temperature=0.5,
        filter_zero_advantages=True,
    )
    assert (batch.rollouts, batch.failed, batch.first_error) == (3, 1, "boom")
    assert [trajectory.advantage for trajectory in batch.trajectories] == [0.5, -0.5]
    assert {trajectory.temperature for trajectory in batch.trajectories} == {0.5}
    assert batch.reward_mean == 0.5
    assert batch.generated_tokens == batch.trained_tokens == 4


def test_groups_without_signal_train_only_when_asked() -> None:
    """Guards against `filter_zero_advantages` being ignored."""
    rollouts = [rollout(0, 0, 1.0), rollout(0, 1, 1.0), rollout(1, 0, 0.0), rollout(1, 1, 1.0)]
    kept = credit(rollouts, Grpo(), temperature=0.5, filter_zero_advantages=True)
    everything = credit(rollouts, Grpo(), temperature=0.5, filter_zero_advantages=False)
    assert (kept.groups, kept.usable_groups, len(kept.trajectories)) == (2, 1, 2)
    assert len(everything.trajectories) == 4


def test_a_step_of_failures_has_no_groups() -> None:
    """Guards against statistics of nothing."""
    batch = credit(
        [rollout(0, 0, None), rollout(0, 1, None)], Grpo(), temperature=0.5, filter_zero_advantages=True
    )
    assert (batch.groups, batch.usable_groups, batch.reward_mean, batch.trajectories) == (0, 0, 0.0, ())
