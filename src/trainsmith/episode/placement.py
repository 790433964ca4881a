"""Where in a workspace a file may stand. Agents cannot delete, so a misplaced file is refused at once.

What the files must say is checked by `jobs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trainsmith.episode.names import WorkspaceError, shown
from trainsmith.jobs.paths import CONFIG, ENVIRONMENT, GUIDE, belongs, package_fault


def check_placement(names: Sequence[str], present: Iterable[str]) -> None:
    """WorkspaceError if a job has no place for the file `names`, given the paths that are `present`."""
    path = "/".join(names)
    if path == GUIDE:
        raise WorkspaceError("is read-only", where=path, fix=f"write {CONFIG} and {ENVIRONMENT}/ instead")
    if not belongs(path):
        raise WorkspaceError(
            "a job has no place for it",
            where=shown(path),
            fix=f"use {CONFIG}, {ENVIRONMENT}/<package>/..., or a note at the top (.md, .txt)",
        )
    if names[0] == ENVIRONMENT:
        _check_package(names, present)


def _check_package(names: Sequence[str], present: Iterable[str]) -> None:
    path = "/".join(names)
    if len(names) < 3:
        raise WorkspaceError(
            f"{ENVIRONMENT}/ holds one package and nothing else",
            where=shown(path),
            fix=f"use {ENVIRONMENT}/<package>/__init__.py",
        )
    if fault := package_fault(names[1]):
        raise WorkspaceError(
            f"the package name {fault}", where=shown(path), fix="name the package otherwise, as in my_env"
        )
    others = {
        parts[1]
        for parts in (item.split("/") for item in present)
        if parts[0] == ENVIRONMENT and len(parts) > 2
    }
    if others - {names[1]}:
        other = min(others - {names[1]})
        raise WorkspaceError(
            f"a job has one package, and {ENVIRONMENT}/{other}/ is there",
            where=shown(path),
            fix=f"write into {ENVIRONMENT}/{other}/",
        )
