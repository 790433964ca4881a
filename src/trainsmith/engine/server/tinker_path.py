"""Ids and `tinker://` paths: what they look like, and that nothing else becomes a file's name.

tinker://<session>:train:<n>/weights/<name>            a training state, with or without its optimiser
tinker://<session>:train:<n>/sampler_weights/<name>    weights to sample from
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from trainsmith.errors import UserError

_SESSION = r"[0-9a-f]{16}"
_RUN = rf"{_SESSION}:train:[0-9]{{1,9}}"
_SAMPLER = rf"{_SESSION}:sample:[0-9]{{1,9}}"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"


class Kind(StrEnum):
    """What a checkpoint is for; the second part of its path and of its id."""

    TRAINING = "weights"
    SAMPLER = "sampler_weights"


@dataclass(frozen=True, slots=True)
class TinkerPath:
    """One checkpoint. Every part is checked when it is made, so it is safe as a file's name."""

    run: str
    kind: Kind
    name: str

    def __post_init__(self) -> None:
        if not is_run(self.run):
            raise UserError(f"no training run has the id {self.run!r}", where="tinker path")
        if not re.fullmatch(_NAME, self.name):
            what = f"{self.name!r} is no name for a checkpoint"
            raise UserError(what, where="tinker path", fix="use letters, digits, '.', '_' and '-'")

    @classmethod
    def parse(cls, path: str) -> TinkerPath:
        """Raises UserError for anything but a whole, plain path."""
        scheme, _, rest = path.partition("://")
        parts = rest.split("/")
        if scheme != "tinker" or len(parts) != 3 or parts[1] not in list(Kind):
            what = f"{path!r} is not tinker://<run>/weights/<name> or tinker://<run>/sampler_weights/<name>"
            raise UserError(what, where="tinker path")
        return cls(parts[0], Kind(parts[1]), parts[2])

    @property
    def checkpoint(self) -> str:
        """The checkpoint's id within its run."""
        return f"{self.kind}/{self.name}"

    def __str__(self) -> str:
        return f"tinker://{self.run}/{self.checkpoint}"

    def within(self, runs: Path) -> Path:
        """Its directory below the directory of all runs."""
        return runs / file_name(self.run) / self.kind / self.name


def is_session(text: str) -> bool:
    """Whether this looks like an id of a session."""
    return re.fullmatch(_SESSION, text) is not None


def is_run(text: str) -> bool:
    """Whether this looks like an id of a training run, `<session>:train:<n>`."""
    return re.fullmatch(_RUN, text) is not None


def is_sampler(text: str) -> bool:
    """Whether this looks like an id of a sampling session, `<session>:sample:<n>`."""
    return re.fullmatch(_SAMPLER, text) is not None


def file_name(identity: str) -> str:
    """An id that has passed one of the checks above, as a file's name."""
    return identity.replace(":", "_")
