"""Task ids: `family/kind@seed`."""

from __future__ import annotations

import re
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


def parse(text: str) -> TaskId:
    """The parts of a well-formed id. UserError for anything else; the kind need not exist."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise UserError(
            f"{text!r} is not a task id",
            where="task",
            fix="write family/kind@seed, such as strings/last-word@0",
        )
    return TaskId(match["family"], match["kind"], int(match["seed"]))
