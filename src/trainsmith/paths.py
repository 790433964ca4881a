"""Where trainsmith keeps what outlives a run: the model cache and the secret of hidden items."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def cache_dir() -> Path:
    """Models and other things that can be fetched again: `TRAINSMITH_CACHE` or ~/.cache/trainsmith."""
    return Path(os.environ.get("TRAINSMITH_CACHE") or Path.home() / ".cache" / "trainsmith")


def state_dir() -> Path:
    """What must be kept: `TRAINSMITH_STATE` or ~/.local/state/trainsmith."""
    return Path(os.environ.get("TRAINSMITH_STATE") or Path.home() / ".local" / "state" / "trainsmith")


def secret() -> bytes:
    """The key of every hidden item seed; 32 bytes, made on first use, readable by its owner only."""
    path = state_dir() / "secret"
    if not path.exists():
        _make_secret(path)
    return path.read_bytes()


def _make_secret(path: Path) -> None:
    """Write a whole file first, then link it: of two processes at once, both read the same key."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"secret.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(32))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        return  # another process made it first; its key is the one
    finally:
        draft.unlink()
