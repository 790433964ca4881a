"""The sentences at the head of a job or an episode: what came out, in plain words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from trainsmith.ledger import EpisodeState
from trainsmith.records import JobResult, Status
from trainsmith.report.text import bounds, p_value, score, signed
from trainsmith.report.views import EpisodeView

Tone = Literal["good", "neutral", "bad"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came out."""

    label: str
    """A word for a badge."""
    sentence: str
    tone: Tone


_ENDINGS = {
    Status.INVALID: Verdict("invalid", "Nothing valid was submitted.", "bad"),
    Status.FAILED: Verdict("failed", "The job failed.", "bad"),
    Status.NO_SIGNAL: Verdict(
        "no signal", "Training stopped: no group of rollouts had unequal rewards.", "bad"
    ),
    Status.TIMEOUT: Verdict("time-out", "The job ran out of its budget.", "bad"),
    Status.CANCELLED: Verdict("cancelled", "The job was cancelled.", "neutral"),
    Status.VOID: Verdict("void", "The infrastructure failed; this is not scored.", "neutral"),
}


def of_job(result: JobResult, level: float) -> Verdict:
    """The verdict on one job."""
    ending = _ENDINGS.get(result.status)
    scored = _scored(result, level)
    if ending is None:
        done = scored or Verdict("done", "The job ran and was not graded.", "neutral")
        return replace(done, sentence=f"{done.sentence} {_reason(result.reason)}".strip())
    words = [ending.sentence, _reason(result.reason), scored.sentence if scored and result.uplift else ""]
    return Verdict(ending.label, " ".join(word for word in words if word), ending.tone)


def of_episode(view: EpisodeView, level: float) -> Verdict:
    """The verdict on one episode: its job's, where there is one."""
    if view.record is None:
        word = "running" if view.state is EpisodeState.RUNNING else str(view.state)
        return Verdict(word, "The episode has no record yet: it still runs, or it was cut off.", "neutral")
    if view.job is not None:
        return of_job(view.job.result, level)
    ending = _ENDINGS.get(view.record.status, Verdict(view.record.status, "", "neutral"))
    return Verdict(ending.label, f"{ending.sentence} {_reason(view.record.reason)}".strip(), ending.tone)


def _scored(result: JobResult, level: float) -> Verdict | None:
    if result.pre is None or result.post is None or result.uplift is None:
        return None
    uplift = result.uplift
    interval = f"{100 * level:.0f} % interval {bounds(uplift)}"
    figures = f"{signed(uplift.mean)}, {interval}, {p_value(uplift.p)}, n = {uplift.n}"
    change = f"from {score(result.pre.mean)} to {score(result.post.mean)}"
    if uplift.low > 0:
        return Verdict("improved", f"Training raised the hidden score {change} ({figures}).", "good")
    if uplift.high < 0:
        return Verdict("worse", f"Training lowered the hidden score {change} ({figures}).", "bad")
    sentence = f"The hidden score went {change}: a difference within noise ({figures})."
    return Verdict("no difference", sentence, "neutral")


def _reason(reason: str) -> str:
    """The reason as a sentence of its own."""
    text = reason.strip().rstrip(".")
    return f"{text[:1].upper()}{text[1:]}." if text else ""
