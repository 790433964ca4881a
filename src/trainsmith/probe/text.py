"""Author text made fit for one line of evidence: escaped, quoted, short."""

from __future__ import annotations

LINE = 400
"""Longest evidence or fix, in characters."""
QUOTE = 80
"""Longest quotation inside it."""


def clean(text: str) -> str:
    """`text` on one line: white space folded, everything unprintable as its escape."""
    folded = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in folded)


def short(text: str, limit: int = LINE) -> str:
    """`text` clean and at most `limit` characters long."""
    line = clean(text[: 4 * limit])
    cut = len(text) > 4 * limit or len(line) > limit
    return line[: limit - 1].rstrip() + "…" if cut else line


def quote(text: str, limit: int = QUOTE) -> str:
    """`text` in double quotes, with its line breaks visible, at most `limit` characters between them."""
    head = text[: limit + 1].replace("\\", "\\\\").replace('"', '\\"')
    head = head.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in head)
    return f'"{line[: limit - 1]}…"' if len(text) > limit or len(line) > limit else f'"{line}"'


def number(value: float) -> str:
    """A reward or a time in few characters."""
    return f"{value:.3g}"


def plural(count: int, noun: str) -> str:
    """`3 tasks`, `1 task`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
