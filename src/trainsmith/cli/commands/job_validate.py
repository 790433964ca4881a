"""`trainsmith job validate DIR --task ID`: probe a job folder."""

from __future__ import annotations

import asyncio
from pathlib import Path

from trainsmith import families
from trainsmith.cli import summaries
from trainsmith.cli.invocation import Invocation
from trainsmith.cli.show import shown
from trainsmith.config.commands import JobConfig
from trainsmith.errors import AgentError
from trainsmith.records import ProbeReport
from trainsmith.rollout.policies import Policies
from trainsmith.workshop import probe_job, require_bases


def run(invocation: Invocation) -> int:
    """Probe the job; a job that does not pass is wrong input."""
    folder = invocation.directory()
    config = invocation.config(JobConfig, skip=1)
    report = asyncio.run(_probe(config, folder))
    invocation.answer(report, summaries.probe(report))
    if not report.passed:
        raise AgentError(summaries.failure(report), where=str(folder))
    return 0


async def _probe(config: JobConfig, folder: Path) -> ProbeReport:
    task = families.task(config.task)
    require_bases(task)
    with shown() as listen:
        policies = Policies(config.engine, listen)
        try:
            return await probe_job(config, policies, folder, task, listen)
        finally:
            policies.close()
