"""Every benchmark in a tiny setting: that it runs and that its sides did the same work, never how fast."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from benchmarks import grpo, run
from benchmarks.tiny import write_tiny
from benchmarks.turns import Side, SideFailed, take_turns

pytestmark = pytest.mark.component
ROOT = Path(__file__).parents[3]
SMALL = ["--repeats", "1", "--threads", "1", "--dtype", "float32"]
needs_trl = pytest.mark.skipif(find_spec("trl") is None, reason="TRL is not installed")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    directory = tmp_path_factory.mktemp("bases") / "tiny"
    write_tiny(directory)
    return f"path:{directory}"


def ran(module, *arguments, expected=0):
    """What a benchmark prints on stdout."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == expected, done.stderr
    return done.stdout, done.stderr


@pytest.mark.slow
def test_sampling(base):
    """Guards against sides that make other numbers of tokens, and a JSON document without the ratios."""
    out, table = ran("sampling", "--base", base, *SMALL, "--cases", "0", "4")
    document = json.loads(out)
    assert [row["name"] for row in document["rows"]] == ["1 x 1 x 24", "64 x 1 x 24 apart"]
    for row, tokens in zip(document["rows"], (24, 64 * 24), strict=True):
        assert [(side["side"], side["tokens"]) for side in row["sides"]] == [
            ("trainsmith", tokens),
            ("transformers", tokens),
        ]
        assert set(row["ratios"]) == {"transformers"}
        assert all(side["memory"] > 10**7 and side["n"] == 1 for side in row["sides"])
    assert "transformers" in table


@pytest.mark.parametrize("work", ["step", "job"])
def test_grpo_alone(base, work):
    """Guards against a loop that no longer fits the engine."""
    options = ["--shape", "2", "2", "4", "--job-steps", "2", "--alone", "--work", work]
    (row,) = json.loads(ran("grpo", "--base", base, *SMALL, *options)[0])["rows"]
    assert row["sides"][0]["tokens"] == 2 * 2 * 4 * (2 if work == "job" else 1)


@needs_trl
def test_grpo_against_trl(base):
    """Guards against a TRL that samples other numbers of tokens, or that its next version has moved."""
    options = ["--shape", "2", "2", "4", "--job-steps", "2", "--trl-micro-batch", "2"]
    rows = json.loads(ran("grpo", "--base", base, *SMALL, *options)[0])["rows"]
    assert [[side["tokens"] for side in row["sides"]] for row in rows] == [[16, 16], [32, 32]]


@pytest.mark.skipif(find_spec("trl") is not None, reason="TRL is installed")
def test_grpo_says_how_to_get_trl(base):
    """Guards against a trace where one line would do."""
    assert grpo.MISSING in ran("grpo", "--base", base, expected=run.MISSING)[1]


@pytest.mark.slow
def test_jobs():
    """Guards against jobs that the folder check refuses, or that are answered from the ledger."""
    options = ["--device", "cpu", "--jobs", "2", "--steps", "1", "--shape", "2", "2", "--items", "8"]
    (row,) = json.loads(ran("jobs", *options, "--kinds", "strings/last-word", "--workers", "2")[0])["rows"]
    assert row["jobs"] == 2 and not row["failed"] and row["train"] > 0


@pytest.mark.slow
def test_server_soak():
    """Guards against clients that fail, and steps or requests that are not made."""
    counts = ["--requests", "40", "--steps", "3", "--concurrency", "8", "--limit", "1000"]
    document = json.loads(ran("server_soak", *counts)[0])
    assert (document["failures"], document["failed_first"]) == ({}, "")
    made = {each["kind"]: each["n"] for each in document["latencies"]}
    assert made == {"chat": 10, "sample": 30, "step": 3}
    assert len(document["resident"]) == 41


@pytest.mark.parametrize("commands", [run.ON_A_CPU, run.ON_A_GPU], ids=["cpu", "gpu"])
def test_run_names_commands_that_exist(commands):
    """Guards against a comparison or an option that has been renamed."""
    for name, *settings in commands:
        out, _ = ran(name, *settings, "--help")
        assert out.startswith("usage")


def test_a_side_that_dies_is_told():
    """Guards against a comparison that hangs, or counts a side that did not work."""
    with pytest.raises(SideFailed), Side("none", "benchmarks.sampling_sides:ours", "{}", threads=1) as side:
        take_turns([side], 1)
