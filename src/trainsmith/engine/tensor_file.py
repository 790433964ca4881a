"""Named tensors in a safetensors file: read, and written whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from trainsmith.errors import MachineError, UserError


def read_tensors(file: Path) -> dict[str, Tensor]:
    """All tensors of a file, on the CPU. Raises UserError when it is missing or broken."""
    try:
        with safe_open(str(file), framework="pt") as reader:
            return {name: reader.get_tensor(name) for name in reader.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise UserError(f"unreadable weights: {error}", where=str(file)) from error


def write_tensors(named: Mapping[str, Tensor], file: Path) -> None:
    """Replace `file` by these tensors in float32, durably and in one step; folders are made.

    Raises MachineError when the disk refuses; the old file stays then.
    """
    plain = {name: tensor.detach().float().cpu().contiguous() for name, tensor in named.items()}
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        save_file(plain, str(draft), {"format": "pt"})
        descriptor = os.open(draft, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        draft.replace(file)
    except (OSError, SafetensorError) as error:
        _remove(draft)
        raise MachineError(
            f"cannot save weights: {error}", where=str(file), fix="free some disk space"
        ) from error


def _remove(draft: Path) -> None:
    with contextlib.suppress(OSError):
        draft.unlink()
