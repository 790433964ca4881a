"""Is this file nothing but trained weights of that base? Everything else in a job's output is ignored.

An allow-list: exactly the base's tensor names and shapes, in the base's dtype or float32 or bfloat16, finite,
in one regular safetensors file. Nothing is unpickled, torch is not needed, and the file is read in pieces.
Not here: whether the weights are any good, or whose they are.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from trainsmith.errors import AgentError, MachineError
from trainsmith.records import Record

MAX_HEADER_BYTES = 8 * 2**20
"""A 1.7B model's header has 40 kB."""
_PIECE = 16 * 2**20


class Reason(StrEnum):
    """Why weights are refused."""

    NOT_A_FILE = "not_a_file"
    MALFORMED = "malformed"
    NAMES = "names"
    SHAPES = "shapes"
    DTYPES = "dtypes"
    NOT_FINITE = "not_finite"


class WeightsRejected(AgentError):
    """The job's weights are not the base's tensors with other finite values."""

    def __init__(self, reason: Reason, what: str, *, where: str) -> None:
        super().__init__(what, where=where, fix=_FIXES[reason])
        self.reason = reason


class WeightsInfo(Record):
    """Weights that passed."""

    sha256: str
    bytes: int
    tensors: int


class TensorLayout(NamedTuple):
    """One tensor of a safetensors header."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size in the file."""
        return int(np.prod(self.shape, dtype=np.int64)) * _FORMATS[self.dtype].itemsize


class _Format(NamedTuple):
    """How to see a non-finite number in the raw bits: all exponent bits set."""

    bits: type[np.unsignedinteger[Any]]
    exponent: int

    @property
    def itemsize(self) -> int:
        return np.dtype(self.bits).itemsize


_FORMATS = {
    "F32": _Format(np.uint32, 0x7F80_0000),
    "BF16": _Format(np.uint16, 0x7F80),
    "F16": _Format(np.uint16, 0x7C00),
}
_ALWAYS_ALLOWED = frozenset({"F32", "BF16"})
_FETCH = "fetch the base model anew"
_FIXES = {
    Reason.NOT_A_FILE: "save the weights as one regular file",
    Reason.MALFORMED: "save the weights with safetensors",
    Reason.NAMES: "save every tensor of the base model under its own name, and nothing else",
    Reason.SHAPES: "train the base model's own architecture",
    Reason.DTYPES: "save the weights as float32 or bfloat16",
    Reason.NOT_FINITE: "training diverged: lower the learning rate or the reward's scale",
}


def check_weights(path: Path, base: Path) -> WeightsInfo:
    """Compare the safetensors file `path` with the tensors of the base directory.

    Raises:
        WeightsRejected: the file is not acceptable, with its `reason`.
        MachineError: the base directory itself cannot be read.
    """
    _require_regular(path)
    allowed = {tensor.name: tensor for tensor in base_tensors(base)}
    found = _layout(path)
    _compare(found, allowed, str(path))
    return _scan(path, found)


def base_tensors(base: Path) -> tuple[TensorLayout, ...]:
    """All tensors of a Hugging Face model directory, one file or shards."""
    files = sorted(base.glob("*.safetensors"))
    try:
        tensors = tuple(tensor for file in files for tensor in _read_layout(file))
    except (SafetensorError, OSError) as error:
        raise MachineError(f"unreadable ({error})", where=str(base), fix=_FETCH) from error
    if not tensors:
        raise MachineError("no safetensors file", where=str(base), fix=_FETCH)
    return tensors


def _require_regular(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except OSError as error:
        raise WeightsRejected(Reason.NOT_A_FILE, f"no weights ({error.strerror})", where=str(path)) from error
    if not stat.S_ISREG(mode):
        raise WeightsRejected(Reason.NOT_A_FILE, "not a regular file", where=str(path))


def _layout(path: Path) -> tuple[TensorLayout, ...]:
    """The header in file order; its size is checked before anything parses it."""
    with path.open("rb") as file:
        claimed = int.from_bytes(file.read(8), "little")
    if claimed > MAX_HEADER_BYTES:
        raise WeightsRejected(Reason.MALFORMED, f"its header claims {claimed} bytes", where=str(path))
    try:
        return _read_layout(path)
    except (SafetensorError, OSError) as error:
        raise WeightsRejected(Reason.MALFORMED, f"not safetensors ({error})", where=str(path)) from error


def _read_layout(path: Path) -> tuple[TensorLayout, ...]:
    """Header by the safetensors library, which refuses holes, overlaps and a length that does not fit."""
    with safe_open(path, framework="numpy") as file:
        slices = ((name, file.get_slice(name)) for name in file.offset_keys())
        return tuple(TensorLayout(name, part.get_dtype(), tuple(part.get_shape())) for name, part in slices)


def _compare(found: tuple[TensorLayout, ...], allowed: dict[str, TensorLayout], where: str) -> None:
    names = {tensor.name for tensor in found}
    if missing := sorted(allowed.keys() - names):
        what = f"{len(missing)} tensors are missing: {_some(missing)}"
        raise WeightsRejected(Reason.NAMES, what, where=where)
    if extra := sorted(names - allowed.keys()):
        what = f"{len(extra)} unknown tensors: {_some(extra)}"
        raise WeightsRejected(Reason.NAMES, what, where=where)
    for tensor in found:
        expected = allowed[tensor.name]
        if tensor.shape != expected.shape:
            what = f"{tensor.name} has shape {list(tensor.shape)}, not {list(expected.shape)}"
            raise WeightsRejected(Reason.SHAPES, what, where=where)
        if tensor.dtype not in (_ALWAYS_ALLOWED | {expected.dtype}) & _FORMATS.keys():
            raise WeightsRejected(Reason.DTYPES, f"{tensor.name} is {tensor.dtype}", where=where)


def _scan(path: Path, tensors: tuple[TensorLayout, ...]) -> WeightsInfo:
    """Hash the whole file and look at every number, in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        head = file.read(8)
        digest.update(head)
        digest.update(file.read(int.from_bytes(head, "little")))
        for tensor in tensors:
            for piece in _pieces(file, tensor.bytes):
                digest.update(piece)
                if not _finite(piece, _FORMATS[tensor.dtype]):
                    what = f"{tensor.name} holds NaN or infinity"
                    raise WeightsRejected(Reason.NOT_FINITE, what, where=str(path))
    return WeightsInfo(sha256=digest.hexdigest(), bytes=path.stat().st_size, tensors=len(tensors))


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    for start in range(0, size, _PIECE):
        wanted = min(_PIECE, size - start)
        piece = file.read(wanted)
        if len(piece) != wanted:
            raise WeightsRejected(Reason.MALFORMED, "the file shrank while it was read", where=file.name)
        yield piece


def _finite(piece: bytes, form: _Format) -> bool:
    exponents = np.frombuffer(piece, dtype=form.bits) & form.exponent
    return bool(exponents.max(initial=0) != form.exponent)


def _some(names: list[str], limit: int = 3) -> str:
    more = ", ..." if len(names) > limit else ""
    return ", ".join(ascii(name[:80]) for name in names[:limit]) + more
