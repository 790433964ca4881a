"""Residual addition with RMS norm, and the gate of the MLP: one pass over memory each."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _add_norm_kernel(X, Y, WEIGHT, OUT, size, epsilon, HAS_Y: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * size
    column = tl.arange(0, BLOCK)
    inside = column < size
    x = tl.load(X + row + column, mask=inside, other=0.0)
    if HAS_Y:
        x += tl.load(Y + row + column, mask=inside, other=0.0).to(tl.float32)
        tl.store(X + row + column, x, mask=inside)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / size + epsilon)
    normed = x * scale * tl.load(WEIGHT + column, mask=inside, other=0.0)
    tl.store(OUT + row + column, normed.to(OUT.dtype.element_ty), mask=inside)


@triton.jit
def _gated_silu_kernel(GATE_UP, OUT, size, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < size
    gate = tl.load(GATE_UP + row * 2 * size + column, mask=inside, other=0.0)
    up = tl.load(GATE_UP + (row * 2 + 1) * size + column, mask=inside, other=0.0)
    wide = gate.to(tl.float32)
    # Rounded after each of the two operations, as the learner's torch path rounds.
    silu = (wide / (1.0 + tl.exp(-wide))).to(gate.dtype).to(tl.float32)
    product = (silu * up.to(tl.float32)).to(gate.dtype)
    tl.store(OUT + row * size + column, product.to(OUT.dtype.element_ty), mask=inside)


def add_norm(
    x_BD: Tensor, y_BD: Tensor | None, weight_D: Tensor, epsilon: float, dtype: torch.dtype
) -> Tensor:
    """Add y (if any) to the float32 residual x in place; the RMS norm of the sum, [B, D] in `dtype`."""
    rows, size = x_BD.shape
    out = torch.empty(rows, size, dtype=dtype, device=x_BD.device)
    block = triton.next_power_of_2(size)
    _add_norm_kernel[(rows,)](
        x_BD,
        x_BD if y_BD is None else y_BD,
        weight_D,
        out,
        size,
        epsilon,
        HAS_Y=y_BD is not None,
        BLOCK=block,
        num_warps=min(8, max(1, block // 256)),
    )
    return out


def gated_silu(gate_up_BJ: Tensor, dtype: torch.dtype) -> Tensor:
    """silu(gate) * up of stacked rows [B, 2 I]: [B, I] in `dtype`."""
    rows, size = gate_up_BJ.shape[0], gate_up_BJ.shape[1] // 2
    out = torch.empty(rows, size, dtype=dtype, device=gate_up_BJ.device)
    block = min(1024, triton.next_power_of_2(size))
    _gated_silu_kernel[(rows, triton.cdiv(size, block))](gate_up_BJ, out, size, BLOCK=block)
    return out
