"""Runs the reference jobs of task kinds with several training seeds; prints all results as Markdown.

    python -m benchmarks.reference_jobs --runs runs --seeds 0 1 2 [--tasks strings/last-word@0 ...]

Resumable: what the run's ledger has finished is not trained again.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from trainsmith import families, jobs
from trainsmith.cli import summaries
from trainsmith.cli.show import shown
from trainsmith.config.commands import JobConfig
from trainsmith.config.trainer import EmbeddedTrainerConfig
from trainsmith.progress import Listener
from trainsmith.records import JobResult
from trainsmith.workshop import Workshop

HEAD = """| task | seed | status | steps | before | after | uplift [95 %] | p | reward | train s | grade s |
|---|---|---|---|---|---|---|---|---|---|---|"""


def row(result: JobResult) -> str:
    """One line of the table."""
    cells = [
        result.task,
        str(result.seeds.train),
        result.status,
        str(result.steps),
        summaries.interval(result.pre),
        summaries.interval(result.post),
    ]
    if result.uplift:
        cells.append(f"{result.uplift.mean:+.3f} [{result.uplift.low:+.3f}, {result.uplift.high:+.3f}]")
        cells.append(f"{result.uplift.p:.1g}")
    else:
        cells += ["none", ""]
    cells.append(f"{result.reward.total:.3f}" if result.reward else "void")
    cells += [f"{result.seconds.train:.0f}", f"{result.seconds.grade:.0f}"]
    return "| " + " | ".join(cells) + " |"


async def run(tasks: Sequence[str], seeds: Sequence[int], runs: Path, listen: Listener) -> list[JobResult]:
    """All jobs, one after the other."""
    config = JobConfig(
        task=tasks[0], runs=runs, run="reference", trainer=EmbeddedTrainerConfig(keep_weights=False)
    )
    results = []
    async with Workshop.open(config, listen) as workshop:
        for name in tasks:
            task = families.task(name)
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch) / "job"
                jobs.init(folder, task, "reference")
                for seed in seeds:
                    results.append(await workshop.run_job(folder, task, seed=seed))
                    print(row(results[-1]), flush=True)
    return results


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tasks", nargs="+", default=list(families.task_ids()))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    arguments = parser.parse_args()
    print(HEAD, flush=True)
    with shown() as listen:
        asyncio.run(run(arguments.tasks, arguments.seeds, arguments.runs, listen))


if __name__ == "__main__":
    main()
