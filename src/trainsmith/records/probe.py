"""What the probe found in a job."""

from __future__ import annotations

from enum import StrEnum

from trainsmith.records.base import Record


class Verdict(StrEnum):
    """The outcome of one check."""

    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"
    """Not run, because an earlier check that it rests on failed."""


class Check(Record):
    """One check: what was looked at, what was seen, and what to change."""

    name: str
    verdict: Verdict
    evidence: str
    fix: str = ""
    seconds: float = 0.0


class ProbeReport(Record):
    """All checks of one probe, in the order in which they ran."""

    checks: tuple[Check, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """True when no check failed and none was skipped."""
        return bool(self.checks) and all(check.verdict is Verdict.PASS for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The failed checks."""
        return tuple(check for check in self.checks if check.verdict is Verdict.FAIL)
