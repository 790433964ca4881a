"""Derived seeds, and the secret."""

import stat
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from trainsmith import paths
from trainsmith.errors import MachineError
from trainsmith.seeds import derive


def test_derived_seeds_are_the_same_everywhere_and_tell_parts_apart() -> None:
    """Guards against seeds that depend on the process, and against ("a", "bc") meeting ("ab", "c")."""
    assert derive("rollout", 3) == 7799093722705918885
    assert derive("a", "bc") != derive("ab", "c")
    assert 0 <= derive("x") < 2**63


def test_the_secret_is_made_once_and_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a secret that others can read or that changes between calls."""
    monkeypatch.setenv("TRAINSMITH_STATE", str(tmp_path / "state"))
    first = paths.secret()
    assert len(first) == 32
    assert paths.secret() == first
    assert stat.S_IMODE((tmp_path / "state" / "secret").stat().st_mode) == 0o600
    assert [file.name for file in (tmp_path / "state").iterdir()] == ["secret"]


@pytest.mark.parametrize("spoiled", ["", "short", "folder", "state is a file"])
def test_a_spoiled_secret_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoiled: str) -> None:
    """Guards against an empty key, with which anybody could draw the hidden items, and against tracebacks."""
    state = tmp_path / "state"
    monkeypatch.setenv("TRAINSMITH_STATE", str(state))
    if spoiled == "state is a file":
        state.write_text("")
    else:
        state.mkdir()
        (state / "secret").mkdir() if spoiled == "folder" else (state / "secret").write_text(spoiled)
    with pytest.raises(MachineError, match="secret"):
        paths.secret()


def test_processes_at_once_agree_on_the_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against two first commands that hide different items."""
    monkeypatch.setenv("TRAINSMITH_STATE", str(tmp_path))
    with ProcessPoolExecutor(4) as pool:
        assert len(set(pool.map(_secret, range(8)))) == 1


def _secret(_: int) -> bytes:
    return paths.secret()
