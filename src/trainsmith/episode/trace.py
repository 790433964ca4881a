"""The journal of an episode: one line a turn in `trace.jsonl`, enough to replay it and to show it.

A line is written after its action took effect and before the agent is told. Not the finished record, which
the ledger keeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from trainsmith.episode.calls import Call
from trainsmith.episode.outcomes import Outcome
from trainsmith.errors import MachineError
from trainsmith.files import complete_lines
from trainsmith.records import Observation, Record

TRACE = "trace.jsonl"


class Turn(Record):
    """One action with what came of it."""

    number: int
    """From 1; also counts an action that cost no turn."""
    note: str
    call: Call
    outcome: Outcome
    observation: Observation
    thinking: float
    """Wall seconds until the agent acted."""
    seconds: float
    """Wall seconds of the action itself."""


class Trace:
    """The journal of one episode folder, open for appending."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / TRACE

    def append(self, turn: Turn) -> None:
        """Write one turn. Raises MachineError if the disk does not take it."""
        try:
            with self._path.open("ab") as file:
                file.write(turn.model_dump_json().encode() + b"\n")
        except OSError as error:
            raise MachineError(
                f"cannot be written ({error.strerror})", where=str(self._path), fix="free disk space"
            ) from error


def read(folder: Path) -> Iterator[Turn]:
    """The turns of an episode folder; a line torn by a crash is left out. MachineError for a damaged line."""
    for line in complete_lines(folder / TRACE):
        try:
            yield Turn.model_validate_json(line)
        except ValidationError as error:
            raise MachineError(
                "holds a damaged line", where=str(folder / TRACE), fix="run the episode again"
            ) from error
