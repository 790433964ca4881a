"""Where the token comes from."""

import stat
import threading

import pytest

from trainsmith.engine.server.access_token import VARIABLE, access_token
from trainsmith.errors import UserError


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def test_it_is_made_once_for_its_owner(tmp_path):
    """Guards against a token that others read, that changes, or that two servers disagree about."""
    kept, seen = tmp_path / "new" / "token", []
    threads = [threading.Thread(target=lambda: seen.append(access_token(None, kept))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 1 and seen[0].startswith("tml-") and len(seen[0]) > 40
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert [file.name for file in kept.parent.iterdir()] == ["token"]


def test_a_file_goes_before_the_environment(tmp_path, monkeypatch):
    """Guards against the wrong one of two tokens."""
    file = tmp_path / "mine"
    file.write_text("tml-of-the-file-12345\n")
    file.chmod(0o600)
    monkeypatch.setenv(VARIABLE, "tml-of-the-environment")
    assert access_token(file, tmp_path / "token") == "tml-of-the-file-12345"
    assert access_token(None, tmp_path / "token") == "tml-of-the-environment"
    assert not (tmp_path / "token").exists()


@pytest.mark.parametrize(
    "text", ["", "secret", "tml-short", "tml-with spaces in it", "tml-ünicode-0123456789"]
)
def test_weak_or_foreign_tokens_are_refused(tmp_path, text):
    """Guards against a token that the SDK refuses, or that is guessed."""
    file = tmp_path / "mine"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(UserError):
        access_token(file, tmp_path / "token")


def test_a_token_that_others_read_is_refused(tmp_path):
    """Guards against a secret that is none."""
    file = tmp_path / "mine"
    file.write_text("tml-of-the-file-12345")
    file.chmod(0o640)
    with pytest.raises(UserError, match="chmod 600"):
        access_token(file, tmp_path / "token")
    with pytest.raises(UserError, match="cannot read"):
        access_token(tmp_path / "missing", tmp_path / "token")
