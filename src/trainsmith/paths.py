"""Where trainsmith keeps what outlives a run: the model cache and the secret of hidden items."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from trainsmith.errors import MachineError

_SECRET_BYTES = 32


def cache_dir() -> Path:
    """Models and other things that can be fetched again: `TRAINSMITH_CACHE` or ~/.cache/trainsmith."""
    return Path(os.environ.get("TRAINSMITH_CACHE") or Path.home() / ".cache" / "trainsmith")


def state_dir() -> Path:
    """What must be kept: `TRAINSMITH_STATE` or ~/.local/state/trainsmith."""
    return Path(os.environ.get("TRAINSMITH_STATE") or Path.home() / ".local" / "state" / "trainsmith")


def secret() -> bytes:
    """The key of every hidden item seed; 32 bytes, made on first use, readable by its owner only.

    Raises MachineError when it cannot be read or made, or has another length: a shorter one could be guessed.
    """
    path = state_dir() / "secret"
    try:
        if not path.exists():
            _make_secret(path)
        key = path.read_bytes()
    except OSError as error:
        fix = "free disk space, or set TRAINSMITH_STATE to a folder that you may write"
        raise MachineError(
            f"no secret for hidden items ({error.strerror})", where=str(path), fix=fix
        ) from error
    if len(key) != _SECRET_BYTES:
        fix = "restore the file, or remove it: the hidden items will then be others"
        raise MachineError(f"{len(key)} bytes instead of {_SECRET_BYTES}", where=str(path), fix=fix)
    return key


def _make_secret(path: Path) -> None:
    """Write a whole file first, then link it: of two processes at once, both read the same key."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"secret.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process made it first; its key is the one
            os.link(draft, path)
    finally:
        draft.unlink()
