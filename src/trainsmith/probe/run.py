"""Runs the stages of a probe, each on what the one before has shown.

    report = await run(job_dir, task, services)

Ends the jail however it ends. A fault of the machine is raised, never reported as a failed check.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from trainsmith import jobs
from trainsmith.errors import MachineError
from trainsmith.jail.border import Environment
from trainsmith.probe import plan, replies
from trainsmith.probe.canned import play_all
from trainsmith.probe.checks.loading import alike
from trainsmith.probe.observations import Observations
from trainsmith.probe.opening import Holder, open_twice
from trainsmith.probe.package import Package, of_job, of_refused
from trainsmith.probe.plan import Stage
from trainsmith.probe.prompting import measure
from trainsmith.probe.sampling import sample_groups
from trainsmith.probe.services import ProbeServices
from trainsmith.records import Check, ProbeReport, Task

EARLIER = "not run: correct the failed checks above first"


async def run(job_dir: Path, task: Task, services: ProbeServices) -> ProbeReport:
    """Validate the job in `job_dir` for `task`.

    Raises:
        UserError: there is no such folder.
        MachineError: the jail or the base model cannot be started, or the machine is far too slow.
    """
    probe = _Probe(job_dir, task, services)
    limit = services.limits.total_seconds
    try:
        async with asyncio.timeout(limit):
            await probe.run()
    except TimeoutError as error:
        raise MachineError(
            f"the probe took more than {limit:g} s, though each of its parts kept its own limit",
            where=str(job_dir),
            fix="run fewer things at once on this machine, or raise total_seconds",
        ) from error
    return ProbeReport(checks=tuple(probe.checks), seconds=time.monotonic() - probe.began)


class _Probe:
    """One run: what has been seen, and the verdicts so far."""

    def __init__(self, job_dir: Path, task: Task, services: ProbeServices) -> None:
        self.began = time.monotonic()
        self.checks: list[Check] = []
        self._job_dir = job_dir
        self._task = task
        self._services = services
        self._seen = Observations(limits=services.limits)

    async def run(self) -> None:
        """All stages, as far as they make sense."""
        package = await self._folder()
        if package is None:
            self._skip(Stage.IMPORT)
            return
        async with open_twice(package, self._services) as holders:
            first, second = await self._import(*holders)
            if first is None or not self._seen.tasks:
                self._skip(Stage.TASKS)
                return
            await self._tasks()
            if plan.unplayable(self.checks):
                self._skip(Stage.CANNED)
                return
            await self._canned(first, second if alike(self._seen) else None)
            if plan.failed(self.checks):
                self._skip(Stage.MODEL)
                return
            await self._model(first)

    async def _folder(self) -> Package | None:
        with self._stage(Stage.FOLDER):
            try:
                job = await asyncio.to_thread(
                    jobs.load, self._job_dir, self._task, trainer=self._services.trainer
                )
            except jobs.JobError as error:
                self._seen = replace(self._seen, problems=error.problems)
                return of_refused(error.problems, self._job_dir)
            context = self._services.context(job.base)
            self._seen = replace(self._seen, config=job.config, files=len(job.files), context=context)
            return of_job(job, self._job_dir)

    async def _import(self, *holders: Holder) -> tuple[Environment | None, Environment | None]:
        with self._stage(Stage.IMPORT):
            first, second = [await holder.opened() for holder in holders]
            self._seen = replace(self._seen, first=first.opening, second=second.opening)
            return first.environment, second.environment

    async def _tasks(self) -> None:
        with self._stage(Stage.TASKS):
            if self._seen.config is not None:
                tokenizer = await self._services.tokenizer(self._seen.config.model.name)
                prompts = await asyncio.to_thread(measure, self._seen.tasks, tokenizer)
                self._seen = replace(self._seen, prompts=prompts)

    async def _canned(self, first: Environment, second: Environment | None) -> None:
        limits = self._services.limits
        length = replies.cap(_reply_tokens(self._seen.config), limits.longest_reply)
        with self._stage(Stage.CANNED):
            canned = await play_all(first, second, self._seen.tasks, length, limits)
            self._seen = replace(self._seen, canned=canned)

    async def _model(self, first: Environment) -> None:
        config = self._seen.config
        assert config is not None
        with self._stage(Stage.MODEL):
            policy = await self._services.policy(config.model.name)
            groups = await sample_groups(first, policy, self._seen.tasks, config, self._services.limits)
            self._seen = replace(self._seen, signal=groups)

    @contextmanager
    def _stage(self, stage: Stage) -> Iterator[None]:
        """Judge the stage once its facts are in; its time goes to its first check."""
        began = time.monotonic()
        yield
        first, *others = plan.judge(stage, self._seen)
        self.checks += [first.model_copy(update={"seconds": time.monotonic() - began}), *others]

    def _skip(self, stage: Stage) -> None:
        self.checks += plan.skip_from(stage, EARLIER)


def _reply_tokens(config: jobs.AuthorConfig | None) -> int | None:
    """Tokens that the model may write in a turn; None if rl.toml is refused."""
    if config is None:
        return None
    return config.orchestrator.train.sampling.max_completion_tokens or config.seq_len
