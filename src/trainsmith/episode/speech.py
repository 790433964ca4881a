"""How outcomes are told to an agent: plain text, short, with the fix where something went wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from trainsmith.episode.outcomes import (
    Accepted,
    Edited,
    Listed,
    Outcome,
    Probed,
    Refused,
    Scored,
    Stopped,
    WasRead,
    Written,
)
from trainsmith.records import BaselineScore, Check, FileEntry, ProbeReport, Verdict

READ_LIMIT = 32_000
"""Characters of a file that one `read_file` shows."""


def describe(outcome: Outcome) -> str:
    """What the agent is told about `outcome`."""
    match outcome:
        case Listed():
            return listing(outcome.files)
        case WasRead():
            return _content(outcome.content)
        case Written():
            return f"Wrote {outcome.file.path} ({outcome.file.size} bytes)."
        case Edited():
            return f"Edited {outcome.file.path} at line {outcome.line}."
        case Scored():
            return "\n".join(_score(score) for score in outcome.scores) or "No baseline scores are known."
        case Probed():
            return _probed(outcome)
        case Accepted():
            return "Submitted. These very files had passed validation."
        case Refused():
            return refusal(outcome.error, outcome.fix)
        case Stopped():
            return f"Stopped: {outcome.reason}"
        case _:
            assert_never(outcome)


def refusal(error: str, fix: str) -> str:
    """One line: what is wrong and how to mend it."""
    return f"Error: {_told(error, fix)}"


def over(end: str | None) -> str:
    """That the episode takes no more actions, and why."""
    return f"The episode is over: {end}."


def listing(files: Iterable[FileEntry]) -> str:
    """One line a file."""
    return "\n".join(_file(entry) for entry in files) or "The workspace is empty."


def report(found: ProbeReport) -> str:
    """A probe report: the failures with their fixes, what was skipped and why, then what passed."""
    lines = [_failure(check) for check in found.failures]
    skipped: dict[str, list[str]] = {}
    for check in found.checks:
        if check.verdict is Verdict.SKIP:
            skipped.setdefault(check.evidence, []).append(check.name)
    lines += [f"SKIPPED {', '.join(names)}: {_told(why, '')}" for why, names in skipped.items()]
    passed = [check.name for check in found.checks if check.verdict is Verdict.PASS]
    return "\n".join([*lines, f"Passed: {', '.join(dict.fromkeys(passed))}." if passed else ""]).rstrip()


def _probed(outcome: Probed) -> str:
    passed = outcome.report.passed
    verdict = "passed" if passed else "failed"
    head = f"Validation {outcome.attempt} {verdict}."
    if passed and outcome.submit:
        head += " Submitted."
    elif not passed and outcome.submit:
        head += " Not submitted."
    return f"{head}\n{report(outcome.report)}".rstrip()


def _failure(check: Check) -> str:
    return f"FAILED {check.name}: {_told(check.evidence, check.fix)}"


def _told(what: str, fix: str) -> str:
    """What is wrong and how to mend it, each ending in one full stop."""
    sentences = [what.rstrip(". "), f"Fix: {fix.rstrip('. ')}" if fix else ""]
    return " ".join(f"{sentence}." for sentence in sentences if sentence)


def _file(entry: FileEntry) -> str:
    mark = ", read-only" if entry.read_only else ""
    return f"{entry.path} ({entry.size} bytes{mark})"


def _content(text: str) -> str:
    if len(text) <= READ_LIMIT:
        return text or "[the file is empty]"
    return f"{text[:READ_LIMIT]}\n[cut: the first {READ_LIMIT} of {len(text)} characters are shown]"


def _score(score: BaselineScore) -> str:
    found = score.score
    return (
        f"{score.base}: {found.mean:.3f} (95 % interval {found.low:.3f} to {found.high:.3f}, n = {found.n})"
    )
