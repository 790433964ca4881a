"""Multi-turn grading, with a family from a plug-in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.component
PLUGIN = Path(__file__).with_name("dialogue_family.py")


def test_a_conversation_goes_on_while_the_family_has_something_to_say(tmp_path: Path) -> None:
    """Guards against scoring first replies only, mixing up conversations, and uncounted tokens."""
    shutil.copy(PLUGIN, tmp_path)
    metadata = tmp_path / "dialogue_family-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: dialogue-family\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[trainsmith.families]\ndialogue = dialogue_family:FAMILY\n")
    done = subprocess.run(
        [sys.executable, str(tmp_path / PLUGIN.name)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
