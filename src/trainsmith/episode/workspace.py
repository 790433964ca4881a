"""The directory in which an agent writes its job: plain files, bounded in number and size, and the guide.

Everything is opened from the directory's own descriptor (see `beneath`) and checked on the open descriptor,
so that no process can swap a path between check and use. Writes replace a file in one step. What may be
done when is not decided here.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Self

from trainsmith.episode.beneath import FOLDER, open_beneath
from trainsmith.episode.edits import replace_once
from trainsmith.episode.frozen import FrozenJob
from trainsmith.episode.names import WorkspaceError, shown, split
from trainsmith.episode.placement import check_placement
from trainsmith.episode.survey import check_plain, survey
from trainsmith.errors import MachineError
from trainsmith.jobs.limits import MAX_BYTES, MAX_DIRECTORIES, MAX_FILES
from trainsmith.jobs.paths import GUIDE
from trainsmith.records import FileEntry

MAX_FILE_BYTES = 1_000_000
"""Bytes of one file."""
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MACHINE = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.EROFS,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ESTALE,
    }
)


class _Missing(WorkspaceError):
    """There is no such file."""


class Workspace:
    """An open workspace. `close` it, or use it as a context manager."""

    def __init__(self, directory: Path) -> None:
        """Open an existing directory. Raises MachineError if it is missing, or is a link."""
        try:
            self._root = os.open(directory, FOLDER)
            self._outside = os.open(directory.parent, FOLDER & ~os.O_NOFOLLOW)
        except OSError as error:
            raise _unusable(directory, error) from error
        self._label = directory.name

    @classmethod
    def create(cls, directory: Path, guide: str) -> Self:
        """Make `directory`, which must not exist, and put the read-only guide into it."""
        try:
            directory.mkdir(parents=True)
            (directory / GUIDE).write_text(guide, encoding="utf-8")
            (directory / GUIDE).chmod(0o444)
        except OSError as error:
            raise _unusable(directory, error) from error
        return cls(directory)

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self._root)
        os.close(self._outside)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def files(self) -> tuple[FileEntry, ...]:
        """All files by path. Raises WorkspaceError if something there is no plain file or folder."""
        with _faults("the workspace"):
            return survey(self._root)

    def read(self, path: str) -> str:
        """The text of one file. Raises WorkspaceError: missing, not plain, too large, not UTF-8."""
        data = self._bytes(split(path))
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise WorkspaceError(
                "is not UTF-8 text", where=shown(path), fix="write it anew as text"
            ) from error

    def write(self, path: str, content: str) -> FileEntry:
        """Create or replace one file in one step. Raises WorkspaceError: path, place, size, count."""
        names = split(path)
        path = "/".join(names)
        data = _encoded(path, content)
        files = self.files()
        check_placement(names, [entry.path for entry in files])
        _check_room(path, len(data), files)
        with _faults(path):
            self._replace(names, data)
        return FileEntry(path=path, size=len(data))

    def edit(self, path: str, old: str, new: str) -> tuple[FileEntry, int]:
        """Replace the only place where `old` stands by `new`; also the line where it began, from 1.

        Raises WorkspaceError: `old` is absent (names the nearest line), empty, or stands in several places.
        """
        edit = replace_once(path, self.read(path), old, new)
        return self.write(path, edit.content), edit.line

    def freeze(self) -> FrozenJob:
        """The job as it is now, in memory: what is hashed, probed and trained is this, not the directory."""
        with _faults("the workspace"):
            files = [entry for entry in survey(self._root) if entry.path != GUIDE]
        _check_total(files)
        frozen = FrozenJob(files=tuple((entry.path, self._bytes(split(entry.path))) for entry in files))
        if frozen.size > MAX_BYTES:
            raise WorkspaceError(
                f"holds more than {MAX_BYTES} bytes", where="the workspace", fix="make files smaller"
            )
        return frozen

    def _bytes(self, names: Sequence[str]) -> bytes:
        path = "/".join(names)
        try:
            with _faults(path):
                descriptor = open_beneath(self._root, names, _READ)
        except _Missing:
            raise self._missing(path) from None
        try:
            with _faults(path):
                return _content(descriptor, path)
        finally:
            os.close(descriptor)

    def _missing(self, path: str) -> WorkspaceError:
        paths = [entry.path for entry in self.files()]
        near = get_close_matches(path, paths, n=1, cutoff=0.5) or paths[:1]
        return WorkspaceError(
            "there is no such file", where=shown(path), fix=f"did you mean {near[0]}" if near else ""
        )

    def _replace(self, names: Sequence[str], data: bytes) -> None:
        """Write a draft beside the workspace and rename it into its place; nobody sees half a file."""
        draft = f".{self._label}.{secrets.token_hex(8)}.draft"
        folder = self._make_folders(names[:-1])
        try:
            with suppress(FileNotFoundError):
                check_plain(os.stat(names[-1], dir_fd=folder, follow_symlinks=False), "/".join(names))
            with os.fdopen(os.open(draft, _CREATE, 0o644, dir_fd=self._outside), "wb") as file:
                file.write(data)
            os.rename(draft, names[-1], src_dir_fd=self._outside, dst_dir_fd=folder)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=self._outside)
            os.close(folder)

    def _make_folders(self, names: Sequence[str]) -> int:
        """A descriptor of the folder `names`, made where it is missing."""
        folder = os.dup(self._root)
        try:
            for name in names:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=folder)
                deeper = open_beneath(folder, (name,), FOLDER)
                os.close(folder)
                folder = deeper
        except OSError:
            os.close(folder)
            raise
        return folder


def _unusable(directory: Path, error: OSError) -> MachineError:
    return MachineError(
        f"cannot be used ({error.strerror})", where=str(directory), fix="choose another run folder"
    )


def _encoded(path: str, content: str) -> bytes:
    """`content` as UTF-8, refused if it is not text or too large."""
    try:
        data = content.encode()
    except UnicodeEncodeError as error:
        raise WorkspaceError("has lone surrogates", where=shown(path), fix="write valid Unicode") from error
    if b"\0" in data:
        raise WorkspaceError("has NUL characters", where=shown(path), fix="write text")
    if len(data) > MAX_FILE_BYTES:
        raise _too_large(path, len(data))
    return data


def _content(descriptor: int, path: str) -> bytes:
    """All of an open file, which must be plain and within the limit even if it grows meanwhile."""
    status = os.fstat(descriptor)
    check_plain(status, path)
    if status.st_size > MAX_FILE_BYTES:
        raise _too_large(path, status.st_size)
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise _too_large(path, len(data))
    return data


def _too_large(path: str, size: int) -> WorkspaceError:
    return WorkspaceError(
        f"has {size} bytes, at most {MAX_FILE_BYTES} are taken",
        where=shown(path),
        fix="make it smaller, or in code",
    )


def _check_room(path: str, size: int, files: Sequence[FileEntry]) -> None:
    others = [entry for entry in files if entry.path not in (path, GUIDE)]
    folders = {str(parent) for entry in others for parent in PurePosixPath(entry.path).parents}
    folders.update(str(parent) for parent in PurePosixPath(path).parents)
    if len(folders) > MAX_DIRECTORIES + 1:  # the workspace itself is one more
        raise WorkspaceError(
            f"a job has at most {MAX_DIRECTORIES} folders", where=shown(path), fix="use an existing folder"
        )
    if len(others) >= MAX_FILES:
        raise WorkspaceError(
            f"a job has at most {MAX_FILES} files", where=shown(path), fix="use an existing file"
        )
    _check_total([*others, FileEntry(path=path, size=size)])


def _check_total(files: Sequence[FileEntry]) -> None:
    total = sum(entry.size for entry in files)
    if len(files) > MAX_FILES or total > MAX_BYTES:
        raise WorkspaceError(
            f"would hold {len(files)} files of {total} bytes, at most {MAX_FILES} of {MAX_BYTES} are taken",
            where="the workspace",
            fix="make files smaller, or make the data in code from a seed",
        )


@contextmanager
def _faults(path: str) -> Iterator[None]:
    """Tell the machine's faults from what an agent, or somebody in its workspace, put in the way.

    Only a short list of errors makes an episode void; whatever else a path can be made to raise is the
    agent's.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise _Missing("there is no such file", where=shown(path), fix="see list_files") from error
    except OSError as error:
        if error.errno in _MACHINE:
            raise MachineError(
                f"cannot be used ({error.strerror})",
                where=shown(path),
                fix="check the disk and its free space",
            ) from error
        raise WorkspaceError(
            f"the way leads through something that is no plain file or folder ({error.strerror})",
            where=shown(path),
            fix="use another path",
        ) from error
