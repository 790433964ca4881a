"""The line of a file that is nearest to a text which is not in it."""

from __future__ import annotations

from difflib import SequenceMatcher

from trainsmith.records import Record

WORK = 4_000_000
"""Bound on the sum of (line length x wanted length): under half a second however the texts look."""
LONGEST = 400
"""Characters of a line that are compared and shown."""


class NearLine(Record):
    """A line and its number, from 1."""

    number: int
    text: str


def missing_line(content: str, old: str) -> str:
    """The first line of `old` that no line of `content` equals; else its first line that says something."""
    have = {line.strip() for line in content.splitlines()}
    wanted = [line for line in old.splitlines() if line.strip()]
    return next((line for line in wanted if line.strip() not in have), wanted[0] if wanted else "")


def nearest_line(content: str, old: str) -> NearLine | None:
    """The line of `content` most like the line of `old` that is missing; None if nothing is alike at all."""
    wanted = missing_line(content, old).strip()[:LONGEST]
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    best, found, work = 0.0, None, 0
    for number, line in enumerate(content.splitlines(), start=1):
        text = line.strip()[:LONGEST]
        work += len(text) * len(wanted)
        if work > WORK:
            break
        matcher.set_seq1(text)
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
            best, found = matcher.ratio(), NearLine(number=number, text=line[:LONGEST])
    return found
