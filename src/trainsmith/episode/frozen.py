"""A job as it was at one moment: the bytes that are hashed are those that are probed and trained."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from trainsmith.errors import MachineError
from trainsmith.files import write_atomic
from trainsmith.records import Record


class FrozenJob(Record):
    """All files of a job with their contents, by path."""

    files: tuple[tuple[str, bytes], ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(len(content) for _, content in self.files)

    @property
    def fingerprint(self) -> str:
        """sha256 over paths and contents: equal only for the very same files."""
        whole = hashlib.sha256()
        for path, content in self.files:
            whole.update(f"{path}\0{len(content)}\0".encode())
            whole.update(content)
        return whole.hexdigest()

    def write(self, directory: Path) -> None:
        """Make `directory` hold exactly these files, whatever an interrupted try left there.

        Raises MachineError if the disk does not take them.
        """
        try:
            if directory.exists():
                shutil.rmtree(directory)
            directory.mkdir(parents=True)
        except OSError as error:
            raise MachineError(
                f"cannot be made ({error.strerror})", where=str(directory), fix="free disk space"
            ) from error
        for path, content in self.files:
            write_atomic(directory / path, content)
