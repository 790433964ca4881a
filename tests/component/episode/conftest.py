"""A task, its reference job, and services that check jobs without a jail or a model."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trainsmith import jobs, reward
from trainsmith.errors import AgentError, MachineError
from trainsmith.records import (
    BaselineScore,
    Budget,
    Check,
    EpisodeLimits,
    Interval,
    Item,
    JobResult,
    Message,
    ProbeReport,
    Seeds,
    Status,
    Task,
    Tier,
    Verdict,
)
from trainsmith.records.job import JobFile

PACKAGE = """\
import verifiers.v1 as vf


class Data(vf.TaskData):
    answer: str


class LastWord(vf.Task[Data]):
    @vf.reward
    async def correct(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == self.data.answer)


class LastWordTaskset(vf.Taskset[LastWord, vf.TasksetConfig]):
    def load(self):
        for number in range(256):
            yield LastWord(Data(prompt=f"river stone {number}", answer=str(number)), self.config.task)


__all__ = ["LastWordTaskset"]
"""

TOML = """\
max_steps = 20
seq_len = 128

[model]
name = "smollm2-135m"

[orchestrator]
batch_size = 64
group_size = 8

[[orchestrator.train.source]]
env.taskset.id = "last_word"

[trainer.optim]
lr = 3e-5
"""

REFERENCE = (
    JobFile(path="rl.toml", content=TOML),
    JobFile(path="environment/last_word/__init__.py", content=PACKAGE),
    JobFile(path="environment/last_word/words.txt", content="river\nstone\n"),
)


class LocalServices:
    """Probes by what can be seen without running anything: files, settings, syntax, rewards that return.

    `faults` are raised, each once, by the service of that name before it does its work.
    """

    def __init__(self, task: Task, **faults: MachineError | AgentError) -> None:
        self.task = task
        self.faults = faults
        self.probed: list[Path] = []
        self.trained: list[tuple[Path, int]] = []

    async def probe(self, job_dir: Path) -> ProbeReport:
        self._fault("probe")
        await asyncio.sleep(0.01)  # others may act while a probe runs
        self.probed.append(job_dir)
        return ProbeReport(checks=tuple(self._checks(job_dir)), seconds=0.0)

    async def baseline_scores(self) -> tuple[BaselineScore, ...]:
        self._fault("baseline_scores")
        score = Interval(mean=0.56, low=0.5, high=0.62, n=256)
        return tuple(BaselineScore(base=base, score=score) for base in self.task.bases)

    async def run_job(self, job_dir: Path, validation_attempt: int) -> JobResult:
        self._fault("run_job")
        self.trained.append((job_dir, validation_attempt))
        job = jobs.load(job_dir, self.task)
        inputs = reward.RewardInputs(
            validation_attempt=validation_attempt,
            max_validations=self.task.limits.max_validations,
            post=0.9,
            baseline=0.56,
            tokens=1_000,
            budget=self.task.budget.max_tokens,
        )
        return JobResult(
            task=self.task.id,
            job="0" * 64,
            status=Status.OK,
            base_model=job.base,
            base_revision="r",
            trainer="local",
            seeds=Seeds(train=1),
            reward=reward.reward(inputs),
        )

    def _checks(self, job_dir: Path) -> Iterator[Check]:
        try:
            job = jobs.load(job_dir, self.task)
        except jobs.JobError as error:
            for problem in error.problems:
                evidence = f"{problem.where}: {problem.what}"
                yield Check(name="folder", verdict=Verdict.FAIL, evidence=evidence, fix=problem.fix)
            return
        yield Check(name="folder", verdict=Verdict.PASS, evidence="")
        tree = ast.parse((job_dir / "environment" / job.package / "__init__.py").read_text())
        rewards = [node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)]
        silent = [node.name for node in rewards if not any(isinstance(n, ast.Return) for n in ast.walk(node))]
        verdict = Verdict.FAIL if silent or not rewards else Verdict.PASS
        yield Check(
            name="rewards", verdict=verdict, evidence=f"{silent} return nothing", fix="return a number"
        )

    def _fault(self, service: str) -> None:
        if error := self.faults.pop(service, None):
            raise error


@pytest.fixture
def task() -> Task:
    prefix = (Message(role="system", content="Reply with the last word."),)
    return Task(
        id="strings/last-word@0",
        family="strings",
        kind="last-word",
        seed=0,
        tier=Tier.MICRO,
        brief="Name the last word of a list.",
        prefix=prefix,
        examples=tuple(Item(question=f"a b {word}", answer=word) for word in ("river", "stone")),
        bases=("smollm2-135m", "smollm2-135m-28l"),
        budget=Budget(train_seconds=180, max_steps=60, max_tokens=1_000_000),
        limits=EpisodeLimits(max_turns=40, max_validations=3),
    )


@pytest.fixture
def files() -> tuple[JobFile, ...]:
    return REFERENCE


@pytest.fixture
def services_for() -> Callable[..., LocalServices]:
    return LocalServices
