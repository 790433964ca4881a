"""Which files a jailed Python needs: the interpreter, its standard library, the installed packages. Nothing
else.

Of a prefix only `bin`, `lib`, `lib64` and `pyvenv.cfg` are shown, so a `pip.conf` with credentials stays
outside.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from trainsmith.errors import MachineError

_PARTS = ("bin", "lib", "lib64", "pyvenv.cfg")
_SYSTEM = Path("/usr")
_PACKAGES = ("verifiers", "msgpack")


@dataclass(frozen=True)
class Interpreter:
    """This process's Python as a jail sees it."""

    executable: Path
    needs: tuple[Path, ...]
    """Files and folders outside /usr to show read-only, at their own paths."""
    packages: tuple[Path, ...]
    """Folders of installed packages for PYTHONPATH."""


@functools.cache
def current() -> Interpreter:
    """The running interpreter. Raises MachineError where it cannot be shown without the whole disk."""
    executable = Path(sys.executable)
    prefixes = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix), Path(sys.base_exec_prefix)}
    prefixes |= {prefix.resolve() for prefix in prefixes}
    if any(prefix in (Path("/"), Path.home()) for prefix in prefixes):
        raise MachineError(
            "the interpreter's prefix is the whole disk or a home folder",
            where=str(executable),
            fix="run trainsmith from a virtual environment",
        )
    packages = _package_folders()
    shown = [prefix / part for prefix in prefixes for part in _PARTS if (prefix / part).exists()]
    return Interpreter(executable, _outermost([*shown, *packages]), packages)


def _package_folders() -> tuple[Path, ...]:
    folders = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")]
    for package in _PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise MachineError(
                f"the package {package} is not installed",
                where=sys.executable,
                fix=f"install it: pip install {package}",
            )
        folders.append(Path(spec.origin).parent.parent)
    return tuple(dict.fromkeys(folder for folder in folders if folder.is_dir()))


def _outermost(paths: list[Path]) -> tuple[Path, ...]:
    """Drop what lies inside /usr or inside another path of the list."""
    kept: list[Path] = []
    for path in sorted(set(paths), key=lambda item: len(item.parts)):
        if not any(path.is_relative_to(other) for other in (_SYSTEM, *kept)):
            kept.append(path)
    return tuple(kept)
