"""`examples.json` of a job: what the model said to the PUBLIC examples before and after training.

For people to read; no score of a job depends on it. Hidden items never appear here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from trainsmith.errors import MachineError
from trainsmith.files import write_atomic
from trainsmith.grading.answers import Answer
from trainsmith.records import Record, Task

FILE = "examples.json"
"""Its name in a job's run folder."""


class Reply(Record):
    """What one model said to one example."""

    turns: tuple[str, ...]
    score: float


class ExamplePair(Record):
    """One public example with both replies."""

    question: str
    answer: str
    shown: bool
    """True for the examples whose solution is part of every prompt."""
    before: Reply
    after: Reply | None = None
    """None when the job left no weights."""


class Examples(Record):
    """All public examples of a job's task."""

    base_model: str
    pairs: tuple[ExamplePair, ...]


def pair(
    task: Task, base_model: str, before: Sequence[Answer], after: Sequence[Answer] | None = None
) -> Examples:
    """Put the answers to `task.examples` side by side; each sequence is in the order of the examples."""
    shown = {message.content for message in task.prefix}
    afters = [_reply(each) for each in after] if after is not None else [None] * len(before)
    rows = zip(task.examples, before, afters, strict=True)
    return Examples(
        base_model=base_model,
        pairs=tuple(
            ExamplePair(
                question=item.question,
                answer=item.answer,
                shown=item.question in shown,
                before=_reply(first),
                after=second,
            )
            for item, first, second in rows
        ),
    )


def write(folder: Path, examples: Examples) -> None:
    """Write a job folder's `examples.json`."""
    write_atomic(folder / FILE, examples.model_dump_json(indent=1))


def read(folder: Path) -> Examples | None:
    """A job folder's examples; None if it has none."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        return Examples.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise MachineError("not a file of examples", where=str(path), fix="grade the job anew") from error


def _reply(answer: Answer) -> Reply:
    return Reply(turns=answer.replies, score=answer.score)
