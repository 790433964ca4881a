"""What agents are told: every outcome has its words, every mistake its fix."""

from __future__ import annotations

from trainsmith.episode import speech
from trainsmith.episode.outcomes import Listed, Probed, Refused, Scored, WasRead
from trainsmith.records import BaselineScore, Check, FileEntry, Interval, ProbeReport, Verdict


def check(name: str, verdict: Verdict, evidence: str = "", fix: str = "") -> Check:
    return Check(name=name, verdict=verdict, evidence=evidence, fix=fix)


def test_failed_probe_says_what_to_change() -> None:
    """Fault: a failed validation comes back without evidence or fix, or hides what was not looked at."""
    report = ProbeReport(
        checks=(
            check("folder", Verdict.PASS),
            check("imports", Verdict.FAIL, "no module 'numpyy'.", "Import numpy."),
            check("signal", Verdict.SKIP, "correct the failed checks first"),
            check("rewards", Verdict.SKIP, "correct the failed checks first"),
        ),
        seconds=1.0,
    )
    told = speech.describe(Probed(attempt=2, submit=True, job="", report=report))
    assert told.splitlines() == [
        "Validation 2 failed. Not submitted.",
        "FAILED imports: no module 'numpyy'. Fix: Import numpy.",
        "SKIPPED signal, rewards: correct the failed checks first.",
        "Passed: folder.",
    ]


def test_skipped_checks_alone_give_their_reason() -> None:
    """Fault: a validation fails by a skipped check alone, and nothing says why."""
    report = ProbeReport(checks=(check("repeats", Verdict.SKIP, "no reply was scored twice"),), seconds=1.0)
    assert "no reply was scored twice" in speech.describe(
        Probed(attempt=1, submit=False, job="", report=report)
    )


def test_refusal_is_one_line_with_its_fix() -> None:
    """Fault: an error reads "..", or ends in the middle."""
    assert speech.describe(Refused(error="no such file.", fix="see list_files")) == (
        "Error: no such file. Fix: see list_files."
    )
    assert speech.describe(Refused(error="over")) == "Error: over."


def test_nothing_to_show_is_said() -> None:
    """Fault: an empty answer looks like a failed call to a model."""
    assert speech.describe(Listed(files=()))
    assert speech.describe(WasRead(path="rl.toml", content=""))
    assert speech.describe(Scored(scores=()))


def test_lists_and_scores_have_one_line_each() -> None:
    """Fault: sizes, the read-only mark, or the interval of a score are lost."""
    files = (FileEntry(path="GUIDE.md", size=3, read_only=True), FileEntry(path="rl.toml", size=5))
    assert speech.describe(Listed(files=files)) == "GUIDE.md (3 bytes, read-only)\nrl.toml (5 bytes)"
    score = BaselineScore(base="smollm2-135m", score=Interval(mean=0.25, low=0.2, high=0.3, n=256))
    assert speech.describe(Scored(scores=(score,))) == (
        "smollm2-135m: 0.250 (95 % interval 0.200 to 0.300, n = 256)"
    )


def test_content_is_shown_as_it_is() -> None:
    """Fault: a file is shown with changes, so that edit_file cannot find the text."""
    content = "  lr = 1e-6\r\n\n"
    assert speech.describe(WasRead(path="rl.toml", content=content)) == content
