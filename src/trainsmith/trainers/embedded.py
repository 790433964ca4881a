"""The embedded trainer: synchronous, on-policy GRPO on the local engine.

Each step plays `batch_size / group_size` tasks in the taskset's order, `group_size` rollouts each, credits
them, and makes one update. It ends at `max_steps`, at a budget, when no group has a signal any more, or at
a fault of the job. Not here: what a job may contain (`jobs`), hidden scores (`grading`).
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainsmith.config.jail import JailConfig
from trainsmith.config.trainer import EmbeddedTrainerConfig
from trainsmith.engine.failure import NotFinite
from trainsmith.errors import MachineError
from trainsmith.jail.border import Environment, EnvironmentFailed
from trainsmith.progress import Phase, Progress
from trainsmith.records import Status, TrainOutcome
from trainsmith.rollout.collect import collect
from trainsmith.rollout.environments import open_job_environment
from trainsmith.rollout.policies import LoadedPolicy, Policies
from trainsmith.rollout.records import RolloutKey, Sampling
from trainsmith.seeds import derive
from trainsmith.trainers.groups import Batch, credit
from trainsmith.trainers.metrics import MetricsFile, StepMetrics
from trainsmith.trainers.opening import Opening
from trainsmith.trainers.order import TrainOrder
from trainsmith.trainers.specs import lora_spec, loss_spec, optim_spec

if TYPE_CHECKING:
    from trainsmith.engine.learner import Learner
    from trainsmith.engine.records import UpdateStats

WEIGHTS = Path("weights") / "model.safetensors"
METRICS = "metrics.jsonl"


class EmbeddedTrainer:
    """Trains jobs on the policies of this process, one at a time."""

    def __init__(self, config: EmbeddedTrainerConfig, policies: Policies, jail: JailConfig) -> None:
        self._config = config
        self._policies = policies
        self._jail = jail

    async def train(self, order: TrainOrder) -> TrainOutcome:
        """Prepare and train at once; see `PreparedJob.train`."""
        async with self.prepare(order) as job:
            return await job.train()

    @asynccontextmanager
    async def prepare(self, order: TrainOrder) -> AsyncIterator[EmbeddedJob]:
        """Begin to open the job's environment; see `Trainer.prepare`."""
        opening = Opening(open_job_environment(order.job, order.folder, self._jail))
        job = EmbeddedJob(order, self._config, self._policies, opening)
        try:
            yield job
        finally:
            await job.close()


class EmbeddedJob:
    """One job before its training; a `PreparedJob`."""

    def __init__(
        self, order: TrainOrder, config: EmbeddedTrainerConfig, policies: Policies, opening: Opening
    ) -> None:
        self._order = order
        self._config = config
        self._policies = policies
        self._opening = opening
        self._metrics = MetricsFile(order.output / METRICS)
        self._run: _Run | None = None
        self._failure = ""
        self._seconds = 0.0

    async def set_up(self) -> None:
        """Fresh weights, a fresh optimiser and the open environment; see `PreparedJob.set_up`."""
        began = time.monotonic()
        try:
            policy = await self._policies.untrained(self._order.job.base)
            learner = await self._learner(policy)
            environment = await self._opening.environment()
        except EnvironmentFailed as error:
            self._failure = str(error)
        else:
            self._run = _Run(
                self._order, self._config, self._policies, policy, learner, environment, self._metrics
            )
        self._seconds = time.monotonic() - began

    async def train(self) -> TrainOutcome:
        """Train; see `PreparedJob.train`. The environment is closed when it returns."""
        if self._run is None and not self._failure:
            await self.set_up()
        try:
            if self._run is None:
                return self._failed(self._failure)
            return await self._run.train(self._seconds)
        except EnvironmentFailed as error:
            return self._failed(str(error))
        finally:
            await self.close()

    async def close(self) -> None:
        """End every process of the job and let its memory go. May be called again."""
        self._run = None
        self._metrics.close()
        await self._opening.close()

    def _failed(self, reason: str) -> TrainOutcome:
        return TrainOutcome(status=Status.FAILED, reason=reason, setup_seconds=self._seconds)

    async def _learner(self, policy: LoadedPolicy) -> Learner:
        from trainsmith.engine.learner import Learner  # imports torch

        config, seed = self._order.job.config, self._order.job.seed
        return await self._policies.call(
            lambda: Learner(
                policy.policy,
                optim_spec(config),
                loss_spec(config.trainer.loss),
                lora_spec(config),
                seed=seed,
            )
        )


