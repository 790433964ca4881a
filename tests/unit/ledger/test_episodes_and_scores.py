"""Episodes are finished once; scores are kept once and only under their own key."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from trainsmith.errors import MachineError
from trainsmith.grading.baselines import ScoreKey
from trainsmith.ledger import Claim, EpisodeState, Ledger
from trainsmith.records import HiddenScore, JobResult, RewardParts, Seeds, Status
from trainsmith.records.episode import EpisodeRecord, Start

JOB = "ab" * 32
REWARD = RewardParts(total=0.5, validation=1.0, quality=0.4, speed=0.6)


def record(episode: str = "e1", status: Status = Status.OK, job: str = "") -> EpisodeRecord:
    found = JobResult(
        task="t",
        job=job,
        status=status,
        base_model="b",
        base_revision="r",
        trainer="embedded",
        seeds=Seeds(train=0),
    )
    return EpisodeRecord(
        id=episode,
        task="t",
        agent="reference",
        start=Start.EMPTY,
        status=status,
        turns=4,
        validations=1,
        validation_attempt=1,
        result=found if job else None,
        reward=None if status is Status.VOID else REWARD,
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(tmp_path)


def test_an_episode_is_finished_once(ledger: Ledger) -> None:
    """Guards against a second record, and against beginning a finished episode again."""
    assert ledger.episodes.begin("e1", task="t", agent="reference") is None
    ledger.episodes.finish(record())
    assert ledger.episodes.begin("e1", task="t", agent="reference") == record()
    with pytest.raises(MachineError, match="not running"):
        ledger.episodes.finish(record())
    row = ledger.episodes.row("e1")
    assert row is not None
    assert (row.state, row.attempt, row.record) == (EpisodeState.FINISHED, 1, record())


def test_void_and_interrupted_episodes_begin_again(ledger: Ledger) -> None:
    """Guards against losing an episode to the infrastructure; attempts are counted."""
    for _ in range(2):
        assert ledger.episodes.begin("e1", task="t", agent="a") is None
    ledger.episodes.finish(record(status=Status.VOID))
    assert ledger.episodes.begin("e1", task="t", agent="a") is None
    row = ledger.episodes.row("e1")
    assert row is not None
    assert (row.state, row.attempt, row.record) == (EpisodeState.RUNNING, 3, None)


def test_an_episodes_job_is_in_the_ledger(ledger: Ledger) -> None:
    """Guards against an episode whose job nobody can look up."""
    ledger.episodes.begin("e1", task="t", agent="a")
    with pytest.raises(sqlite3.IntegrityError):
        ledger.episodes.finish(record(job=JOB))
    claim = ledger.jobs.claim(JOB)
    assert isinstance(claim, Claim)
    claim.release()
    ledger.episodes.finish(record(job=JOB))


def test_latest_is_the_last_begun(ledger: Ledger) -> None:
    """Guards against `report RUN` showing an old episode."""
    assert ledger.episodes.latest() is None
    for episode in ("e1", "e2", "e1"):
        ledger.episodes.begin(episode, task="t", agent="a")
    latest = ledger.episodes.latest()
    assert latest is not None
    assert latest.id == "e2"
    assert [row.id for row in ledger.episodes.all()] == ["e1", "e2"]


def test_scores_are_kept_under_all_they_depend_on(ledger: Ledger) -> None:
    """Guards against answering with the score of other items, weights or sampling."""
    key = ScoreKey(task="t", model="b", revision="r", items="i", evaluation="e")
    score = HiddenScore(model="b@r", items="i", scores=(0.0, 1.0))
    ledger.scores.keep_score(key, score)
    ledger.scores.keep_score(key, score.model_copy(update={"scores": (1.0, 1.0)}))
    assert ledger.scores.score(key) == score
    for field in ("task", "model", "revision", "items", "evaluation"):
        assert ledger.scores.score(key.model_copy(update={field: "other"})) is None
    with pytest.raises(ValueError, match="does not belong"):
        ledger.scores.keep_score(key, score.model_copy(update={"items": "other"}))
