"""Jobs an hour: whole jobs through the pool, jail and all, by warm workers that share one device.

    python -m benchmarks.jobs --device cuda --workers 1 4 8 --jobs 48 [--json FILE]

A job is a reference job of one of four task kinds, made larger: 40 steps of 16 questions x 16 replies, each
with a seed and under a task of its own, then graded on 256 hidden items, as its base is (each job's items are
other ones, so that nothing comes from the ledger). A worker is a process with a pool of its own over one
ledger; it first runs one job of each kind, which is not counted. Memory is the allocator's peak in a worker.
Not measured: the start of a worker, probes, an agent.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from queue import Empty, Queue
from statistics import fmean, median

from benchmarks import output
from benchmarks.machine import Machine, gpu_name, this_machine
from trainsmith import families, jobs
from trainsmith.config.commands import RunConfig
from trainsmith.config.engine import EngineConfig
from trainsmith.config.jail import JailConfig
from trainsmith.config.trainer import EmbeddedTrainerConfig
from trainsmith.records import JobResult, Record, Task
from trainsmith.workshop import Workshop

KINDS = ("strings/last-word", "strings/word-at", "arithmetic/digit-at", "arithmetic/extreme")
PACKAGES = ("torch", "triton", "verifiers")


class Order(Record):
    """One job."""

    task: str
    seed: int


class Done(Record):
    """What a worker tells of a job."""

    task: str
    status: str
    reason: str
    steps: int
    tokens: int
    seconds: float
    """From the order to the result."""
    setup: float
    train: float
    grade: float
    before: float
    after: float
    mismatch: float
    """The largest mismatch_kl of a step."""
    memory: int
    """Bytes: the device allocator's peak, or the process's."""


class Row(Record):
    """One number of workers."""

    workers: int
    jobs: int
    seconds: float
    jobs_an_hour: float
    median_seconds: float
    """Of a job, from order to result."""
    setup: float
    train: float
    grade: float
    """Means of a job's parts."""
    memory: int
    """The largest worker's."""
    mismatch: float
    """The largest of any step of any job."""
    lifts: dict[str, float]
    """Mean uplift of each kind."""
    failed: tuple[str, ...]


