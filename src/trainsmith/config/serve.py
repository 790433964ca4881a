"""The configuration of `trainsmith engine serve`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from trainsmith.config.base import Config
from trainsmith.config.engine import EngineConfig


class ServeConfig(Config):
    """`trainsmith engine serve`: one base, trained and sampled over HTTP."""

    base: str
    """Base model: a built-in id, `hf:<owner>/<name>[@<revision>]` or `path:<directory>`."""

    host: str = "127.0.0.1"
    """Address to listen on; any other than loopback opens the server to the network."""

    port: int = Field(0, ge=0, le=65535)
    """0 takes a free port."""

    token_file: Path | None = None
    """Holds the token; unset: TRAINSMITH_TOKEN, or one that is made and kept in the state directory."""

    state: Path | None = None
    """Where checkpoints and sessions are kept; unset: the state directory's `engine`."""

    body_limit: int = Field(256 * 2**20, ge=1024)
    """Largest request body in bytes, before and after decompression."""

    idle_seconds: float = Field(600.0, gt=0)
    """A client that is silent for longer loses its training runs and its queue; checkpoints stay."""

    poll_seconds: float = Field(30.0, gt=0, le=40)
    """How long a question for an unfinished answer waits; Tinker's SDK gives up after 45."""

    engine: EngineConfig = EngineConfig()
