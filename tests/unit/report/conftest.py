"""A run on disk as the product writes it, with the figures of a plausible demo."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from trainsmith import versions
from trainsmith.config.grading import GradingConfig
from trainsmith.episode.calls import (
    BaselineScores,
    Call,
    EditFile,
    ListFiles,
    Malformed,
    ReadFile,
    SubmitJob,
    ValidateJob,
    WriteFile,
)
from trainsmith.episode.machine import EpisodeState, observe
from trainsmith.episode.outcomes import (
    Accepted,
    Edited,
    Listed,
    Outcome,
    Probed,
    Refused,
    Scored,
    WasRead,
    Written,
)
from trainsmith.episode.trace import Trace, Turn
from trainsmith.grading import examples
from trainsmith.grading.baselines import ScoreKey
from trainsmith.grading.statistics import mean_interval, paired_difference
from trainsmith.ledger import Claim, Ledger
from trainsmith.records import (
    BaselineScore,
    BaseMean,
    Check,
    EpisodeLimits,
    EpisodeRecord,
    FileEntry,
    HiddenScore,
    JobResult,
    ProbeReport,
    RewardParts,
    Seconds,
    Seeds,
    Start,
    Status,
    Verdict,
)
from trainsmith.reward import RewardInputs, reward
from trainsmith.trainers.metrics import MetricsFile, StepMetrics

TASK = "strings/last-word@0"
JOB = "7c1e" + "5f" * 30
BASE, WEAK = "smollm2-135m", "smollm2-135m-28l"
ITEMS = "9b1d6f0c2a7e4d55"
RL_TOML = """\
[model]
name = "smollm2-135m"

[trainer]
max_steps = 24

[trainer.optim]
lr = 3e-5

[orchestrator]
batch_size = 64
group_size = 8

[[orchestrator.train.env]]
id = "last_word"
"""
TASKSET = '''\
"""Teaches a model to answer with the last word of a sentence."""

import random

import verifiers.v1 as vf

WORDS = "river stone lamp garden winter copper violin harbour".split()


class LastWord(vf.Taskset):
    def load(self):
        rng = random.Random(7)
        for _ in range(512):
            words = rng.sample(WORDS, rng.randint(4, 7))
            yield self.task(question=" ".join(words), answer=words[-1])

    @vf.reward
    def exact(self, task, reply: str) -> float:
        return 1.0 if reply.strip().lower() == task.answer else 0.0
'''
FAILED_PROBE = ProbeReport(
    seconds=6.2,
    checks=(
        Check(name="folder", verdict=Verdict.PASS, evidence="3 files, 2.1 kB", seconds=0.1),
        Check(name="import", verdict=Verdict.PASS, evidence="last_word imports in 3.1 s", seconds=3.1),
        Check(
            name="rewards are not constant",
            verdict=Verdict.FAIL,
            evidence="all 64 replies earned 0.0, also the right ones: 'harbour ' is compared with 'harbour'",
            fix="strip the reply before you compare it",
            seconds=1.4,
        ),
        Check(name="signal", verdict=Verdict.SKIP, evidence="rests on rewards that differ"),
    ),
)
PASSED_PROBE = ProbeReport(
    seconds=9.8,
    checks=(
        Check(name="folder", verdict=Verdict.PASS, evidence="3 files, 2.1 kB", seconds=0.1),
        Check(name="import", verdict=Verdict.PASS, evidence="last_word imports in 3.0 s", seconds=3.0),
        Check(
            name="rewards are not constant",
            verdict=Verdict.PASS,
            evidence="right answers 1.00, junk 0.00",
            seconds=1.5,
        ),
        Check(
            name="signal",
            verdict=Verdict.PASS,
            evidence="5 of 6 groups of 8 samples have unequal rewards (mean 0.38)",
            seconds=4.9,
        ),
    ),
)


def hidden_scores() -> dict[str, tuple[float, ...]]:
    """0/1 scores of 256 items: weak base, base, trained model."""
    rng = np.random.default_rng(11)
    base = (rng.random(256) < 0.42).astype(float)
    trained = np.where(base == 1.0, rng.random(256) < 0.95, rng.random(256) < 0.7).astype(float)
    weak = (rng.random(256) < 0.21).astype(float)
    return {WEAK: tuple(weak), BASE: tuple(base), JOB: tuple(trained)}


def steps(count: int = 24) -> list[StepMetrics]:
    rng = np.random.default_rng(5)
    found = []
    for step in range(1, count + 1):
        mean = 0.36 + 0.55 / (1 + math.exp(-(step - 9) / 3)) + rng.normal(0, 0.025)
        found.append(
            StepMetrics(
                step=step,
                reward_mean=min(1.0, mean),
                reward_std=max(0.05, math.sqrt(max(0.0, mean * (1 - mean))) * 0.8),
                groups=8,
                usable_groups=int(np.clip(round(8 - step / 6 + rng.normal(0, 0.6)), 2, 8)),
                rollouts=64,
                failed_rollouts=0,
                generated_tokens=int(300 + rng.integers(0, 80)),
                trained_tokens=int(300 + rng.integers(0, 80)),
                loss=float(rng.normal(0, 0.01)),
                entropy=1.2 * math.exp(-step / 12),
                mismatch_kl=float(abs(rng.normal(4e-4, 1e-4))),
                grad_norm=float(abs(rng.normal(1.1, 0.2))),
                masked_fraction=0.01,
                lr=3e-5,
                rollout_seconds=1.9,
                update_seconds=1.6,
                tokens_per_second=float(rng.normal(186, 9)),
            )
        )
    return found


def result(**changes: object) -> JobResult:
    scores = hidden_scores()
    pre, post = scores[BASE], scores[JOB]
    means = {name: sum(values) / len(values) for name, values in scores.items()}
    inputs = RewardInputs(
        validation_attempt=2,
        max_validations=3,
        post=means[JOB],
        baseline=means[BASE],
        tokens=18_431,
        budget=60_000,
    )
    return JobResult(
        task=TASK,
        job=JOB,
        status=Status.OK,
        base_model=BASE,
        base_revision="76a5402aaa91",
        trainer="embedded",
        seeds=Seeds(train=3, evaluation=0),
        items=ITEMS,
        pre=mean_interval(pre),
        post=mean_interval(post),
        uplift=paired_difference(pre, post),
        best_base=BaseMean(name=BASE, mean=means[BASE]),
        bases=(BaseMean(name=BASE, mean=means[BASE]), BaseMean(name=WEAK, mean=means[WEAK])),
        steps=24,
        rollouts=1536,
        tokens=18_431,
        seconds=Seconds(queue=0.4, setup=4.2, train=84.6, grade=11.3),
        reward=reward(inputs),
    ).model_copy(update=changes)


class Play:
    """Folds outcomes through the real state machine into a trace."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._trace = Trace(folder)
        self._state = EpisodeState(limits=EpisodeLimits())
        self._number = 0

    def turn(self, call: Call, outcome: Outcome, note: str = "", seconds: float = 0.02) -> None:
        self._state, observation = observe(self._state, outcome)
        self._number += 1
        self._trace.append(
            Turn(
                number=self._number,
                note=note,
                call=call,
                outcome=outcome,
                observation=observation,
                thinking=1.5,
                seconds=seconds,
            )
        )


