"""Tasks: families of kinds as plug-ins, hidden items, scorers, and the jobs that belong to a task.

Everything follows from a task's id (hidden items: from the id and a secret). No model is run here.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence

from trainsmith.families import draws, jobs, tasks
from trainsmith.families.calibration import calibration
from trainsmith.families.family import Family
from trainsmith.families.kind import Kind
from trainsmith.families.listing import TaskRow, listing
from trainsmith.families.normal import normalise
from trainsmith.families.recipe import Recipe
from trainsmith.families.tasks import task, task_ids
from trainsmith.records import Item, Message, Task
from trainsmith.records.job import JobFile

__all__ = [
    "Family",
    "Kind",
    "Recipe",
    "TaskRow",
    "calibration",
    "hidden_items",
    "items_key",
    "listing",
    "next_message",
    "normalise",
    "reference_job",
    "score",
    "task",
    "task_ids",
    "training_items",
    "working_job",
]


def hidden_items(task: Task, secret: bytes) -> tuple[Item, ...]:
    """The items of the hidden evaluation: the same for the same id and secret, on any machine.

    None of them, by normal form of the question, is a public example or a training question of the reference
    job. MachineError if the kind has too few questions for that.
    """
    return draws.hidden_items(tasks.source_of(task.id), secret, task.evaluation.items)


def training_items(task: Task) -> tuple[Item, ...]:
    """The questions that the reference job trains on."""
    return draws.training_items(tasks.source_of(task.id))


def items_key(items: Sequence[Item]) -> str:
    """A fingerprint of items, without their text: 16 hexadecimal digits."""
    text = json.dumps([[item.question, item.answer, item.details] for item in items])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def next_message(task: Task, item: Item, replies: tuple[str, ...]) -> Message | None:
    """The user's next message after `replies`; None when the conversation is over, as after one turn."""
    ask = tasks.source_of(task.id).kind.next_message
    return ask(item, replies) if ask else None


def score(task: Task, item: Item, replies: tuple[str, ...]) -> float:
    """The score of a conversation, in [0, 1]; 0 without a reply. Takes any text."""
    if not replies:
        return 0.0
    found = tasks.source_of(task.id).kind.score(replies[-1], item.answer)
    return min(1.0, max(0.0, found)) if math.isfinite(found) else 0.0


def reference_job(task: Task) -> tuple[JobFile, ...]:
    """The complete job of an honest expert: an anchor and a test, never shown to an agent."""
    return jobs.reference_job(tasks.source_of(task.id), task.prefix)


def working_job(task: Task) -> tuple[JobFile, ...]:
    """A mediocre job that passes the probe."""
    return jobs.working_job(tasks.source_of(task.id), task.prefix)