class Document(Record):
    """What this benchmark writes."""

    machine: Machine
    rows: tuple[Row, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, measure, print."""
    options = _parsed(arguments)
    if options.worker:
        asyncio.run(work(options))
        return 0
    rows = [measured(options, workers) for workers in options.workers]
    gpu = gpu_name() if options.device == "cuda" else ""
    output.write(
        Document(machine=this_machine(PACKAGES, gpu), rows=tuple(rows)).model_dump_json(indent=1),
        options.json,
    )
    return 1 if any(row.failed for row in rows) else 0


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = output.parser(__doc__)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--jail", default="auto")
    parser.add_argument("--workers", type=int, nargs="+", default=[1])
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--shape", type=int, nargs=2, default=[16, 16], help="questions and replies a step")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--items", type=int, default=256)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def measured(options: argparse.Namespace, workers: int) -> Row:
    """All jobs by so many workers, after each has warmed up."""
    with tempfile.TemporaryDirectory() as runs:
        processes = [Worker(options, Path(runs)) for _ in range(workers)]
        try:
            with ThreadPoolExecutor(workers) as pool:
                warm = [orders(options.kinds, len(options.kinds), 1000 * (n + 1)) for n in range(workers)]
                list(pool.map(lambda pair: pair[0].drain(_queue(pair[1])), zip(processes, warm, strict=True)))
                queue, began = _queue(orders(options.kinds, options.jobs, 0)), time.monotonic()
                done = list(chain.from_iterable(pool.map(lambda process: process.drain(queue), processes)))
                seconds = time.monotonic() - began
        finally:
            for process in processes:
                process.close()
    return row(workers, seconds, done)


def orders(kinds: Sequence[str], count: int, first: int) -> list[Order]:
    """Jobs of the kinds in turn, each under a task of its own."""
    return [
        Order(task=f"{kinds[number % len(kinds)]}@{first + number // len(kinds)}", seed=first + number)
        for number in range(count)
    ]


def _queue(found: Iterable[Order]) -> Queue[Order]:
    queue: Queue[Order] = Queue()
    for order in found:
        queue.put(order)
    return queue


def row(workers: int, seconds: float, done: Sequence[Done]) -> Row:
    """The figures, and a line for people."""
    lifts: dict[str, list[float]] = {}
    for each in done:
        lifts.setdefault(each.task.partition("@")[0], []).append(each.after - each.before)
    made = Row(
        workers=workers,
        jobs=len(done),
        seconds=seconds,
        jobs_an_hour=3600 * len(done) / seconds,
        median_seconds=median(each.seconds for each in done),
        setup=fmean(each.setup for each in done),
        train=fmean(each.train for each in done),
        grade=fmean(each.grade for each in done),
        memory=max(each.memory for each in done),
        mismatch=max(each.mismatch for each in done),
        lifts={kind: round(fmean(values), 3) for kind, values in sorted(lifts.items())},
        failed=tuple(
            f"{each.task}: {each.status} {each.reason}"
            for each in done
            if each.status not in ("ok", "no_signal")
        ),
    )
    print(
        f"{workers} workers: {made.jobs} jobs in {seconds:.1f} s = {made.jobs_an_hour:.0f} an hour; a job "
        f"{made.median_seconds:.2f} s (set-up {made.setup:.2f}, training {made.train:.2f}, grading "
        f"{made.grade:.2f}); {made.memory / 2**30:.1f} GB a worker; mismatch_kl at most {made.mismatch:.1e}; "
        f"{len(made.failed)} failed; uplift {made.lifts}",
        file=sys.stderr,
        flush=True,
    )
    return made


class Worker:
    """A process that runs jobs one after the other."""

    def __init__(self, options: argparse.Namespace, runs: Path) -> None:
        settings = ["--device", options.device, "--jail", options.jail, "--items", str(options.items)]
        settings += ["--steps", str(options.steps), "--shape", *map(str, options.shape)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.jobs", "--worker", str(runs), *settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def drain(self, queue: Queue[Order]) -> list[Done]:
        """Run jobs of the queue until it is empty."""
        assert self._process.stdin and self._process.stdout
        done: list[Done] = []
        while True:
            try:
                order = queue.get_nowait()
            except Empty:
                return done
            self._process.stdin.write(order.model_dump_json() + "\n")
            self._process.stdin.flush()
            done.append(Done.model_validate_json(self._process.stdout.readline()))

    def close(self) -> None:
        """No more jobs: it ends."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


async def work(options: argparse.Namespace) -> None:
    """Read orders, run jobs, write what came of them."""
    config = RunConfig(
        run="jobs",
        runs=options.worker,
        engine=EngineConfig(device=options.device),
        jail=JailConfig(kind=options.jail),
        trainer=EmbeddedTrainerConfig(keep_weights=False),
    )
    async with Workshop.open(config) as workshop:
        while line := await asyncio.to_thread(sys.stdin.readline):
            order, began = Order.model_validate_json(line), time.monotonic()
            with tempfile.TemporaryDirectory() as scratch:
                folder, task = written(order, options, Path(scratch) / "job")
                result = await workshop.run_job(folder, task, seed=order.seed)
            seconds = time.monotonic() - began
            steps = workshop.run.job(result.job) / "metrics.jsonl"
            print(told(result, seconds, steps, options.device).model_dump_json(), flush=True)


def written(order: Order, options: argparse.Namespace, folder: Path) -> tuple[Path, Task]:
    """The enlarged reference job, and the task with a budget that allows it."""
    task = families.task(order.task)
    questions, replies = options.shape
    rollouts = options.steps * questions * replies
    budget = {"max_steps": options.steps, "max_tokens": 4 * rollouts * task.evaluation.max_tokens}
    task = task.model_copy(
        update={
            "budget": task.budget.model_copy(update=budget | {"train_seconds": 3600.0}),
            "evaluation": task.evaluation.model_copy(update={"items": options.items}),
            "bases": task.bases[:1],
        }
    )
    jobs.init(folder, task, "reference")
    toml = (folder / "rl.toml").read_text()
    sizes = {"max_steps": options.steps, "batch_size": questions * replies, "group_size": replies}
    for key, value in sizes.items():
        toml = re.sub(rf"^{key} = \d+.*$", f"{key} = {value}", toml, flags=re.MULTILINE)
    (folder / "rl.toml").write_text(toml)
    return folder, task


def told(result: JobResult, seconds: float, metrics: Path, device: str) -> Done:
    """The record of one job."""
    kls = re.findall(r'"mismatch_kl":\s*([-+.\deE]+)', metrics.read_text()) if metrics.exists() else []
    return Done(
        task=result.task,
        status=result.status,
        reason=result.reason,
        steps=result.steps,
        tokens=result.tokens,
        seconds=seconds,
        setup=result.seconds.setup if result.seconds else 0.0,
        train=result.seconds.train if result.seconds else 0.0,
        grade=result.seconds.grade if result.seconds else 0.0,
        before=result.pre.mean if result.pre else 0.0,
        after=result.post.mean if result.post else 0.0,
        mismatch=max(map(float, kls), default=0.0),
        memory=peak(device),
    )


def peak(device: str) -> int:
    """Bytes that this process took at most, on the device where it uses one."""
    import torch

    if device != "cpu" and torch.cuda.is_available():
        return torch.cuda.max_memory_reserved()
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


if __name__ == "__main__":
    sys.exit(main())
