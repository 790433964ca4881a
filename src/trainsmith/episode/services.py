"""What an episode needs from the rest of trainsmith: probes, baseline scores, and the job's run."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from trainsmith.records import BaselineScore, JobResult, ProbeReport


class EpisodeServices(Protocol):
    """Serves one episode. A MachineError from any of them makes the episode void.

    The folders belong to the episode: services read them and write nothing there. They hold exactly the files
    that were submitted, and stay as they are.
    """

    async def probe(self, job_dir: Path) -> ProbeReport:
        """Check the job. An author's mistake is a failed check; an AgentError is taken for one."""
        ...

    async def baseline_scores(self) -> tuple[BaselineScore, ...]:
        """The task's untrained bases with their hidden scores."""
        ...

    async def run_job(self, job_dir: Path, validation_attempt: int) -> JobResult:
        """Train and grade a job that passed the probe. The result carries the reward, computed with
        `validation_attempt` as its k; None only when its status is void.

        An author's mistake is a result with its status; an AgentError counts as status `failed`.
        """
        ...
