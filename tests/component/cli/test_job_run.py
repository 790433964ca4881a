"""`trainsmith job run` with the real 135M model: trained once, answered from the ledger, interrupted.

The jobs are two steps long: they show that the chain holds, not that it teaches; `docs/experiments.md` does.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from trainsmith import families, jobs

pytestmark = [pytest.mark.component, pytest.mark.model]
TASK = "strings/last-word@0"
PROGRAM = [sys.executable, "-m", "trainsmith.cli"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with a small job; all tests share its run, so bases are scored once."""
    folder = tmp_path_factory.mktemp("place")
    write_job(folder / "job", max_steps=2)
    return folder


def write_job(folder: Path, **settings: int) -> None:
    """The reference job with other settings at the top of rl.toml, and small steps."""
    jobs.init(folder, families.task(TASK), "reference")
    text = (folder / "rl.toml").read_text()
    for key, value in {"batch_size": 16, "group_size": 8, **settings}.items():
        text = re.sub(rf"(?m)^{key} = \d+", f"{key} = {value}", text)
    (folder / "rl.toml").write_text(text)


def run(place: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], float]:
    began = time.monotonic()
    done = subprocess.run([*PROGRAM, *arguments], cwd=place, capture_output=True, text=True, timeout=300)
    return done, time.monotonic() - began


@pytest.fixture(scope="module")
def result(place: Path) -> dict[str, Any]:
    """The job, run once."""
    first, _ = run(place, "job", "run", "job", "--task", TASK, "--json")
    assert first.returncode == 0, first.stderr
    document: dict[str, Any] = json.loads(first.stdout)
    return document


def test_a_job_is_trained_once_and_then_answered_from_the_ledger(place: Path, result: dict[str, Any]) -> None:
    """Guards against a job that is trained twice, and against an answer that differs the second time."""
    assert (result["status"], result["steps"], result["post"]["n"]) == ("ok", 2, 256)
    folder = place / "runs/local/jobs" / result["job"]
    assert json.loads((folder / "result.json").read_text()) == result
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 2
    assert (folder / "weights/model.safetensors").stat().st_size > 100e6
    again, seconds = run(place, "job", "run", "job", "--task", TASK, "--json")
    assert json.loads(again.stdout) == result
    assert "train" not in again.stderr
    assert seconds < 10, "an answer from the ledger loads no model"


def test_a_recorded_result_is_refused_for_another_grading(place: Path, result: dict[str, Any]) -> None:
    """Guards against a result that answers for an evaluation seed it was not graded with."""
    before = (place / "runs/local/config.json").read_bytes()
    done, _ = run(place, "job", "run", "job", "--task", TASK, "--grading.seed", "5")
    assert done.returncode == 2
    assert "evaluation seed 0, not 5" in done.stderr and len(done.stderr.splitlines()) == 1
    assert (place / "runs/local/config.json").read_bytes() == before


def test_another_seed_is_another_job(place: Path, result: dict[str, Any]) -> None:
    """Guards against a seed that is not part of the identity."""
    done, _ = run(place, "job", "run", "job", "--task", TASK, "--seed", "1", "--json")
    assert done.returncode == 0, done.stderr
    other = json.loads(done.stdout)
    assert other["seeds"]["train"] == 1
    assert other["job"] != result["job"]
    assert other["pre"] == result["pre"]


def test_hidden_items_are_in_no_file_of_the_run(place: Path, result: dict[str, Any]) -> None:
    """Guards against hidden questions in logs, results, pages or job folders."""
    from trainsmith import paths

    task = families.task(TASK)
    done, _ = run(place, "report", "local", "--episode", "all")
    assert done.returncode == 0, done.stderr
    secret = paths.secret()
    questions = [item.question.encode() for item in families.hidden_items(task, secret)]
    for file in (place / "runs").rglob("*"):
        if file.is_file() and file.suffix != ".safetensors":
            content = file.read_bytes()
            assert secret not in content
            assert [question for question in questions if question in content] == [], file


@pytest.mark.parametrize("when", ["checking the job", "train     step 1"])
def test_ctrl_c_ends_every_child_and_the_next_command_reads_the_ledger(
    place: Path, result: dict[str, Any], when: str
) -> None:
    """Guards against processes that outlive an interrupt, and against a run that it breaks."""
    name = f"long-{when.split()[0]}"
    write_job(place / name, max_steps=30)
    with started(place, "job", "run", name, "--task", TASK) as process:
        wait_for(process, when)
        family = psutil.Process(process.pid).children(recursive=True)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
        assert time.monotonic() - began < 5
        assert process.returncode == 130, process.stderr and process.stderr.read()
        _, alive = psutil.wait_procs(family, timeout=max(0.1, 5 - (time.monotonic() - began)))
        assert alive == []
    done, _ = run(place, "job", "run", "job", "--task", TASK, "--json")
    assert json.loads(done.stdout) == result


def test_sigterm_ends_a_background_job(place: Path) -> None:
    """Guards against a job that a shell started in the background, Ctrl-C ignored, and nothing can stop."""
    write_job(place / "background", max_steps=30)
    arguments = ("job", "run", "background", "--task", TASK)
    with started(place, *arguments, prefix=("sh", "-c", "trap '' INT; exec \"$@\"", "sh")) as process:
        wait_for(process, "checking the job")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 130


def test_ctrl_c_while_the_jail_is_tried(place: Path) -> None:
    """Guards against a Ctrl-C that ends the jail's self-test, which then tells of a broken jail."""
    write_job(place / "early", max_steps=30)
    arguments = ("job", "validate", "early", "--task", TASK)
    with started(place, *arguments, group=0) as process:
        family = psutil.Process(process.pid)
        while not any("selftest" in " ".join(child.cmdline()) for child in family.children(recursive=True)):
            assert process.poll() is None, "the self-test was not seen"
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=20) == 130


class started:
    """A running command, killed at the end whatever happens."""

    def __init__(
        self, place: Path, *arguments: str, prefix: tuple[str, ...] = (), group: int | None = None
    ) -> None:
        self._process = subprocess.Popen(
            [*prefix, *PROGRAM, *arguments],
            cwd=place,
            process_group=group,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> subprocess.Popen[str]:
        return self._process

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def wait_for(process: "subprocess.Popen[str]", text: str) -> None:
    """Until a line on stderr holds `text`."""
    seen = []
    assert process.stderr is not None
    while line := process.stderr.readline():
        seen.append(line)
        if text in line:
            return
    pytest.fail(f"{text!r} was never said: {seen}")
