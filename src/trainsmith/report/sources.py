"""Reads a run directory and its ledger into views. What is missing or cut off is left out, not an error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

from trainsmith import families, versions
from trainsmith.config.grading import GradingConfig
from trainsmith.episode import trace
from trainsmith.errors import MachineError, UserError
from trainsmith.grading import examples
from trainsmith.grading.baselines import KeptScore
from trainsmith.grading.statistics import mean_interval
from trainsmith.ledger import EpisodeRow, Ledger
from trainsmith.records import HiddenScore, JobResult, Task
from trainsmith.report.listing import source_files
from trainsmith.report.views import EpisodeView, ItemFlow, JobView, ModelScore, Report
from trainsmith.runs import RunDirectory
from trainsmith.trainers import metrics

T = TypeVar("T")
LATEST, ALL = "latest", "all"
MAX_DETAILED = 40
"""Episodes, and jobs without one, that `all` shows in full: the last ones. The rest are in the overview."""


def gather(run: RunDirectory, which: str) -> Report:
    """The views of one episode (by id or `latest`), or of `all` episodes and jobs of a run.

    A run without episodes shows its latest job. Raises UserError for a folder that is no run and for an
    unknown id.
    """
    with Ledger.existing(run.root) as ledger:
        return _Reader(run, ledger).report(which)


class _Reader:
    """One run while it is read."""

    def __init__(self, run: RunDirectory, ledger: Ledger) -> None:
        self._run = run
        self._ledger = ledger
        self._level = _level(run)

    def report(self, which: str) -> Report:
        rows = self._rows(which)
        episodes = tuple(self._episode(row, detailed) for row, detailed in _last(rows))
        owned = {view.job.identity for view in episodes if view.job}
        alone = [found for found in self._ledger.jobs.results() if found.job not in owned]
        if which != ALL:
            alone = [] if rows else alone[-1:]
        jobs = tuple(self._job(result, detailed) for result, detailed in _last(alone))
        return Report(self._run.root.resolve().name, datetime.now(UTC), self._level, episodes, jobs)

    def _rows(self, which: str) -> tuple[EpisodeRow, ...]:
        episodes = self._ledger.episodes
        if which == ALL:
            return episodes.all()
        row = episodes.latest() if which == LATEST else episodes.row(which)
        if row is None and which != LATEST:
            known = ", ".join(row.id for row in episodes.all()[-5:]) or "none"
            fix = f"name one of: {known}, or `latest` or `all`"
            raise UserError(f"there is no episode {which!r}", where=str(self._run.root), fix=fix)
        return (row,) if row else ()

    def _episode(self, row: EpisodeRow, detailed: bool) -> EpisodeView:
        folder, record = self._run.episode(row.id), row.record
        result = record.result if record else None
        return EpisodeView(
            id=row.id,
            agent=row.agent,
            task_id=row.task,
            state=row.state,
            task=_task(row.task),
            record=record,
            turns=tuple(trace.read(folder)) if detailed else (),
            files=source_files(folder / ((record and record.job) or "workspace")) if detailed else (),
            job=self._job(result, detailed) if result and result.job else None,
            detailed=detailed,
        )

    def _job(self, result: JobResult, detailed: bool) -> JobView:
        if not detailed:
            return JobView(result, None, (), None, (), (), None, None, detailed=False)
        folder = self._run.job(result.job)
        kept = self._ledger.scores.of_items(result.task, result.items) if result.items else ()
        return JobView(
            result=result,
            task=_task(result.task),
            steps=metrics.read(folder / "metrics.jsonl"),
            examples=examples.read(folder),
            files=source_files(folder / "job"),
            models=self._models(result, kept),
            flow=_flow(result, kept),
            versions=versions.read(folder),
        )

    def _models(self, result: JobResult, kept: tuple[KeptScore, ...]) -> tuple[ModelScore, ...]:
        """The untrained bases, worst first, then the trained model."""
        bases = {
            each.key.model: mean_interval(each.score.scores, self._level) for each in kept if each.is_base
        }
        if result.pre:
            bases[result.base_model] = result.pre
        rows = [ModelScore(name, found, name == result.base_model) for name, found in bases.items()]
        rows.sort(key=lambda row: row.interval.mean)
        if result.post:
            rows.append(ModelScore(result.base_model, result.post, chosen=True, trained=True))
        return tuple(rows)


def _last(found: Sequence[T]) -> list[tuple[T, bool]]:
    """All of `found`, each with whether it is among those shown in full."""
    return [(each, len(found) - number <= MAX_DETAILED) for number, each in enumerate(found)]


def _flow(result: JobResult, kept: tuple[KeptScore, ...]) -> ItemFlow | None:
    """Items by outcome before and after, where both scores are kept and 0/1."""
    before = _score(kept, result.base_model, base=True)
    after = _score(kept, result.job, base=False)
    if before is None or after is None or {*before.scores, *after.scores} - {0.0, 1.0}:
        return None
    pairs = list(zip(before.scores, after.scores, strict=True))
    return ItemFlow(*(pairs.count(kind) for kind in ((1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0))))


def _score(kept: tuple[KeptScore, ...], model: str, *, base: bool) -> HiddenScore | None:
    return next((each.score for each in kept if each.key.model == model and each.is_base is base), None)


def _task(task: str) -> Task | None:
    """The task, if its family is installed here and works."""
    try:
        return families.task(task)
    except (UserError, MachineError):
        return None


def _level(run: RunDirectory) -> float:
    """The confidence level in the run's config; the default where it says none."""
    settings = json.loads(run.config.read_text(encoding="utf-8")) if run.config.is_file() else {}
    grading = settings.get("grading") if isinstance(settings, dict) else None
    return GradingConfig.model_validate(grading or {}).level
