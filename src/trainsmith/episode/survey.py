"""What a workspace holds, found without following links and refused as soon as it is not plain.

Agents cannot make anything else with their tools; another process can, so every look is strict and bounded.
"""

from __future__ import annotations

import os
import stat

from trainsmith.episode.beneath import FOLDER
from trainsmith.episode.names import MAX_DEPTH, NAME, WorkspaceError, shown
from trainsmith.jobs.limits import MAX_DIRECTORIES, MAX_FILES, MAX_NAME
from trainsmith.jobs.paths import GUIDE, LEFT_OUT
from trainsmith.records import FileEntry

REMOVE = "remove it; the workspace holds plain files in plain folders only"


def survey(root: int) -> tuple[FileEntry, ...]:
    """All files below the folder `root`, by path, the guide included; droppings of tools are left out.

    Raises WorkspaceError for links, hard links, devices, odd names, too many or too deep entries, and
    OSError.
    """
    found = _Survey()
    found.enter(root, ())
    if len(found.files) > MAX_FILES + 1:  # the guide is one more
        raise _full()
    return tuple(sorted(found.files, key=lambda entry: entry.path))


def check_plain(status: os.stat_result, path: str) -> None:
    """WorkspaceError unless `status` is that of a regular file with no second name."""
    if stat.S_ISDIR(status.st_mode):
        raise WorkspaceError("is a folder", where=shown(path), fix="name a file in it")
    if stat.S_ISLNK(status.st_mode):
        raise WorkspaceError("is a symbolic link", where=shown(path), fix=REMOVE)
    if not stat.S_ISREG(status.st_mode):
        raise WorkspaceError("is not a regular file", where=shown(path), fix=REMOVE)
    if status.st_nlink != 1:
        raise WorkspaceError("is a hard link", where=shown(path), fix=REMOVE)


def _full() -> WorkspaceError:
    return WorkspaceError(
        f"holds more than {MAX_FILES} files or {MAX_DIRECTORIES} folders",
        where="the workspace",
        fix="remove files that are not of the job",
    )


class _Survey:
    """One walk with its counts."""

    def __init__(self) -> None:
        self.files: list[FileEntry] = []
        self.folders = 0

    def enter(self, folder: int, above: tuple[str, ...]) -> None:
        for name in self._names(folder, above):
            path = "/".join((*above, name))
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                check_plain(status, path)
                self.files.append(FileEntry(path=path, size=status.st_size, read_only=path == GUIDE))
                continue
            self.folders += 1
            if self.folders > MAX_DIRECTORIES or len(self.files) > MAX_FILES + 1:
                raise _full()
            deeper = os.open(name, FOLDER, dir_fd=folder)
            try:
                self.enter(deeper, (*above, name))
            finally:
                os.close(deeper)

    def _names(self, folder: int, above: tuple[str, ...]) -> list[str]:
        """Sorted names in `folder`; gives up as soon as there are more than a workspace may hold."""
        names: list[str] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name in LEFT_OUT and (above or entry.name != GUIDE):
                    continue
                names.append(entry.name)
                self._check_name("/".join((*above, entry.name)), entry.name, len(above) + 1)
                if len(names) > MAX_FILES + MAX_DIRECTORIES + 1:
                    raise _full()
        return sorted(names)

    def _check_name(self, path: str, name: str, depth: int) -> None:
        if depth > MAX_DEPTH or len(name) > MAX_NAME or not NAME.fullmatch(name):
            raise WorkspaceError("has an odd or too deep name", where=shown(path), fix="remove it")
