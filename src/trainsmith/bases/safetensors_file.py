"""The safetensors format without numpy or torch: an 8-byte length, a JSON header, then the tensors' bytes.

Source of the format: the README of huggingface/safetensors. Only what bases need: copying tensors, and
reading names, shapes and types without the data.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainsmith.errors import UserError

_HEADER_LIMIT = 64 * 2**20


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Name, shape and type of one tensor; `dtype` is the format's own name (`BF16`, `F32`, ...)."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class RawTensor:
    """One tensor with its little-endian bytes."""

    shape: tuple[int, ...]
    dtype: str
    data: bytes


def write_safetensors(path: Path, tensors: Mapping[str, RawTensor]) -> None:
    """Write the tensors in order of name."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name in sorted(tensors):
        tensor = tensors[name]
        end = offset + len(tensor.data)
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": (offset, end)}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            file.write(tensors[name].data)


def read_specs(path: Path) -> tuple[TensorSpec, ...]:
    """Name, shape and type of every tensor, from the header alone. Raises UserError for a broken file."""
    return tuple(TensorSpec(name, shape, dtype) for name, shape, dtype, _, _ in _entries(path))


def read_tensors(path: Path) -> Iterator[tuple[str, RawTensor]]:
    """Every tensor of the file, one at a time. Raises UserError for a broken file."""
    with path.open("rb") as file:
        for name, shape, dtype, start, end in _entries(path):
            file.seek(start)
            data = file.read(end - start)
            if len(data) != end - start:
                raise UserError(f"{name} is cut short", where=str(path), fix="fetch the file again")
            yield name, RawTensor(shape, dtype, data)


def _entries(path: Path) -> list[tuple[str, tuple[int, ...], str, int, int]]:
    """(name, shape, dtype, first byte, byte after the last) of every tensor; bytes are the file's."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > _HEADER_LIMIT:
                raise ValueError("header too long")
            header = json.loads(file.read(length))
        return [
            (name, tuple(entry["shape"]), entry["dtype"], *(8 + length + at for at in entry["data_offsets"]))
            for name, entry in header.items()
            if name != "__metadata__"
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise UserError(
            f"not a safetensors file: {error}", where=str(path), fix="fetch the file again"
        ) from error
