"""Whole episodes with the real model, probe, jail, trainer and grader."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.component, pytest.mark.model, pytest.mark.slow]


def play(place: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "trainsmith.cli", *arguments, "--json"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_the_demo_teaches_what_it_says(tmp_path: Path) -> None:
    """Guards against a demo whose uplift may be noise, and against one that is played twice."""
    document = play(tmp_path, "demo")
    episode = document["episode"]
    assert (episode["status"], episode["validation_attempt"]) == ("ok", 1)
    assert episode["result"]["post"]["n"] >= 200
    assert episode["result"]["uplift"]["low"] > 0
    assert 0 < episode["reward"]["total"] <= 1
    page = (tmp_path / document["report"]).read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)\s*=\s*["']?\s*(https?:)?//|url\(|@import""", page), "needs a network"
    assert play(tmp_path, "demo")["episode"] == episode


def test_the_broken_agent_passes_on_its_last_probe(tmp_path: Path) -> None:
    """Guards against mistakes that end an episode early, and against probes that cost nothing."""
    first = play(tmp_path, "episode", "--agent", "broken", "--task", "strings/last-word@0", "--seed", "0")
    assert (first["status"], first["validations"], first["validation_attempt"]) == ("ok", 3, 3)
    assert first["reward"]["validation"] == pytest.approx(1 / 3)
    assert [probe["checks"] != [] for probe in first["probes"]] == [True] * 3


@pytest.mark.parametrize("start", ["skeleton", "working"])
def test_the_reference_agent_plays_from_every_start(tmp_path: Path, start: str) -> None:
    """Guards against a start that leaves files in the way of a good job."""
    first = play(tmp_path, "episode", "--task", "arithmetic/digit-at@0", "--start", start, "--seed", "0")
    assert (first["status"], first["validation_attempt"]) == ("ok", 1)
