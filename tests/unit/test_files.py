"""Files are replaced whole, and torn lines are not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainsmith.errors import MachineError
from trainsmith.files import complete_lines, write_atomic


def test_replaces_and_leaves_no_draft(tmp_path: Path) -> None:
    """Guards against drafts left beside the file."""
    path = tmp_path / "deep" / "result.json"
    write_atomic(path, "one")
    write_atomic(path, b"two")
    assert path.read_text() == "two"
    assert [found.name for found in path.parent.iterdir()] == ["result.json"]


def test_failure_keeps_the_old_file(tmp_path: Path) -> None:
    """Guards against half a file when the target cannot be replaced."""
    target = tmp_path / "folder"
    target.mkdir()
    with pytest.raises(MachineError, match="cannot write"):
        write_atomic(target, "text")
    assert [found.name for found in tmp_path.iterdir()] == ["folder"]


def test_torn_line_is_left_out(tmp_path: Path) -> None:
    """Guards against a reader that dies on the half line of a killed writer."""
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": "\xff"}\n{"a": ')
    assert list(complete_lines(path)) == ['{"a": 1}', '{"a": "�"}']
    assert list(complete_lines(tmp_path / "absent")) == []
