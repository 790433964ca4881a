"""`trainsmith job run DIR --task ID [--seed N]`: probe, train and grade a job folder, once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from trainsmith import families, jobs
from trainsmith.cli import summaries
from trainsmith.cli.invocation import Invocation
from trainsmith.cli.show import shown
from trainsmith.config.commands import JobConfig
from trainsmith.errors import AgentError
from trainsmith.records import JobResult, Status
from trainsmith.workshop import Workshop, require_bases


def run(invocation: Invocation) -> int:
    """Run the job, or answer from the ledger if it has been run."""
    folder = invocation.directory()
    config = invocation.config(JobConfig, skip=1)
    result = asyncio.run(_run(config, folder))
    invocation.answer(result, summaries.job(result))
    return 0 if result.status in (Status.OK, Status.TIMEOUT) else 1


async def _run(config: JobConfig, folder: Path) -> JobResult:
    task = families.task(config.task)
    jobs.load(folder, task, trainer=config.trainer.type)  # what is broken is told before anything is written
    require_bases(task)
    with shown() as listen:
        async with Workshop.open(config, listen) as workshop:
            finished = workshop.pool.finished(workshop.pool.resolve(folder, task, config.seed), task)
            if finished is not None:
                return finished
            workshop.keep_config()
            report = await workshop.probe(folder, task)
            if not report.passed:
                raise AgentError(summaries.failure(report), where=str(folder))
            return await workshop.run_job(folder, task, seed=config.seed)
