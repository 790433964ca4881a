"""The canned replies that tasks are answered with, none of them from a model.

Lengths stay within what the job lets its model write, so a reward is judged only on replies that it can meet.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from trainsmith.jail.border import TaskView
from trainsmith.probe import fields
from trainsmith.probe.fields import Writing
from trainsmith.probe.observations import HERE, Canned, ReplyKind

CHARACTERS_PER_TOKEN = 16
"""Upper bound for plain text: no word piece of a usual vocabulary is longer."""
SHORTEST_CAP = 64
UNKNOWN_TOKENS = 16
_SYLLABLES = ("ba", "du", "fi", "go", "ke", "lo", "mi", "nu", "pe", "ra", "su", "ti", "vo", "wa", "xi", "zu")


def cap(max_tokens: int | None, longest: int) -> int:
    """Characters that a canned reply may have when the model may write `max_tokens` (None: not known)."""
    return max(SHORTEST_CAP, min(longest, (max_tokens or UNKNOWN_TOKENS) * CHARACTERS_PER_TOKEN))


def hollow(length: int) -> tuple[Canned, ...]:
    """Replies without content, the same for every task but for the echo; the empty one first."""
    junk = _junk(length)
    return (
        Canned(ReplyKind.EMPTY, ""),
        Canned(ReplyKind.REFUSAL, "I don't know."),
        Canned(ReplyKind.ECHO, HERE),
        Canned(ReplyKind.JUNK, " ".join(junk.split()[:3])),
        Canned(ReplyKind.REPEATED, _fill("the ", length)),
        Canned(ReplyKind.LONG, junk),
        Canned(ReplyKind.TAGS, "<answer></answer>"),
        Canned(ReplyKind.TAGS, "\\boxed{}", "boxed"),
    )


def stress(length: int) -> tuple[Canned, ...]:
    """Replies on which a regular expression with nested repeats backtracks for ever."""
    return (
        Canned(ReplyKind.STRESS, "a" * (length - 1) + "!", "letters"),
        Canned(ReplyKind.STRESS, "1" * (length - 1) + "x", "digits"),
        Canned(ReplyKind.STRESS, _fill("a ", length - 1) + "!", "words"),
        Canned(ReplyKind.STRESS, _fill("<answer>", length - 1) + "!", "tags"),
    )


def references(task: TaskView, writings: Iterable[Writing] | None = None) -> tuple[Canned, ...]:
    """The task's own fields as replies: in these writings, or each field in every form."""
    own = fields.values(task)
    chosen = fields.writings(own) if writings is None else writings
    return tuple(
        Canned(ReplyKind.FIELD, w.form.write(own[w.field]), w.label) for w in chosen if w.field in own
    )


def swapped(task: TaskView, others: Sequence[TaskView], writings: Iterable[Writing]) -> Iterator[Canned]:
    """For each writing: the first value of the `others`, from the next task on, that is not the own one."""
    own = fields.values(task)
    start = next((i for i, other in enumerate(others) if other.index == task.index), 0) + 1
    turned = [fields.values(other) for other in (*others[start:], *others[:start])]
    for writing in writings:
        found = (values[writing.field] for values in turned if writing.field in values)
        wrong = next((value for value in found if value != own.get(writing.field)), None)
        if wrong is not None and writing.field in own:
            yield Canned(ReplyKind.SWAPPED, writing.form.write(wrong), writing.label)


def shared(tasks: Iterable[TaskView], writings: Iterable[Writing], length: int) -> Iterator[Canned]:
    """For each writing, the same for every task: the most frequent value, and as many values as fit."""
    written = [fields.values(task) for task in tasks]
    for writing in writings:
        counts = Counter(values[writing.field] for values in written if writing.field in values)
        common = [value for value, _ in counts.most_common()]
        if common:
            yield Canned(ReplyKind.CONSTANT, writing.form.write(common[0][:length]), writing.label)
        if len(common) > 1:
            yield Canned(ReplyKind.EVERY, writing.form.write(_pack(common, length)), writing.label)


def echoes(writings: Iterable[Writing]) -> tuple[Canned, ...]:
    """The echo in the writings' forms."""
    forms = dict.fromkeys(writing.form for writing in writings)
    return tuple(
        Canned(ReplyKind.ECHO, form.write(HERE), form.name) for form in forms if form.template != "{}"
    )


def _pack(words: Sequence[str], length: int) -> str:
    packed = words[0][:length]
    for word in words[1:]:
        if len(packed) + len(word) + 1 > length:
            break
        packed += f" {word}"
    return packed


def _junk(length: int) -> str:
    """Words of no language, the same in every probe."""
    draw = random.Random(0)
    text = ""
    while len(text) < length:
        text += "".join(draw.choices(_SYLLABLES, k=draw.randint(2, 4))) + " "
    return text[:length].rstrip()


def _fill(unit: str, length: int) -> str:
    return (unit * (length // len(unit) + 1))[:length]