def play(folder: Path) -> None:
    """The demo's turns: a look around, two files, a failed probe, an edit, a submission."""
    stage = Play(folder)
    guide = FileEntry(path="GUIDE.md", size=5120, read_only=True)
    taskset = FileEntry(path="environment/last_word/__init__.py", size=len(TASKSET))
    scores = tuple(
        BaselineScore(base=name, score=mean_interval(hidden_scores()[name])) for name in (BASE, WEAK)
    )
    stage.turn(ListFiles(), Listed(files=(guide,)), "Let me see what is here.")
    stage.turn(ReadFile(path="GUIDE.md"), WasRead(path="GUIDE.md", content="# How to write a job\n\n..."))
    stage.turn(BaselineScores(), Scored(scores=scores), "Which base is worth training?", 8.4)
    stage.turn(
        WriteFile(path="rl.toml", content=RL_TOML),
        Written(file=FileEntry(path="rl.toml", size=len(RL_TOML))),
        "The strong base, and a learning rate that moves 135M parameters in 24 steps.",
    )
    broken = TASKSET.replace("reply.strip().lower()", "reply")
    stage.turn(WriteFile(path=taskset.path, content=broken), Written(file=taskset))
    stage.turn(
        Malformed(error="the call is no JSON object", fix="give one JSON object", raw='validate_job("now")'),
        Refused(error="the call is no JSON object", fix="give one JSON object"),
    )
    stage.turn(
        ValidateJob(),
        Probed(attempt=1, submit=False, job="a1", report=FAILED_PROBE),
        seconds=FAILED_PROBE.seconds,
    )
    stage.turn(
        EditFile(path=taskset.path, old="reply == task.answer", new="reply.strip().lower() == task.answer"),
        Edited(file=taskset, line=19),
        "The model adds a space; strip it.",
    )
    stage.turn(
        ValidateJob(),
        Probed(attempt=2, submit=False, job="b2", report=PASSED_PROBE),
        seconds=PASSED_PROBE.seconds,
    )
    stage.turn(SubmitJob(), Accepted(job="b2"), "Submitting.")


