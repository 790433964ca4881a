"""Makers of a `Check`, one a verdict, with evidence and fix cut to a line."""

from __future__ import annotations

from trainsmith.probe.text import short
from trainsmith.records import Check, Verdict


def passed(name: str, evidence: str) -> Check:
    """The check found nothing wrong; `evidence` says what it saw."""
    return Check(name=name, verdict=Verdict.PASS, evidence=short(evidence))


def failed(name: str, evidence: str, fix: str) -> Check:
    """The check found a fault; `fix` is one sentence in the imperative."""
    return Check(name=name, verdict=Verdict.FAIL, evidence=short(evidence), fix=short(_sentence(fix)))


def _sentence(fix: str) -> str:
    """With a capital at its start and a full stop at its end."""
    return f"{fix[0].upper()}{fix[1:].rstrip('.')}." if fix else ""


def skipped(name: str, why: str) -> Check:
    """The check did not run."""
    return Check(name=name, verdict=Verdict.SKIP, evidence=short(why))
