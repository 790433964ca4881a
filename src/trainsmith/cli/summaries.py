"""Results as a few lines of text. Every score has its n, its interval, and says where it came from."""

from __future__ import annotations

from trainsmith.records import (
    BaselineScore,
    Difference,
    EpisodeRecord,
    Interval,
    JobResult,
    ProbeReport,
    RewardParts,
    Verdict,
)

_MARKS = {Verdict.PASS: "ok", Verdict.FAIL: "FAIL", Verdict.SKIP: "skip"}


def interval(value: Interval | None) -> str:
    """`0.512 [0.451, 0.573] n=256`."""
    return f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}] n={value.n}" if value else "none"


def difference(value: Difference | None) -> str:
    """`+0.488 [+0.420, +0.551], p=1e-30`."""
    if value is None:
        return "none"
    return f"{value.mean:+.3f} [{value.low:+.3f}, {value.high:+.3f}], p={value.p:.2g}, n={value.n}"


def rewards(parts: RewardParts | None) -> str:
    """The reward with its parts."""
    if parts is None:
        return "void: not scored"
    return (
        f"{parts.total:.3f} (validation {parts.validation:.2f}, quality {parts.quality:.3f}, "
        f"speed {parts.speed:.2f})"
    )


def job(result: JobResult) -> str:
    """A finished job."""
    lines = [
        f"task      {result.task}",
        f"job       {result.job[:16]}  trainer {result.trainer}, training seed {result.seeds.train}",
        f"base      {result.base_model} @ {result.base_revision}",
        f"status    {result.status}" + (f": {result.reason}" if result.reason else ""),
        f"before    {interval(result.pre)}",
        f"after     {interval(result.post)}",
        f"uplift    {difference(result.uplift)}",
    ]
    if result.best_base:
        lines.append(f"best base {result.best_base.name} {result.best_base.mean:.3f}")
    lines += [
        f"work      {result.steps} steps, {result.rollouts} rollouts, {result.tokens} tokens, "
        f"{result.seconds.train:.1f} s training, {result.seconds.grade:.1f} s grading",
        f"reward    {rewards(result.reward)}",
        f"items     {result.items or 'none'}, evaluation seed {result.seeds.evaluation}; "
        f"{100 * result.level:g} % intervals",
    ]
    return "\n".join(lines)


def probe(report: ProbeReport) -> str:
    """A probe's checks, one line each, with the fix under each failure."""
    lines = []
    for check in report.checks:
        lines.append(f"{_MARKS[check.verdict]:<5} {check.name}: {check.evidence}")
        if check.verdict is Verdict.FAIL:
            lines.append(f"      fix: {check.fix}")
    verdict = "passes" if report.passed else "does not pass"
    lines.append(f"the job {verdict} the probe ({report.seconds:.1f} s)")
    return "\n".join(lines)


def failure(report: ProbeReport) -> str:
    """The first failed check in one line, for an error message."""
    failed = report.failures
    first = failed[0]
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return f"{first.name}: {first.evidence}{more}. Fix: {first.fix}"


def episode(record: EpisodeRecord) -> str:
    """A finished episode."""
    head = [
        f"episode   {record.id}: {record.agent} on {record.task}, start {record.start}",
        f"agent     {record.turns} turns, {record.validations} probes"
        + (f", passed on probe {record.validation_attempt}" if record.validation_attempt else ""),
    ]
    if record.result is not None:
        return "\n".join([*head, job(record.result.model_copy(update={"reward": record.reward}))])
    status = f"status    {record.status}" + (f": {record.reason}" if record.reason else "")
    return "\n".join([*head, status, f"reward    {rewards(record.reward)}"])


def baseline(scores: tuple[BaselineScore, ...]) -> str:
    """Untrained bases, one line each."""
    return "\n".join(f"{each.base:<20} {interval(each.score)}" for each in scores)
