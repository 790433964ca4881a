"""Whether prompts leave room for replies, and whether they give the answer away."""

from __future__ import annotations

import math
import re
from collections import Counter

from trainsmith.jail.border import TaskView
from trainsmith.probe import fields
from trainsmith.probe.observations import Observations, question
from trainsmith.probe.text import plural, quote
from trainsmith.probe.verdicts import failed, passed, skipped
from trainsmith.records import Check

PROMPTS_FIT = "prompts_fit"
NO_ANSWER_LEAK = "no_answer_leak"

_COMMON_LINE = 0.5
"""A line that stands in more of the prompts than this is instruction or solved example, not a leak."""
_LABEL = re.compile(
    r"(?:^|[^\w])(?:answer|solution|result|target|output|reply|response|label|key|a)\s*(?:is|=|:|->|=>)\s*(?P<answer>.+)$",
    re.IGNORECASE,
)


def prompts_fit(seen: Observations) -> Check:
    """Prompt and reply together stay within `seq_len`, by the base model's own tokenizer."""
    config = seen.config
    if config is None:
        return skipped(PROMPTS_FIT, "not measured: rl.toml does not say how long replies and sequences are")
    refused = [prompt for prompt in seen.prompts if prompt.refused]
    if refused:
        return failed(
            PROMPTS_FIT,
            f"task {refused[0].task}: {refused[0].refused}",
            "Let a prompt be at most one system message, then user and assistant in turn, a user's last.",
        )
    if not seen.prompts:
        return passed(
            PROMPTS_FIT, "the environment opens the conversation: there is no first prompt to measure"
        )
    reply = config.orchestrator.train.sampling.max_completion_tokens or 1
    longest = max(seen.prompts, key=lambda prompt: prompt.tokens)
    over = sum(prompt.tokens + reply > config.seq_len for prompt in seen.prompts)
    needed = longest.tokens + reply
    line = f"the longest prompt, task {longest.task}, has {plural(longest.tokens, 'token')}; with "
    line += f"{plural(reply, 'reply token')} that is {needed:,} of seq_len = {config.seq_len:,}"
    if over == 0:
        return passed(PROMPTS_FIT, line)
    line += f" ({over:,} of {len(seen.prompts):,} tasks do not fit)"
    return failed(PROMPTS_FIT, line, _fit_fix(seen, needed))


def _fit_fix(seen: Observations, needed: int) -> str:
    rounded = 64 * math.ceil(needed / 64)
    if seen.context and rounded > seen.context:
        return f"Shorten the prompts or max_completion_tokens: the base model reads {seen.context:,} tokens."
    return f"Raise seq_len to {rounded:,}, or shorten the prompts or max_completion_tokens."


def no_answer_leak(seen: Observations) -> Check:
    """No prompt ends a line with a label such as `Answer:` and the task's own answer.

    An answer that stands in the prompt otherwise may be the very skill (the last word of a list); whether it
    pays to copy the prompt is judged by `junk_scores_low`.
    """
    common = _common_lines(seen.tasks)
    leaks: Counter[str] = Counter()
    example: dict[str, TaskView] = {}
    holders: Counter[str] = Counter()
    for task in seen.tasks:
        lines = _own_lines(task, common)
        for name, value in fields.values(task).items():
            holders[name] += 1
            if any(_gives(line, value) for line in lines):
                leaks[name] += 1
                example.setdefault(name, task)
    for name, count in leaks.items():
        if count >= seen.limits.leaked * holders[name] and fields.names_answer(name):
            shown = f"task {example[name].index}: {quote(question(example[name].messages)[-80:])}"
            return failed(
                NO_ANSWER_LEAK,
                f"{count:,} of {holders[name]:,} prompts spell out their field `{name}`, e.g. {shown}",
                f"Take the value of `{name}` out of the prompt: the model must find it, not copy it.",
            )
    return passed(NO_ANSWER_LEAK, "no prompt spells out its own answer")


def _common_lines(tasks: tuple[TaskView, ...]) -> frozenset[str]:
    counts = Counter(line for task in tasks for line in set(_lines(task)))
    return frozenset(line for line, n in counts.items() if n > _COMMON_LINE * len(tasks))


def _own_lines(task: TaskView, common: frozenset[str]) -> list[str]:
    return [line for line in _lines(task) if line not in common]


def _lines(task: TaskView) -> list[str]:
    """Lines of the system and the last user message; solved examples between them are not the task's own."""
    texts = [m.content for m in task.messages or () if m.role == "system"] + [question(task.messages)]
    return [line.strip() for text in texts for line in text.splitlines() if line.strip()]


def _gives(line: str, value: str) -> bool:
    return any(_same(match["answer"], value) for match in _LABEL.finditer(line))


def _same(text: str, value: str) -> bool:
    return _plain(text) == _plain(value) != ""


def _plain(text: str) -> str:
    return re.sub(r"^[\W_]+|[\W_]+$", "", re.sub(r"</?answer>", "", text)).lower()
