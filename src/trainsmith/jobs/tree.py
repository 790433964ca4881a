"""Reads a job folder once, safely: plain files of bounded number and size, nothing reached through a link.

Every file is opened relative to its directory's descriptor without following links, checked on the open
descriptor and read up to the limit. What is checked is therefore what is parsed, hashed and copied, however
the folder changes meanwhile. What the files say is not looked at here.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trainsmith.errors import MachineError, UserError
from trainsmith.jobs.limits import MAX_BYTES, MAX_DEPTH, MAX_DIRECTORIES, MAX_FILES
from trainsmith.jobs.paths import CONFIG, LEFT_OUT, name_fault
from trainsmith.jobs.problems import Problem, quote
from trainsmith.records import Record

_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CHANGED = frozenset({errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO})
"""What an entry that was swapped between the look and the opening gives."""

_LESS_DATA = "make the data smaller, or make it in code from a seed"


class FileDigest(Record):
    """One file of a job: path with `/`, size in bytes, sha256 in hex. No times, no modes."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Tree:
    """The folder as read: contents by path in sorted order, all directories, and what was wrong."""

    contents: dict[str, bytes]
    directories: tuple[str, ...]
    problems: tuple[Problem, ...]
    complete: bool
    """False when a limit of the whole folder stopped the reading; rl.toml is read before all others."""

    def digests(self) -> tuple[FileDigest, ...]:
        """A digest of every file, sorted by path."""
        return tuple(
            FileDigest(path=path, size=len(content), sha256=hashlib.sha256(content).hexdigest())
            for path, content in self.contents.items()
        )


@dataclass(slots=True)
class _Walk:
    contents: dict[str, bytes] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    size: int = 0
    full: bool = False

    def refuse(self, where: str, what: str, fix: str) -> None:
        self.problems.append(Problem(where=where, what=what, fix=fix))

    def stop(self, what: str, fix: str) -> None:
        """A limit of the whole folder is passed: say so once and read no more."""
        self.full = True
        self.refuse("the job folder", what, fix)


def read_tree(directory: Path) -> Tree:
    """Read all of a job folder. UserError if there is no such folder, MachineError if it cannot be read."""
    walk = _Walk()
    with _opened(directory) as descriptor:
        _read_directory(walk, descriptor, "", 1)
    return Tree(
        contents=dict(sorted(walk.contents.items())),
        directories=tuple(sorted(walk.directories)),
        problems=tuple(walk.problems),
        complete=not walk.full,
    )


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    try:
        descriptor = os.open(directory, _OPEN_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError) as error:
        what = "is a file" if isinstance(error, NotADirectoryError) else "no such folder"
        raise UserError(what, where=str(directory), fix="give the folder of a job") from error
    except PermissionError as error:
        raise UserError("may not be read", where=str(directory), fix="give read permission") from error
    try:
        yield descriptor
    except OSError as error:
        raise MachineError(
            f"cannot be read ({error.strerror})", where=str(directory), fix="check the disk"
        ) from error
    finally:
        os.close(descriptor)


def _read_directory(walk: _Walk, descriptor: int, prefix: str, depth: int) -> None:
    with os.scandir(descriptor) as entries:
        names = _first_names(walk, entries)
    for name in names:
        if walk.full:
            return
        path = prefix + name
        shown = path if path.isprintable() else quote(path)
        if fault := name_fault(name):
            walk.refuse(shown, f"the name {fault}", "rename it")
        else:
            _try_entry(walk, descriptor, name, path, depth)


def _first_names(walk: _Walk, entries: Iterator[os.DirEntry[str]]) -> list[str]:
    """Sorted names, of no more entries than the limits of the whole folder could use up."""
    names: list[str] = []
    for entry in entries:
        if entry.name in LEFT_OUT:
            continue
        if len(names) > MAX_FILES + MAX_DIRECTORIES:
            _too_many_files(walk)
            return []
        names.append(entry.name)
    return sorted(names, key=lambda name: (name != CONFIG, name))


def _too_many_files(walk: _Walk) -> None:
    walk.stop(
        f"has more than {MAX_FILES} files", "put the data into fewer files, or make it in code from a seed"
    )


def _try_entry(walk: _Walk, parent: int, name: str, path: str, depth: int) -> None:
    try:
        _read_entry(walk, parent, name, path, depth)
    except PermissionError:
        walk.refuse(path, "may not be read", "give read permission")
    except OSError as error:
        if error.errno not in _CHANGED:
            raise
        walk.refuse(path, "changed while it was read", "try again when nothing writes to the folder")


def _read_entry(walk: _Walk, parent: int, name: str, path: str, depth: int) -> None:
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        walk.refuse(path, "is a symbolic link", "put the file itself there")
    elif stat.S_ISDIR(mode):
        _enter(walk, parent, name, path, depth)
    elif stat.S_ISREG(mode):
        _read_file(walk, parent, name, path)
    else:
        walk.refuse(path, "is not a regular file", "remove it")


def _enter(walk: _Walk, parent: int, name: str, path: str, depth: int) -> None:
    if depth >= MAX_DEPTH:
        walk.refuse(path, f"is deeper than {MAX_DEPTH} names", "use fewer levels of folders")
        return
    if len(walk.directories) == MAX_DIRECTORIES:
        walk.stop(f"has more than {MAX_DIRECTORIES} folders", "use fewer folders")
        return
    walk.directories.append(path)
    descriptor = os.open(name, _OPEN_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        _read_directory(walk, descriptor, f"{path}/", depth + 1)
    finally:
        os.close(descriptor)


def _read_file(walk: _Walk, parent: int, name: str, path: str) -> None:
    if len(walk.contents) == MAX_FILES:
        _too_many_files(walk)
        return
    descriptor = os.open(name, _OPEN_FILE, dir_fd=parent)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            walk.refuse(path, "is not a regular file", "remove it")
            return
        content = b"" if status.st_size > MAX_BYTES else file.read(MAX_BYTES + 1)
    size = max(status.st_size, len(content))
    if size > MAX_BYTES:
        walk.refuse(path, f"has {size} bytes; a job may have {MAX_BYTES} in all", _LESS_DATA)
    elif walk.size + size > MAX_BYTES:
        walk.stop(f"has more than {MAX_BYTES} bytes", _LESS_DATA)
    else:
        walk.size += size
        walk.contents[path] = content
