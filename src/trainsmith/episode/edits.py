"""Replacing one piece of a text, with errors that say where the text differs. Pure."""

from __future__ import annotations

from trainsmith.episode.names import WorkspaceError, shown
from trainsmith.episode.nearest import nearest_line
from trainsmith.records import Record


class Edit(Record):
    """A text after one replacement, and the line where it took place, from 1."""

    content: str
    line: int


def replace_once(path: str, content: str, old: str, new: str) -> Edit:
    """Replace the only place where `old` stands in `content` by `new`.

    Raises WorkspaceError about `path`: `old` is empty, absent (the nearest line is named) or in several
    places.
    """
    if not old:
        raise _refuse(path, "the old text is empty", "name the text to replace, or use write_file")
    if old == new:
        raise _refuse(path, "the old and the new text are the same", "change the new text")
    at = content.find(old)
    if at < 0:
        near = nearest_line(content, old)
        fix = f"the nearest line is {near.number}: `{near.text}`" if near else "use write_file"
        raise _refuse(path, "the old text is not in the file", fix)
    places = _places(content, old, at)
    if len(places) > 1:
        lines = ", ".join(str(_line(content, place)) for place in places[:5])
        count = f"{len(places)} places" if len(places) <= 5 else "more than 5 places"
        raise _refuse(
            path, f"the old text stands in {count} (lines {lines})", "add more of the text around it"
        )
    return Edit(content=content[:at] + new + content[at + len(old) :], line=_line(content, at))


def _places(content: str, old: str, at: int) -> list[int]:
    """Where `old` begins, overlapping places included; the first six are enough."""
    places: list[int] = []
    while at >= 0 and len(places) < 6:
        places.append(at)
        at = content.find(old, at + 1)
    return places


def _line(content: str, at: int) -> int:
    return content.count("\n", 0, at) + 1


def _refuse(path: str, what: str, fix: str) -> WorkspaceError:
    return WorkspaceError(what, where=shown(path), fix=fix)
