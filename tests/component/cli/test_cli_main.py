"""The command line as a user meets it: real processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.component
TASK = "strings/last-word@0"


def trainsmith(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trainsmith.cli", *arguments]
    return subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["jbo", "run"], "job run"),
        (["frobnicate"], "trainsmith --help"),
        (["job", "run"], "DIR is missing"),
        (["job", "run", "nowhere", "--task", TASK], "nowhere"),
        (["job", "init", "x", "--task", "strings/last-wrod@0"], "last-word"),
        (["job", "init", "x", "--task", TASK, "--start", "warm"], "--start"),
        (["episode", "--task", TASK, "--agent", "refrence"], "reference"),
        (["report", "no-such-run"], "no-such-run"),
        (["report", "../up"], "--run"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(arguments: list[str], says: str, tmp_path: Path) -> None:
    """Guards against tracebacks, wrong exit statuses and half-written files for a user's mistake."""
    done = trainsmith(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert says in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_help_of_every_command(tmp_path: Path) -> None:
    """Guards against a command whose help needs a run, a model or torch."""
    from trainsmith.cli.main import COMMANDS

    for command in COMMANDS:
        done = trainsmith(*command.name.split(), "--help", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"trainsmith {command.name}" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["tasks", "bases", "doctor"])
def test_json_is_the_only_output(command: str, tmp_path: Path) -> None:
    """Guards against a line of text in front of the JSON document."""
    done = trainsmith(command, "--json", cwd=tmp_path)
    assert isinstance(json.loads(done.stdout), list)


def test_an_initialised_job_loads(tmp_path: Path) -> None:
    """Guards against a scaffold that its own checks refuse."""
    from trainsmith import families, jobs

    done = trainsmith("job", "init", "mine", "--task", TASK, "--start", "reference", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    job = jobs.load(tmp_path / "mine", families.task(TASK))
    assert job.base in families.task(TASK).bases
    again = trainsmith("job", "init", "mine", "--task", TASK, cwd=tmp_path)
    assert again.returncode == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to mount a small disk")
def test_a_full_disk_is_told_before_anything_is_written(tmp_path: Path) -> None:
    """Guards against a job that trains for minutes and then cannot be kept."""
    small = tmp_path / "small"
    small.mkdir()
    trainsmith("job", "init", "mine", "--task", TASK, "--start", "reference", cwd=tmp_path)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(small)], check=True)
    try:
        for setting in (("--runs", str(small)), ()):
            cache = {} if setting else {"TRAINSMITH_CACHE": str(small)}
            done = trainsmith("job", "run", "mine", "--task", TASK, *setting, cwd=tmp_path, **cache)
            assert done.returncode == 2, done.stderr
            assert "MB are free" in done.stderr
            assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)
