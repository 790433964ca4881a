"""What ran: the versions of Python and of the packages that move results. Imports none of them."""

from __future__ import annotations

import platform
from importlib import metadata
from pathlib import Path

from pydantic import ValidationError

from trainsmith.files import write_atomic
from trainsmith.records import Record

FILE = "versions.json"
"""Its name in a job's run folder."""
_PACKAGES = ("trainsmith", "torch", "verifiers", "transformers", "tokenizers", "numpy", "reasoning-gym")


class Versions(Record):
    """Versions at the time of a run."""

    python: str
    machine: str
    """Operating system and processor type."""
    packages: tuple[tuple[str, str], ...]
    """(name, version) of what is installed."""


def installed() -> Versions:
    """The versions of this process."""
    found = []
    for name in _PACKAGES:
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            found.append((name, "not installed"))
    machine = f"{platform.system()} {platform.machine()}"
    return Versions(python=platform.python_version(), machine=machine, packages=tuple(found))


def write(folder: Path) -> None:
    """Note this process's versions in a job's run folder."""
    write_atomic(folder / FILE, installed().model_dump_json(indent=1))


def read(folder: Path) -> Versions | None:
    """The versions noted in a folder; None if there are none that can be read."""
    try:
        return Versions.model_validate_json((folder / FILE).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