@dataclass
class _Run:
    """One job in training."""

    order: TrainOrder
    config: EmbeddedTrainerConfig
    policies: Policies
    policy: LoadedPolicy
    learner: Learner
    environment: Environment
    metrics: MetricsFile
    began: float = 0.0
    steps: int = 0
    updates: int = 0
    silent_steps: int = 0
    first_reward: float = 0.0
    last_reward: float = 0.0
    rollouts: int = 0
    generated: int = 0
    trained: int = 0

    async def train(self, setup: float) -> TrainOutcome:
        """All steps, then the weights; `setup` is how many seconds the setting up took."""
        self.began = time.monotonic()
        status, reason = await self._steps()
        weights = ""
        if self.updates and status is not Status.FAILED:
            path = self.order.output / WEIGHTS
            path.parent.mkdir(parents=True, exist_ok=True)
            await self.policies.call(lambda: self.learner.save(path))
            weights = str(path)
        return TrainOutcome(
            status=status,
            reason=reason,
            steps=self.steps,
            rollouts=self.rollouts,
            generated_tokens=self.generated,
            trained_tokens=self.trained,
            setup_seconds=setup,
            train_seconds=time.monotonic() - self.began,
            weights=weights,
        )

    async def _steps(self) -> tuple[Status, str]:
        max_steps = self.order.job.config.max_steps
        while self.steps < max_steps:
            if spent := self._budget_spent():
                return Status.TIMEOUT, spent
            if self.silent_steps >= self.config.no_signal_steps:
                return self._no_signal()
            try:
                fault = await self._step()
            except EnvironmentFailed as error:
                fault = str(error)
            except NotFinite as error:
                fault = self._ruined(error)
            if fault:
                return Status.FAILED, fault
        return (Status.OK, "") if self.updates else self._no_signal()

    def _budget_spent(self) -> str:
        budget = self.order.task.budget
        seconds, tokens = time.monotonic() - self.began, self.generated + self.trained
        if seconds > budget.train_seconds:
            return f"the budget of {budget.train_seconds:g} s was spent after {self.steps} steps"
        if tokens > budget.max_tokens:
            return f"the budget of {budget.max_tokens} tokens was spent after {self.steps} steps"
        return ""

    def _ruined(self, error: NotFinite) -> str:
        """The author's fault once there was an update; a base that cannot be sampled is the machine's."""
        if not self.updates:
            raise MachineError(
                "the untrained base gives no finite logits", where=self.order.job.base
            ) from error
        return f"the weights are not finite after step {self.steps}: lower trainer.optim.lr"

    def _no_signal(self) -> tuple[Status, str]:
        """Training that has worked and then has nothing left to learn from is a success that ends early.

        One whose rewards fell below their beginning has collapsed; its weights are graded all the same.
        """
        what = f"no group had rewards that differ in the last {self.silent_steps} steps"
        if not self.updates:
            return Status.NO_SIGNAL, what
        steps = f"{self.steps} of {self.order.job.config.max_steps} steps"
        early = f"ended early after {steps} for lack of signal: {what}"
        if self.last_reward < self.first_reward:
            fell = f"mean reward fell from {self.first_reward:.3f} to {self.last_reward:.3f}"
            return Status.NO_SIGNAL, f"{early}; {fell}"
        return Status.OK, early

    async def _step(self) -> str:
        """One step; returns why the job cannot go on, or nothing."""
        started = time.monotonic()
        rollouts = await collect(self.environment, self.policy, self._keys(), self._sampling())
        rollout_seconds = time.monotonic() - started
        batch = credit(
            rollouts,
            self.order.job.config.orchestrator.algo,
            temperature=self.order.job.config.orchestrator.train.sampling.temperature,
            filter_zero_advantages=self.order.job.config.orchestrator.train.filter_zero_advantages,
        )
        self.steps += 1
        self.rollouts += batch.rollouts
        self.generated += batch.generated_tokens
        self.last_reward = batch.reward_mean
        if self.steps == 1:
            self.first_reward = batch.reward_mean
        self.silent_steps = 0 if batch.usable_groups else self.silent_steps + 1
        stats = await self._update(batch)
        self._report(batch, stats, rollout_seconds, time.monotonic() - started - rollout_seconds)
        if batch.failed == batch.rollouts:
            return f"every rollout of step {self.steps} failed: {batch.first_error}"
        if stats and not (math.isfinite(stats.loss) and math.isfinite(stats.grad_norm)):
            return f"loss or gradient was not finite at step {self.steps}"
        return ""

    async def _update(self, batch: Batch) -> UpdateStats | None:
        if not batch.usable_groups:
            return None
        stats = await self.policies.call(lambda: self.learner.update(batch.trajectories))
        self.updates += 1
        self.trained += batch.trained_tokens
        return stats

    def _keys(self) -> list[RolloutKey]:
        """The next tasks in the taskset's order, round and round, each `group_size` times."""
        settings = self.order.job.config.orchestrator
        prompts = settings.batch_size // settings.group_size
        first, total = self.steps * prompts, self.environment.info.tasks
        indices = dict.fromkeys((first + offset) % total for offset in range(prompts))
        return [RolloutKey(index, sample) for index in indices for sample in range(settings.group_size)]

    def _sampling(self) -> Sampling:
        config = self.order.job.config
        sampling = config.orchestrator.train.sampling
        return Sampling(
            temperature=sampling.temperature,
            max_tokens=sampling.max_completion_tokens or config.seq_len,
            seq_len=config.seq_len,
            seed=derive(self.order.job.seed, "rollout", self.steps),
        )

    def _report(self, batch: Batch, stats: UpdateStats | None, rollout_s: float, update_s: float) -> None:
        speed = batch.generated_tokens / rollout_s if rollout_s else 0.0
        self.metrics.append(
            StepMetrics(
                step=self.steps,
                reward_mean=batch.reward_mean,
                reward_std=batch.reward_std,
                groups=batch.groups,
                usable_groups=batch.usable_groups,
                rollouts=batch.rollouts,
                failed_rollouts=batch.failed,
                generated_tokens=batch.generated_tokens,
                trained_tokens=batch.trained_tokens if stats else 0,
                loss=stats.loss if stats else 0.0,
                entropy=stats.entropy if stats else 0.0,
                mismatch_kl=stats.mismatch_kl if stats else 0.0,
                grad_norm=stats.grad_norm if stats else 0.0,
                masked_fraction=stats.masked_fraction if stats else 0.0,
                lr=stats.lr if stats else 0.0,
                rollout_seconds=rollout_s,
                update_seconds=update_s,
                tokens_per_second=speed,
            )
        )
        max_steps = self.order.job.config.max_steps
        per_step = (time.monotonic() - self.began) / self.steps
        self.order.listen(
            Progress(
                Phase.TRAIN,
                step=self.steps,
                steps=max_steps,
                reward=batch.reward_mean,
                tokens_per_second=speed,
                seconds_left=per_step * (max_steps - self.steps),
            )
        )
