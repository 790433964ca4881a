"""Our own few source folders, as the jail's user can read them, whatever the umask of a checkout was."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import stat
import tempfile
from pathlib import Path


@functools.cache
def readable(folder: Path) -> Path:
    """The folder itself where everybody may read it, else a copy that lives as long as this process."""
    if all(_open(path) for path in (folder, *folder.rglob("*"))):
        return folder
    place = Path(tempfile.mkdtemp(prefix="trainsmith-readable-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    place.chmod(0o755)
    copy(folder, place / folder.name)
    return place / folder.name


def copy(source: Path, target: Path) -> None:
    """Copy a folder for another user to read; links stay links, so that none leads the copy outside."""
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for folder, _, files in os.walk(target):
        Path(folder).chmod(0o755)
        for path in (Path(folder, name) for name in files):
            if not path.is_symlink():
                path.chmod(0o644)


def _open(path: Path) -> bool:
    status = path.lstat()
    needed = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(status.st_mode) else 0)
    return stat.S_ISLNK(status.st_mode) or status.st_mode & needed == needed
