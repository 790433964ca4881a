"""The whole page: complete, self-contained, safe with hostile content, and fine with partial data."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from trainsmith.errors import UserError
from trainsmith.ledger import Ledger
from trainsmith.records import Status
from trainsmith.report import render

VOID_TAGS = frozenset({"meta", "link", "br", "img", "input", "hr"})
HOSTILE = '"><script>alert(1)</script><img src=http://evil.example/x onerror=alert(1)>{{ 7*7 }}</style></pre>'


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails on tags that do not nest."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.style = ""
        self._open: list[str] = []
        self.feed(source)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID_TAGS:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            self.style += data
        else:
            self.text += data


def page(run: Path, which: str = "latest") -> Page:
    return Page(render(run, which).read_text(encoding="utf-8"))


def assert_self_contained(found: Page) -> None:
    assert not {"script", "img", "iframe", "link", "object", "form", "base"} & set(found.tags)
    for name, value in found.attributes:
        assert not name.startswith("on")
        assert name != "style"
        if name in {"href", "src", "action", "srcset"}:
            assert value.startswith("#")
    assert "url(" not in found.style
    assert "@import" not in found.style
    policy = next(value for name, value in found.attributes if value.startswith("default-src 'none'"))
    digest = base64.b64encode(hashlib.sha256(found.style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy


def test_a_whole_episode(run: Path) -> None:
    """Guards against a section that is missing or shows another's figures."""
    found = page(run)
    assert_self_contained(found)
    shown = re.sub(r"\s+", " ", found.text)
    for expected in (
        "strings/last-word@0", "agent reference", "Training raised the hidden score from 0.46 to", "n = 256",
        "right before and after 113", "won 97", "lost 5", "smollm2-135m-28l", "Usable groups", "Mismatch",
        "rewards are not constant", "strip the reply before you compare it", "last_word/__init__.py",
        "class LastWord(vf.Taskset):", "The model adds a space; strip it.", "garden harbour stone river",
        "training 3, evaluation 0", "76a5402aaa91", "9b1d6f0c2a7e4d55", "torch", "train 84.6 s",
    ):  # fmt: skip
        assert expected in shown, expected
    anchors = {value for name, value in found.attributes if name == "id"}
    assert all(value[1:] in anchors for name, value in found.attributes if name == "href")


def test_everything_in_a_run(eventful_run: Path) -> None:
    """Guards against partial data: an invalid, a void and a cut-off episode, and a job made by hand."""
    found = page(eventful_run, "all")
    assert_self_contained(found)
    for expected in (
        "Nothing valid was submitted. No validation left and no job has passed.",
        "The infrastructure failed; this is not scored. The sampler died.",
        "it still runs, or it was cut off",
        "no group of rollouts had unequal rewards. 6 steps without a usable group.",
        "a difference within noise",
        "written by hand",
    ):
        assert expected in found.text, expected


def test_a_long_run_stays_readable(run: Path) -> None:
    """Guards against a page of hundreds of megabytes: old episodes are in the overview alone."""
    with Ledger.open(run) as ledger:
        for number in range(60):
            ledger.episodes.begin(f"more-{number}", task="strings/last-word@0", agent="slow")
    found = page(run, "all")
    assert found.tags.count("article") == 40
    assert found.tags.count("tr") == 62
    anchors = {value for name, value in found.attributes if name == "id"}
    assert all(value[1:] in anchors for name, value in found.attributes if name == "href")


def test_hostile_text_is_text(run: Path) -> None:
    """Guards against markup, scripts or templates in what agents and models wrote."""
    folder = run / "episodes" / "demo-1"
    (
        folder / "validations" / "2" / "environment" / "last_word" / f"{HOSTILE.replace('/', '')}.py"
    ).write_text(HOSTILE)
    for path in (folder / "trace.jsonl", run / "jobs" / ("7c1e" + "5f" * 30) / "examples.json"):
        escaped = HOSTILE.replace('"', '\\"')
        path.write_text(
            path.read_text().replace("garden harbour", escaped).replace("The strong base", escaped)
        )
    found = page(run)
    assert_self_contained(found)
    assert "<script>alert(1)</script>" in found.text
    assert "{{ 7*7 }}" in found.text


def test_files_are_read_carefully(run: Path, tmp_path: Path) -> None:
    """Guards against following a link out of the job, binary rubbish, and files of any size."""
    (tmp_path / "secret").write_text("the secret of hidden items")
    folder = run / "episodes" / "demo-1" / "validations" / "2"
    (folder / "link.txt").symlink_to(tmp_path / "secret")
    (folder / "environment" / "away").symlink_to(tmp_path)
    (folder / "data.bin").write_bytes(bytes(1000))
    (folder / "large.txt").write_text("line\n" * 100_000)
    found = page(run)
    assert "the secret of hidden items" not in found.text
    assert "binary, 1,000 bytes" in found.text
    assert "the first 60,000 of 500,000 bytes" in found.text


def test_a_job_without_anything_on_disk(run: Path) -> None:
    """Guards against a page that needs metrics, examples, files or trace to exist."""
    import shutil

    shutil.rmtree(run / "jobs")
    shutil.rmtree(run / "episodes")
    (run / "config.json").unlink()
    found = page(run)
    for expected in ("No training step was finished.", "No replies were taken.", "The agent did nothing."):
        assert expected in found.text


def test_torn_last_lines_are_left_out(run: Path) -> None:
    """Guards against a crash in mid-line that makes the run unreadable."""
    for path in (run / "jobs").rglob("metrics.jsonl"):
        path.write_text(path.read_text()[:-20])
    trace = run / "episodes" / "demo-1" / "trace.jsonl"
    trace.write_text(trace.read_text()[:-20])
    assert "All 23 steps as a table" in page(run).text


def test_an_empty_run(tmp_path: Path) -> None:
    """Guards against a report of nothing that fails."""
    Ledger.open(tmp_path).close()
    assert "Nothing has finished in this run yet." in page(tmp_path).text


def test_unknown_names_are_the_users_mistake(run: Path, tmp_path: Path) -> None:
    """Guards against a traceback for a mistyped episode or folder; known ids are named."""
    with pytest.raises(UserError, match="demo-1"):
        render(run, "demo-7")
    with pytest.raises(UserError, match="not a run directory"):
        render(tmp_path / "nowhere")


def test_an_early_end_is_said(run: Path) -> None:
    """Guards against a page that shows a run that ended early as one that went all its steps."""
    from trainsmith.report.sources import gather
    from trainsmith.report.verdicts import of_job
    from trainsmith.runs import RunDirectory

    job = gather(RunDirectory(run), "latest").episodes[0].job
    assert job is not None
    ended = job.result.model_copy(update={"status": Status.OK, "reason": "ended early: no signal"})
    assert of_job(ended, 0.95).sentence.endswith("Ended early: no signal.")


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_every_status_has_words(status: Status, run: Path) -> None:
    """Guards against a new status that the page does not explain."""
    from trainsmith.report.sources import gather
    from trainsmith.report.verdicts import of_job
    from trainsmith.runs import RunDirectory

    job = gather(RunDirectory(run), "latest").episodes[0].job
    assert job is not None
    verdict = of_job(job.result.model_copy(update={"status": status, "reason": "because"}), 0.95)
    assert "Because." in verdict.sentence
    assert len(verdict.label) > 3
