"""Samples small groups from the base model until one of them shows a signal."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from contextlib import suppress

from trainsmith.config.probe import ProbeConfig
from trainsmith.jail.border import Environment, EnvironmentFailed, TaskView
from trainsmith.jobs.schema import AuthorConfig
from trainsmith.probe.averages import mean
from trainsmith.probe.checks.signal import varies
from trainsmith.probe.observations import Fault, Sampled, Signal, fault_of
from trainsmith.rollout.collect import AsyncPolicy, collect
from trainsmith.rollout.records import Rollout, RolloutKey, Sampling
from trainsmith.seeds import derive

Group = tuple[Sampled, ...]


async def sample_groups(
    environment: Environment,
    policy: AsyncPolicy,
    tasks: Sequence[TaskView],
    config: AuthorConfig,
    limits: ProbeConfig,
) -> Signal:
    """Round after round of groups on other tasks; ends with the first round that shows a signal.

    Tasks are taken evenly from all that were read, so that a curriculum from easy to hard is seen as a whole.
    What is sampled in one go is bounded, since sampling cannot be cut off before its end.
    """
    began = time.monotonic()
    groups: list[Group] = []
    sampling = _sampling(config)
    fault: Fault | None = None
    try:
        with suppress(TimeoutError):  # what was finished in time is judged
            async with asyncio.timeout(limits.signal_seconds):
                for indices in _rounds([task.index for task in tasks], sampling.max_tokens, limits):
                    groups += await _round(environment, policy, indices, sampling, limits.signal_samples)
                    if any(varies(group) for group in groups) or _broken(groups):
                        break
    except EnvironmentFailed as error:
        fault = fault_of(error)
    return Signal(tuple(groups), config.model.name, time.monotonic() - began, fault)


def _sampling(config: AuthorConfig) -> Sampling:
    train = config.orchestrator.train.sampling
    return Sampling(
        temperature=train.temperature,
        max_tokens=train.max_completion_tokens or config.seq_len,
        seq_len=config.seq_len,
        seed=derive("probe"),
    )


def _rounds(indices: Sequence[int], max_tokens: int, limits: ProbeConfig) -> list[list[int]]:
    """Disjoint sets of tasks, each spread evenly over all."""
    count = min(len(indices), limits.signal_tasks * limits.signal_rounds)
    spread = [indices[i * len(indices) // count] for i in range(count)]
    at_once = max(1, min(limits.signal_tasks, limits.signal_tokens // (limits.signal_samples * max_tokens)))
    rounds = math.ceil(count / at_once)
    return [spread[start::rounds] for start in range(rounds)]


async def _round(
    environment: Environment, policy: AsyncPolicy, indices: Sequence[int], sampling: Sampling, samples: int
) -> list[Group]:
    keys = [RolloutKey(index, sample) for index in indices for sample in range(samples)]
    rollouts = await collect(environment, policy, keys, sampling)
    return [
        tuple(_sampled(rollout, sampling) for rollout in rollouts[start : start + samples])
        for start in range(0, len(rollouts), samples)
    ]


def _sampled(rollout: Rollout, sampling: Sampling) -> Sampled:
    if rollout.error:
        return Sampled(rollout.key.index, None, "", rollout.error)
    episodes = rollout.episodes
    replies = [reply for episode in episodes for reply in episode.replies]
    used = sum(episode.output_tokens for episode in episodes)
    turns = sum(episode.turns for episode in episodes)
    return Sampled(
        task=rollout.key.index,
        reward=mean(episode.reward for episode in episodes),
        text=replies[-1] if replies else "",
        cut=turns > 0 and used >= turns * sampling.max_tokens,
    )


def _broken(groups: Sequence[Group]) -> bool:
    return any(sampled.reward is None for group in groups for sampled in group)
