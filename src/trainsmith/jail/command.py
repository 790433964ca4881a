"""A command to run in a jail. The same value runs in every kind of jail."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trainsmith.jail.limits import JailLimits
from trainsmith.jail.snapshot import Snapshot

ROOT = "{jail}"
"""Stands for the jail's own folder in arguments and environment; each kind of jail puts its path in."""
SCRATCH = f"{ROOT}/tmp"
"""The one folder that the command may write: its home, temporary and working directory."""


@dataclass(frozen=True)
class Folder:
    """A folder that the command may read, under the jail's own folder."""

    source: Path
    """Mounted (or copied) as it is; the jail's user must be able to read it."""
    name: str
    """Relative path inside, such as `lib/worker`."""


@dataclass(frozen=True)
class Files:
    """Files that the command may read, under the jail's own folder, whoever may read them outside."""

    snapshot: Snapshot
    name: str
    """Relative path inside, such as `environment`."""


@dataclass(frozen=True)
class Command:
    """What to run. Arguments and environment values may contain `{jail}`."""

    argv: tuple[str, ...]
    folders: tuple[Folder, ...] = ()
    files: tuple[Files, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    """Added to the clean environment."""
    inherit: tuple[int, ...] = ()
    """Descriptors above 2 that the command keeps."""
    limits: JailLimits = field(default_factory=JailLimits)
