"""All installed families, found by the entry point group `trainsmith.families`."""

from __future__ import annotations

import difflib
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from trainsmith.errors import MachineError, UserError
from trainsmith.families.family import Family
from trainsmith.families.kind import AnyKind
from trainsmith.families.task_id import TaskId

GROUP = "trainsmith.families"


@cache
def families() -> tuple[Family, ...]:
    """All families by name. MachineError for a plug-in that cannot be used."""
    found = tuple(_load(point) for point in sorted(entry_points(group=GROUP), key=lambda point: point.name))
    names = [family.name for family in found]
    if len(set(names)) < len(names):
        raise MachineError(f"two plug-ins name the same family: {', '.join(names)}", fix="uninstall one")
    return found


def find(task: TaskId) -> AnyKind:
    """The kind of a task. UserError, with the nearest ids, if there is none."""
    for family in families():
        if family.name == task.family and (kind := family.kind(task.kind)):
            return kind
    known = [f"{family.name}/{kind.name}" for family in families() for kind in family.kinds]
    near = difflib.get_close_matches(f"{task.family}/{task.kind}", known, n=3, cutoff=0.6) or known
    ids = ", ".join(f"{name}@{task.seed}" for name in near)
    raise UserError(f"there is no task {task}", where="task", fix=f"use one of: {ids}")


def _load(point: EntryPoint) -> Family:
    """The family behind an entry point: code of another distribution, which may fail in any way."""
    where = f"family plug-in {point.name} ({point.value})"
    try:
        family = point.load()
    except Exception as error:
        raise MachineError(f"cannot be loaded: {error}", where=where, fix="mend or uninstall it") from error
    if not isinstance(family, Family) or family.name != point.name:
        raise MachineError(f"is no Family named {point.name!r}", where=where, fix="mend or uninstall it")
    return family
