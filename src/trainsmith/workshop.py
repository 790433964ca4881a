"""All that jobs and episodes need on one machine, built from one configuration.

async with Workshop.open(config) as workshop:
    report = await workshop.probe(folder, task)
    result = await workshop.run_job(folder, task, seed=0)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from trainsmith import bases, jail, paths, probe
from trainsmith.config.commands import RunConfig
from trainsmith.files import require_room, write_atomic
from trainsmith.grading.grader import summary
from trainsmith.jobs.resolution import Conditions
from trainsmith.ledger import Ledger
from trainsmith.pool.evaluator import Evaluator
from trainsmith.pool.local import LocalPool
from trainsmith.probe.services import ProbeServices
from trainsmith.progress import Listener, Phase, Progress, silent
from trainsmith.records import BaselineScore, JobResult, ProbeReport, Task
from trainsmith.rollout.policies import Policies
from trainsmith.runs import RunDirectory
from trainsmith.trainers.embedded import EmbeddedTrainer

JOB_BYTES = 2**30
"""Room for one job's weights and records, with room to spare."""


def require_bases(task: Task) -> None:
    """Raise UserError if the task's bases must still be fetched and there is no room for them."""
    if not all(bases.cached(base) for base in task.bases):
        require_room(paths.cache_dir(), bases.NEEDED_BYTES, "the model cache (TRAINSMITH_CACHE)")


async def probe_job(
    config: RunConfig, policies: Policies, folder: Path, task: Task, listen: Listener = silent
) -> ProbeReport:
    """Check a job in the jail, and with a few samples of its base model. Writes nothing."""
    listen(Progress(Phase.PROBE, "checking the job"))
    services = ProbeServices(
        jail=jail.choose(config.jail.kind),
        tokenizer=policies.tokenizer,
        policy=policies.untrained,
        context=lambda base: bases.get(base).context,
        trainer=config.trainer.type,
        limits=config.probe,
    )
    return await probe.run(folder, task, services)


class Workshop:
    """One run on this machine."""

    def __init__(self, config: RunConfig, run: RunDirectory, ledger: Ledger, listen: Listener) -> None:
        self.config = config
        self.run = run
        self.ledger = ledger
        self.listen = listen
        self.policies = Policies(config.engine, listen)
        self.evaluator = Evaluator(ledger, self.policies, config.grading)
        self.pool = LocalPool(
            run,
            ledger,
            self.evaluator,
            self.policies.exclusive,
            EmbeddedTrainer(config.trainer, self.policies, config.jail),
            trainer_name=config.trainer.type,
            keep_weights=config.trainer.keep_weights,
            rewards=config.reward,
            conditions=Conditions(
                engine=self.policies.engine, no_signal_steps=config.trainer.no_signal_steps
            ),
        )

    @classmethod
    @asynccontextmanager
    async def open(cls, config: RunConfig, listen: Listener = silent) -> AsyncIterator[Workshop]:
        """Open or make the run directory. Models are loaded when they are first needed."""
        run = RunDirectory.named(config.run, config.runs)
        require_room(run.root, JOB_BYTES, "a job (--runs)")
        paths.secret()  # a spoiled one is told now and not after the training
        with Ledger.open(run.root) as ledger:
            workshop = cls(config, run, ledger, listen)
            try:
                yield workshop
            finally:
                workshop.policies.close()

    def keep_config(self) -> None:
        """Write the run's `config.json`; not before the command is known to be one that the run obeys."""
        write_atomic(self.run.config, self.config.model_dump_json(indent=1) + "\n")

    async def probe(self, folder: Path, task: Task) -> ProbeReport:
        """See `probe_job`."""
        async with self.policies.exclusive:
            return await probe_job(self.config, self.policies, folder, task, self.listen)

    async def run_job(self, folder: Path, task: Task, *, seed: int, validation_attempt: int = 1) -> JobResult:
        """Train and grade a job that has passed the probe."""
        return await self.pool.run(
            folder, task, seed=seed, validation_attempt=validation_attempt, listen=self.listen
        )

    async def baseline_scores(self, task: Task) -> tuple[BaselineScore, ...]:
        """The task's untrained bases with their hidden scores."""
        async with self.policies.exclusive:
            scores = await self.evaluator.bases(task, self.listen)
        return tuple(
            BaselineScore(base=each.base, score=summary(each.score, self.config.grading)) for each in scores
        )


@dataclass(frozen=True, slots=True)
class TaskServices:
    """The workshop as one episode sees it; an `episode.services.EpisodeServices`."""

    workshop: Workshop
    task: Task
    seed: int
    """Training seed of the episode's job."""

    async def probe(self, job_dir: Path) -> ProbeReport:
        """See `Workshop.probe`."""
        return await self.workshop.probe(job_dir, self.task)

    async def baseline_scores(self) -> tuple[BaselineScore, ...]:
        """See `Workshop.baseline_scores`."""
        return await self.workshop.baseline_scores(self.task)

    async def run_job(self, job_dir: Path, validation_attempt: int) -> JobResult:
        """See `Workshop.run_job`."""
        return await self.workshop.run_job(
            job_dir, self.task, seed=self.seed, validation_attempt=validation_attempt
        )
