"""The author's extra task fields, read as candidates for the right answer.

Which field holds the answer is not declared anywhere, so every plain value is tried as a reply, written in
the usual ways. Names only break ties and never decide a score.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from trainsmith.jail.border import TaskView

ANSWER_NAMES = frozenset(
    ["answer", "answers", "ans", "target", "expected", "solution", "label", "output", "reference", "gold"]
) | {"truth", "result", "correct"}
"""Field names that say that they hold the answer."""
MOST_FIELDS = 8
LONGEST_VALUE = 2000


@dataclass(frozen=True, slots=True)
class Form:
    """A way to write an answer."""

    name: str
    template: str
    """`{}` stands for the value."""

    def write(self, value: str) -> str:
        """The value in this form."""
        return self.template.replace("{}", value)


FORMS = (
    Form("plain", "{}"),
    Form("sentence", "The answer is {}."),
    Form("labelled", "Answer: {}"),
    Form("tagged", "<answer>{}</answer>"),
    Form("boxed", "\\boxed{{}}"),
    Form("bold", "**{}**"),
    Form("hashes", "#### {}"),
    Form("json", '{"answer": "{}"}'),
)


@dataclass(frozen=True, slots=True)
class Writing:
    """A field's value as a reply of some form."""

    field: str
    form: Form

    @property
    def label(self) -> str:
        """Name of the writing, the same for all tasks."""
        return f"{self.field}, {self.form.name}"


def writings(names: Iterable[str]) -> tuple[Writing, ...]:
    """Every form of each field."""
    return tuple(Writing(name, form) for name in names for form in FORMS)


def values(task: TaskView) -> dict[str, str]:
    """Each extra field whose value can be written as a reply, in the task's order.

    Numbers and strings stand as they are, lists are joined by spaces, objects become JSON.
    """
    try:
        fields = json.loads(task.fields or "{}")
    except ValueError:
        return {}
    if not isinstance(fields, dict):
        return {}
    written = {name: _write(value) for name, value in fields.items()}
    usable = {name: text for name, text in written.items() if text and len(text) <= LONGEST_VALUE}
    ordered = sorted(usable, key=lambda name: not names_answer(name))
    return {name: usable[name] for name in ordered[:MOST_FIELDS]}


def names_answer(name: str) -> bool:
    """Whether a field's name says that it holds the answer."""
    return any(word in ANSWER_NAMES for word in re.split(r"[^a-z]+", name.lower()))


def _write(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str | int):
        return str(value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list) and value and all(isinstance(item, str | int | float) for item in value):
        return " ".join(_write(item) for item in value)
    if isinstance(value, dict | list) and value:
        return json.dumps(value)
    return ""
