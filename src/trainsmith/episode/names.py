"""Which paths a workspace takes: relative, plain, shallow. They are still opened through `beneath`."""

from __future__ import annotations

import re

from trainsmith.errors import AgentError
from trainsmith.jobs.limits import MAX_NAME
from trainsmith.jobs.paths import GUIDE, LEFT_OUT

MAX_DEPTH = 6
"""Names in a path, the file's included."""
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", re.ASCII)
"""A plain name: no space, control character or separator, no dot or dash in front."""


class WorkspaceError(AgentError):
    """What the agent asked of its workspace cannot be done, or the workspace was tampered with."""


def shown(path: str) -> str:
    """`path` fit for a message: printable and short."""
    text = path if path.isascii() and path.isprintable() else ascii(path)[1:-1]
    return text if len(text) <= 120 else f"{text[:117]}..."


def split(path: str) -> tuple[str, ...]:
    """The names of `path`, from the workspace down. A leading `./` is dropped.

    Raises WorkspaceError for whatever is not a plain relative path.
    """
    if path.startswith("/") or "\\" in path:
        raise _refuse(path, "not a relative path with /", "name it from the workspace, as in rl.toml")
    names = path.removeprefix("./").split("/")
    if any(name in ("", ".", "..") for name in names):
        raise _refuse(path, "it has empty, . or .. parts", "name the file from the workspace, as in rl.toml")
    if len(names) > MAX_DEPTH:
        raise _refuse(path, f"deeper than {MAX_DEPTH} names", "use fewer folders")
    for name in names:
        if len(name) > MAX_NAME:
            raise _refuse(path, f"a name of {len(name)} characters", f"use at most {MAX_NAME}")
        if not NAME.fullmatch(name):
            raise _refuse(
                path,
                f"{shown(name)!r} is an odd name",
                "use letters, digits and _, and . - + but not in front",
            )
        if name in LEFT_OUT and names != [GUIDE]:
            raise _refuse(path, f"{name} is no file of a job", "choose another name")
    return tuple(names)


def _refuse(path: str, what: str, fix: str) -> WorkspaceError:
    return WorkspaceError(what, where=shown(path) or "empty path", fix=fix)
