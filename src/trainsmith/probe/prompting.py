"""Measures the tasks' prompts with the base model's own tokenizer."""

from __future__ import annotations

from collections.abc import Iterable

from trainsmith.errors import UserError
from trainsmith.jail.border import TaskView
from trainsmith.probe.observations import Prompt
from trainsmith.probe.services import PromptTokenizer


def measure(tasks: Iterable[TaskView], tokenizer: PromptTokenizer) -> tuple[Prompt, ...]:
    """The prompts of all tasks that have one."""
    return tuple(_measure(task, tokenizer) for task in tasks if task.messages)


def _measure(task: TaskView, tokenizer: PromptTokenizer) -> Prompt:
    try:
        return Prompt(task.index, len(tokenizer.encode_chat(task.messages or ())))
    except UserError as error:
        return Prompt(task.index, 0, refused=error.what)
