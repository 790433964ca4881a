"""The figures of a job: which of its numbers are drawn, and how."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from trainsmith.records import Seconds
from trainsmith.report.charts import LineChart, interval_row, line_chart, stacked_bar
from trainsmith.report.views import ItemFlow, JobView, ModelScore
from trainsmith.trainers.metrics import StepMetrics


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One model in the interval plot."""

    score: ModelScore
    svg: Markup


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a bar, for its legend."""

    label: str
    amount: float
    kind: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A stacked bar with its legend."""

    svg: Markup
    parts: tuple[Part, ...]


def training_charts(steps: tuple[StepMetrics, ...]) -> tuple[LineChart, ...]:
    """Reward, usable groups, mismatch and speed by step; none for a job without a finished step."""
    if not steps:
        return ()
    numbers = [each.step for each in steps]
    usable = [each.usable_groups / max(1, each.groups) for each in steps]
    return (
        line_chart(
            "Reward",
            numbers,
            [each.reward_mean for each in steps],
            unit="mean of the rollouts, band: ± 1 deviation",
            spread=[each.reward_std for each in steps],
            share=all(0.0 <= each.reward_mean <= 1.0 for each in steps),
        ),
        line_chart("Usable groups", numbers, usable, unit="share with unequal rewards", share=True),
        line_chart(
            "Mismatch", numbers, [each.mismatch_kl for each in steps], unit="KL of sampler and learner, nats"
        ),
        line_chart(
            "Speed", numbers, [each.tokens_per_second for each in steps], unit="generated tokens a second"
        ),
    )


def score_rows(job: JobView) -> tuple[ScoreRow, ...]:
    """The models' hidden scores with intervals, and the best base as a mark across the rows."""
    mark = job.result.best_base.mean if job.result.best_base else None
    return tuple(_score_row(score, mark) for score in job.models)


def flow_bar(flow: ItemFlow) -> Bar:
    """Hidden items that stayed right, were won, lost, or stayed wrong."""
    return _bar(
        Part("right before and after", flow.kept, "kept"),
        Part("won", flow.won, "won"),
        Part("lost", flow.lost, "lost"),
        Part("wrong before and after", flow.missed, "missed"),
    )


def seconds_bar(seconds: Seconds) -> Bar:
    """Wall time by phase."""
    return _bar(
        Part("queue", seconds.queue, "phase-queue"),
        Part("setup", seconds.setup, "phase-setup"),
        Part("train", seconds.train, "phase-train"),
        Part("grade", seconds.grade, "phase-grade"),
    )


def _score_row(score: ModelScore, mark: float | None) -> ScoreRow:
    kind = "trained" if score.trained else "base"
    found = score.interval
    return ScoreRow(score, interval_row(found.mean, found.low, found.high, mark=mark, kind=kind))


def _bar(*parts: Part) -> Bar:
    return Bar(stacked_bar([(part.label, part.amount, part.kind) for part in parts]), parts)
