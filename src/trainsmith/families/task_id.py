"""Task ids: `family/kind@seed`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import NamedTuple

from trainsmith.errors import UserError

_FORM = re.compile(r"(?P<family>[a-z][a-z0-9-]*)/(?P<kind>[a-z][a-z0-9-]*)@(?P<seed>0|[1-9][0-9]{0,17})")


class TaskId(NamedTuple):
    """The parts of a task id."""

    family: str
    kind: str
    seed: int

    def __str__(self) -> str:
        return f"{self.family}/{self.kind}@{self.seed}"


def parse(text: str, known: Sequence[str] = ("strings/last-word@0",)) -> TaskId:
    """The parts of a well-formed id; the kind need not exist.

    UserError for anything else, with the nearest of the `known` ids.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise UserError(
            f"{text!r} is not a task id",
            where="task",
            fix=f"write family/kind@seed, such as {', '.join(_nearest(text, known))}",
        )
    return TaskId(match["family"], match["kind"], int(match["seed"]))


def _nearest(text: str, known: Sequence[str]) -> list[str]:
    """Ids that have the text as a part, else those that resemble it, else the first."""
    word = text.strip().lower().partition("@")[0].strip("/")
    holding = [name for name in known if word and word in name]
    short = {name: name.partition("@")[0].rpartition("/")[2] for name in known}
    near = difflib.get_close_matches(word.rpartition("/")[2], list(short.values()), n=3, cutoff=0.5)
    return holding[:3] or [name for name in known if short[name] in near][:3] or list(known[:1])
