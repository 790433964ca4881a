"""The local pool: trains and grades jobs in this process, one after the other, each identity once.

    result = await pool.run(job_dir, task, seed=1)

A job that the ledger has finished is answered from there; one that another process works on is waited for.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from trainsmith import bases, jobs, versions
from trainsmith.config.reward import RewardConfig
from trainsmith.errors import AgentError, TrainsmithError, UserError
from trainsmith.files import write_atomic
from trainsmith.grading.baselines import BaseScore, best
from trainsmith.grading.grader import compare, summary
from trainsmith.grading.weights import WeightsRejected
from trainsmith.jobs.load import Job
from trainsmith.jobs.resolution import Conditions, ResolvedJob, resolve
from trainsmith.jobs.snapshots import snapshot
from trainsmith.ledger import Claim, Held, Ledger
from trainsmith.pool.evaluator import Evaluator
from trainsmith.progress import Listener, Phase, Progress, silent
from trainsmith.records import (
    BaseMean,
    HiddenScore,
    JobResult,
    RewardParts,
    Seconds,
    Seeds,
    Status,
    Task,
    TrainOutcome,
)
from trainsmith.reward import RewardInputs, baseline, reward
from trainsmith.runs import RunDirectory
from trainsmith.trainers.order import Trainer, TrainOrder

POLL_SECONDS = 0.5


class LocalPool:
    """Runs jobs on this machine."""

    def __init__(
        self,
        run: RunDirectory,
        ledger: Ledger,
        evaluator: Evaluator,
        exclusive: asyncio.Lock,
        trainer: Trainer,
        *,
        trainer_name: str,
        keep_weights: bool,
        rewards: RewardConfig,
        conditions: Conditions | None = None,
    ) -> None:
        self._run = run
        self._ledger = ledger
        self._evaluator = evaluator
        self._trainer = trainer
        self._trainer_name = trainer_name
        self._keep_weights = keep_weights
        self._rewards = rewards
        self._conditions = conditions or Conditions()
        self._exclusive = exclusive
        self._next = asyncio.Lock()

    def resolve(self, job_dir: Path, task: Task, seed: int) -> ResolvedJob:
        """The job as it would be trained. Raises JobError for a job that may not be."""
        return self._resolve(jobs.load(job_dir, task, trainer=self._trainer_name), task, seed)

    async def run(
        self, job_dir: Path, task: Task, *, seed: int, validation_attempt: int = 1, listen: Listener = silent
    ) -> JobResult:
        """The result of a job that has passed the probe, trained now or before.

        `validation_attempt` is the how-maniest probe it passed; it counts in the reward only.
        Raises MachineError when the machine fails; the job can then be run again. Raises UserError when the
        recorded result was graded in another way than is asked for.
        """
        queued = time.monotonic()
        resolved = self.resolve(job_dir, task, seed)
        claim = await self._claim(resolved, listen)
        if isinstance(claim, JobResult):
            return self._recorded(claim, task, validation_attempt)
        with claim, self._void_on_error(claim, resolved, task):
            result = await self._train_and_grade(resolved, job_dir, task, queued, listen)
            result = self._rewarded(result, task, validation_attempt)
            folder = self._run.job(resolved.identity)
            write_atomic(folder / "result.json", result.model_dump_json(indent=1) + "\n")
            self._ledger.jobs.finish(claim, result)
        return result

    def finished(self, resolved: ResolvedJob, task: Task) -> JobResult | None:
        """The recorded result, if the job has been trained. Raises UserError if it was graded otherwise."""
        result = self._ledger.jobs.result(resolved.identity)
        return self._recorded(result, task, 1) if result else None

    def _recorded(self, result: JobResult, task: Task, validation_attempt: int) -> JobResult:
        self._require_same_grading(result, task)
        return self._rewarded(result, task, validation_attempt)

    def _require_same_grading(self, result: JobResult, task: Task) -> None:
        """A recorded result answers only for the grading that it was taken with."""
        config, was, fix = self._evaluator.config, result.seeds.evaluation, ""
        if was != config.seed:
            what, fix = f"evaluation seed {was}, not {config.seed}", f"--grading.seed {was}"
        elif result.level != config.level:
            what, fix = f"level {result.level:g}, not {config.level:g}", f"--grading.level {result.level:g}"
        elif result.items and result.items != (items := self._evaluator.items_key(task)):
            what = f"hidden items {result.items}, not {items} (another secret)"
            fix = "the TRAINSMITH_STATE of the first run"
        if fix:
            where = f"job {result.job[:16]} in {self._run.root}"
            raise UserError(f"it was graded with {what}", where=where, fix=f"use {fix}, or another --run")

    def _resolve(self, job: Job, task: Task, seed: int) -> ResolvedJob:
        return resolve(
            job, task, bases.get(job.base).revision, self._trainer_name, seed, None, self._conditions
        )

    async def _claim(self, resolved: ResolvedJob, listen: Listener) -> Claim | JobResult:
        told = False
        while True:
            claim = self._ledger.jobs.claim(resolved.identity, recipe=resolved.recipe)
            if not isinstance(claim, Held):
                return claim
            if not told:
                listen(Progress(Phase.TRAIN, f"waiting: {claim.owner} runs this very job"))
                told = True
            await asyncio.sleep(POLL_SECONDS)

    @contextmanager
    def _void_on_error(self, claim: Claim, resolved: ResolvedJob, task: Task) -> Iterator[None]:
        """Whatever went wrong unexpectedly is no result of the job: it is recorded as void, and raised."""
        try:
            yield
        except Exception as error:
            kind = "" if isinstance(error, TrainsmithError) else f"{type(error).__name__}: "
            if claim.lock.held:
                self._ledger.jobs.finish(claim, self._empty(resolved, task, Status.VOID, f"{kind}{error}"))
            raise

    async def _train_and_grade(
        self, resolved: ResolvedJob, job_dir: Path, task: Task, queued: float, listen: Listener
    ) -> JobResult:
        folder = self._fresh_folder(resolved, job_dir, task)
        order = TrainOrder(resolved, folder / "job", task, folder, listen)
        async with AsyncExitStack() as turn:
            async with self._next:  # of the waiting jobs the first alone holds an open environment
                prepared = await turn.enter_async_context(self._trainer.prepare(order))
                await turn.enter_async_context(self._exclusive)
                queue = time.monotonic() - queued
                base_scores = await self._evaluator.bases(task, listen)
                listen(Progress(Phase.TRAIN, f"training {resolved.base}, seed {resolved.seed}"))
                await prepared.set_up()
            outcome = await prepared.train()
            listen(
                Progress(Phase.GRADE, f"scoring the trained model on {task.evaluation.items} hidden items")
            )
            started = time.monotonic()
            graded = await self._grade(resolved, task, outcome, folder)
            grade = time.monotonic() - started
        seconds = Seconds(queue=queue, setup=outcome.setup_seconds, train=outcome.train_seconds, grade=grade)
        return self._result(resolved, task, base_scores, *graded, seconds)

    def _fresh_folder(self, resolved: ResolvedJob, job_dir: Path, task: Task) -> Path:
        """The job's folder with a snapshot of its files; what an interrupted attempt left is removed.

        The author may have changed the files since they were resolved, so the snapshot is what must match.
        """
        folder = self._run.job(resolved.identity)
        shutil.rmtree(folder, ignore_errors=True)
        snapshot(job_dir, folder / "job")
        if self.resolve(folder / "job", task, resolved.seed).identity != resolved.identity:
            fix = "leave the folder alone while it runs"
            raise AgentError("the job changed while it was submitted", where=str(job_dir), fix=fix)
        write_atomic(folder / "resolved" / "rl.toml", resolved.toml)
        versions.write(folder)
        return folder

    async def _grade(
        self, resolved: ResolvedJob, task: Task, outcome: TrainOutcome, folder: Path
    ) -> tuple[TrainOutcome, HiddenScore | None]:
        """The outcome, changed if its weights are refused, and the hidden score of its weights."""
        weights = Path(outcome.weights) if outcome.weights else None
        score = None
        try:
            if weights is not None:
                score = await self._evaluator.trained(task, resolved.base, resolved.identity, weights)
        except WeightsRejected as error:
            outcome = outcome.model_copy(
                update={"status": Status.FAILED, "reason": str(error), "weights": ""}
            )
            weights = None
        await self._evaluator.examples(task, resolved.base, weights, folder)
        if weights is not None and not self._keep_weights:
            weights.unlink()
        return outcome, score

    def _result(
        self,
        resolved: ResolvedJob,
        task: Task,
        base_scores: tuple[BaseScore, ...],
        outcome: TrainOutcome,
        post: HiddenScore | None,
        seconds: Seconds,
    ) -> JobResult:
        config = self._evaluator.config
        pre = next(each.score for each in base_scores if each.base == resolved.base)
        if outcome.status is Status.NO_SIGNAL and not outcome.weights:
            post = pre  # nothing was trained: the model is the base
        return self._empty(resolved, task, outcome.status, outcome.reason).model_copy(
            update={
                "items": pre.items,
                "pre": summary(pre, config),
                "post": summary(post, config) if post else None,
                "uplift": compare(pre, post, config) if post else None,
                "best_base": best(base_scores),
                "bases": tuple(BaseMean(name=each.base, mean=each.mean) for each in base_scores),
                "steps": outcome.steps,
                "rollouts": outcome.rollouts,
                "tokens": outcome.tokens,
                "seconds": seconds,
            }
        )

    def _empty(self, resolved: ResolvedJob, task: Task, status: Status, reason: str) -> JobResult:
        return JobResult(
            task=task.id,
            job=resolved.identity,
            status=status,
            reason=reason,
            base_model=resolved.base,
            base_revision=resolved.base_revision,
            trainer=resolved.trainer,
            level=self._evaluator.config.level,
            seeds=Seeds(train=resolved.seed, evaluation=self._evaluator.config.seed),
        )

    def _rewarded(self, result: JobResult, task: Task, validation_attempt: int) -> JobResult:
        return result.model_copy(update={"reward": _reward(result, task, validation_attempt, self._rewards)})


def _reward(result: JobResult, task: Task, attempt: int, config: RewardConfig) -> RewardParts | None:
    """The reward of a job's result; None for a void one."""
    if result.status is Status.VOID:
        return None
    if result.pre is None:
        raise TrainsmithError("a result that is not void has base scores", where=f"job {result.job}")
    inputs = RewardInputs(
        validation_attempt=attempt,
        max_validations=task.limits.max_validations,
        post=result.post.mean if result.post else None,
        baseline=baseline([each.mean for each in result.bases], result.pre.mean, config.baseline),
        tokens=result.tokens,
        budget=task.budget.max_tokens,
    )
    return reward(inputs, config)