def public_examples(folder: Path) -> None:
    questions = [
        "river stone lamp", "a copper violin in winter", "garden harbour stone river", "lamp winter",
        "the harbour is cold", "violin lamp garden", "stone copper winter lamp", "harbour violin",
    ]  # fmt: skip
    before = [
        "river",
        "winter",
        "garden harbour stone river",
        "winter",
        "cold.",
        "violin",
        "Lamp",
        "The last",
    ]
    after = ["lamp", "winter", "river", "winter", "cold", "garden", "lamp", "violin"]
    pairs = []
    for number, question in enumerate(questions):
        answer = question.split()[-1]
        replies = (before[number], after[number])
        both = [examples.Reply(turns=(text,), score=float(text == answer)) for text in replies]
        pairs.append(
            examples.ExamplePair(
                question=question, answer=answer, shown=number < 2, before=both[0], after=both[1]
            )
        )
    examples.write(folder, examples.Examples(base_model=BASE, pairs=tuple(pairs)))


def job_files(folder: Path) -> None:
    (folder / "environment" / "last_word").mkdir(parents=True)
    (folder / "rl.toml").write_text(RL_TOML)
    (folder / "environment" / "last_word" / "__init__.py").write_text(TASKSET)


def keep_scores(ledger: Ledger) -> None:
    for model, scores in hidden_scores().items():
        trained = model == JOB
        key = ScoreKey(
            task=TASK, model=model, revision="weights" if trained else "r1", items=ITEMS, evaluation="e"
        )
        name = "0a" * 32 if trained else f"{model}@r1"
        ledger.scores.keep_score(key, HiddenScore(model=name, items=ITEMS, scores=scores))


def job_on_disk(run: Path, ledger: Ledger, found: JobResult) -> None:
    """A finished job: its row and its folder."""
    folder = run / "jobs" / found.job
    job_files(folder / "job")
    file = MetricsFile(folder / "metrics.jsonl")
    for step in steps():
        file.append(step)
    file.close()
    public_examples(folder)
    versions.write(folder)
    (folder / "result.json").write_text(found.model_dump_json())
    claim = ledger.jobs.claim(found.job)
    assert isinstance(claim, Claim)
    ledger.jobs.finish(claim, found)


def record(**changes: object) -> EpisodeRecord:
    found = result()
    return EpisodeRecord(
        id="demo-1",
        task=TASK,
        agent="reference",
        start=Start.EMPTY,
        status=Status.OK,
        turns=10,
        validations=2,
        validation_attempt=2,
        probes=(FAILED_PROBE, PASSED_PROBE),
        job="validations/2",
        result=found,
        reward=found.reward,
        seconds=141.0,
    ).model_copy(update=changes)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with one finished episode."""
    folder = tmp_path / "demo"
    with Ledger.open(folder) as ledger:
        keep_scores(ledger)
        job_on_disk(folder, ledger, result())
        play(folder / "episodes" / "demo-1")
        job_files(folder / "episodes" / "demo-1" / "validations" / "2")
        ledger.episodes.begin("demo-1", task=TASK, agent="reference")
        ledger.episodes.finish(record())
    (folder / "config.json").write_text(json.dumps({"grading": GradingConfig().model_dump()}))
    return folder


@pytest.fixture
def eventful_run(run: Path) -> Path:
    """The same run with an invalid, a void, and a running episode, and a job without an episode."""
    with Ledger.open(run) as ledger:
        pre = hidden_scores()[BASE]
        nothing = result(
            job="ab" * 32, status=Status.NO_SIGNAL, reason="6 steps without a usable group", steps=6,
            post=mean_interval(pre), uplift=paired_difference(pre, pre),
        )  # fmt: skip
        job_on_disk(run, ledger, nothing)
        for number, (status, reason) in enumerate(
            [(Status.INVALID, "no validation left and no job has passed"), (Status.VOID, "the sampler died")],
            start=2,
        ):
            ledger.episodes.begin(f"demo-{number}", task=TASK, agent="broken")
            ledger.episodes.finish(
                record(
                    id=f"demo-{number}",
                    agent="broken",
                    status=status,
                    reason=reason,
                    job="",
                    result=None,
                    probes=(FAILED_PROBE,),
                    validation_attempt=None,
                    reward=None
                    if status is Status.VOID
                    else RewardParts(total=0, validation=0, quality=0, speed=0),
                )
            )
        ledger.episodes.begin("demo-4", task=TASK, agent="slow")
    return run
