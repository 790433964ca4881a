"""Where and in which type the engine computes."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Set
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch

from trainsmith.errors import UserError

Dtype = Literal["auto", "float32", "bfloat16"]


def choose_device(device: str) -> str:
    """`auto` is the first GPU, else the CPU. Raises UserError for a GPU that is not there."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise UserError("no usable CUDA GPU", where="device", fix="use device = 'cpu'")
    if device != "cpu" and not device.startswith("cuda"):
        raise UserError(f"unknown device {device!r}", where="device", fix="use 'auto', 'cpu' or 'cuda'")
    return device


def choose_dtype(dtype: Dtype, device: str, stored: Set[str]) -> torch.dtype:
    """`auto` is bfloat16 on a GPU, and on a CPU that is faster in it unless the weights are stored so.

    `stored` are safetensors' names of the weights' types. Weights stored in bfloat16 lie on its grid, so that
    copies in bfloat16 show no step until it has added up to half of the grid's: a short run learns far less.
    """
    if dtype == "float32":
        return torch.float32
    if dtype == "bfloat16" or device.startswith("cuda"):
        return torch.bfloat16
    return torch.bfloat16 if fast_bfloat16() and "BF16" not in stored else torch.float32


def fast_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 clearly faster than float32.

    So it is with AMX (2.5 to 4 times) and with AMD's AVX512-BF16 (1.6 times). Intel's AVX512-BF16 without AMX
    is slower than float32. Decided by what the CPU is, not by a stop-watch, so that runs repeat.
    """
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    if torch.cpu._is_amx_tile_supported():
        return True
    return bool(torch.cpu._is_avx512_bf16_supported()) and _is_amd()


def _is_amd() -> bool:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        return "AuthenticAMD" in cpuinfo.read_text(encoding="utf-8", errors="replace")[:4096]
    return "AMD" in platform.processor()


def has_kernels(device: str) -> bool:
    """Whether the engine's Triton kernels run there: a GPU beside an installed Triton."""
    return device.startswith("cuda") and find_spec("triton") is not None


@contextmanager
def repeatable(device: str) -> Iterator[None]:
    """Inside, a GPU adds in a fixed order, so that equal seeds give equal weights. A CPU always does."""
    if not device.startswith("cuda"):
        yield
        return
    fills: Any = torch.utils.deterministic
    before = torch.are_deterministic_algorithms_enabled(), fills.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    # Nothing here reads memory before it is written, and filling it all costs as much as the work.
    fills.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        fills.fill_uninitialized_memory = before[1]


@contextmanager
def reduced_factors(device: torch.device) -> Iterator[None]:
    """Inside, float32 products may round their factors (to bfloat16 or, on a GPU, TF32), not their sums."""
    backends: Any = torch.backends
    backend = backends.cuda.matmul if device.type == "cuda" else backends.mkldnn.matmul
    before = backend.fp32_precision
    backend.fp32_precision = "tf32" if device.type == "cuda" else "bf16"
    try:
        yield
    finally:
        backend.fp32_precision = before
