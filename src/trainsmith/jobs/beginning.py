"""Begins a job folder: empty, as a skeleton, or with a job of the task's family."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal, get_args

from trainsmith.errors import UserError
from trainsmith.jobs.problems import listed
from trainsmith.jobs.skeleton import skeleton
from trainsmith.jobs.snapshots import publish, staged, write_files
from trainsmith.records import Task
from trainsmith.records.job import JobFile

StartName = Literal["empty", "skeleton", "working", "reference"]
"""What a new folder holds: nothing, commented files that do not pass, a mediocre job that passes, or the
expert's job. The last is never shown to an agent."""


def init(directory: Path, task: Task, start: str) -> tuple[str, ...]:
    """Make a job folder and return the paths written, sorted.

    The folder may exist if it is empty. UserError for one that is not, or for an unknown start; MachineError
    for a full disk. In each case nothing is left half-written.
    """
    contents = {file.path: file.content.encode() for file in start_files(task, start)}
    target = directory.absolute()
    _refuse_used(target)
    with staged(target if target.exists() else target.parent) as draft:
        write_files(draft, contents)
        if target.exists():
            _move_into(draft, target)
        else:
            publish(draft, target)
    return tuple(sorted(contents))


def start_files(task: Task, start: str) -> tuple[JobFile, ...]:
    """The files of a start (see `StartName`). UserError for an unknown one."""
    match start:
        case "empty":
            return ()
        case "skeleton":
            return skeleton(task)
        case "working" | "reference":
            return _of_family(task, start)
    raise UserError(f"there is no start {start!r}", where="--start", fix=f"use {listed(get_args(StartName))}")


def _of_family(task: Task, start: Literal["working", "reference"]) -> tuple[JobFile, ...]:
    from trainsmith import families  # families bring data sets along: only when their jobs are wanted

    return families.working_job(task) if start == "working" else families.reference_job(task)


def _refuse_used(directory: Path) -> None:
    def refuse(what: str) -> UserError:
        return UserError(what, where=str(directory), fix="name a new or an empty folder")

    if directory.is_symlink() and not directory.exists():
        raise refuse("is a broken link")
    if directory.exists() and not directory.is_dir():
        raise refuse("is a file")
    try:
        used = directory.exists() and any(directory.iterdir())
    except PermissionError as error:
        raise refuse("may not be read") from error
    if used:
        raise refuse("is not empty")


def _move_into(draft: Path, directory: Path) -> None:
    """Fill an existing empty folder: replacing it would pull it away under a shell that stands in it."""
    moved: list[Path] = []
    try:
        for entry in sorted(draft.iterdir()):
            target = directory / entry.name
            entry.rename(target)
            moved.append(target)
    except BaseException:
        for target in moved:
            shutil.rmtree(target) if target.is_dir() else target.unlink()
        raise
