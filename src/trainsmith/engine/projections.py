"""The linear maps of the model, by what of them is trained: nothing, the matrix, or low-rank adapters.

All take float32 or the matrix's type. A product's factors are in the matrix's type, and so is its result on
a CPU. On a GPU that is float32: sampler and learner add in other orders there, and rounding would make of the
last bit of a sum a difference of the type's own grid, layer by layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from trainsmith.engine.device import reduced_factors


class Projection(Protocol):
    """A linear map of the last axis."""

    def __call__(self, x: Tensor) -> Tensor:
        """Map x [..., in] to [..., out]."""


@dataclass(slots=True)
class Plain:
    """A matrix [out, in] with an optional float32 bias."""

    matrix: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        """The product; with a bias the result is float32."""
        if self.matrix.dtype == torch.float32:
            return F.linear(x, self.matrix, self.bias)
        y = _product(x.to(self.matrix.dtype), self.matrix)
        return y if self.bias is None else y.float() + self.bias


@dataclass(slots=True)
class Trained:
    """A matrix under full training: a float32 master, and the working copy of it that products use.

    In float32 both are the same tensor. The gradient goes to `master.grad`, in place and in float32: a fresh
    gradient for every pass would cost as much time as its product.
    """

    master: Tensor
    working: Tensor
    bias: Tensor | None
    stale: bool = True
    """`master.grad` holds the last step's gradient, to be overwritten and not added to."""

    def __call__(self, x: Tensor) -> Tensor:
        """The product; with a bias the result is float32."""
        y: Tensor = _TrainedProduct.apply(x, self)  # type: ignore[no-untyped-call]
        return y if self.bias is None else y.float() + self.bias

    def accumulate(self, gradient: Tensor, x: Tensor) -> None:
        """Add gradient^T x to the master's gradient."""
        if self.master.grad is None:
            self.master.grad = torch.empty_like(self.master)
        factors = gradient.float().t(), x.float()
        if self.working.dtype == torch.float32:
            self.master.grad.addmm_(*factors, beta=float(not self.stale))
        else:
            with reduced_factors(x.device):
                self.master.grad.addmm_(*factors, beta=float(not self.stale))
        self.stale = False


class _TrainedProduct(torch.autograd.Function):
    """y = x W^T. The gradient by W is accumulated on the side."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, trained: Trained) -> Tensor:
        factor = x.to(trained.working.dtype)
        ctx.save_for_backward(factor)
        ctx.trained, ctx.input_dtype = trained, x.dtype
        return _product(factor, trained.working)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (factor,) = ctx.saved_tensors
        working = ctx.trained.working
        gradient = gradients[0].to(working.dtype)
        ctx.trained.accumulate(gradient, factor)
        return _product(gradient, working.t()).to(ctx.input_dtype), None


def _product(x: Tensor, matrix: Tensor) -> Tensor:
    """x [T, in] times matrix [out, in], both of one type."""
    if x.is_cuda and x.dtype != torch.float32:
        return torch.mm(x, matrix.t(), out_dtype=torch.float32)
    return F.linear(x, matrix)


@dataclass(slots=True)
class Adapter:
    """One low-rank map, float32: `down` [rank, in], `up` [out, rank]."""

    down: Tensor
    up: Tensor


@dataclass(slots=True)
class Adapted:
    """A frozen map plus scaled low-rank maps of the parts that are stacked in it (LoRA, arXiv 2106.09685)."""

    frozen: Plain
    adapters: tuple[Adapter, ...]
    scale: float
    dropout: float

    def __call__(self, x: Tensor) -> Tensor:
        """The frozen product plus the adapters', in float32."""
        wide = x.float()
        parts = [F.linear(F.linear(self._dropped(wide), part.down), part.up) for part in self.adapters]
        return self.frozen(x).float() + torch.cat(parts, dim=-1) * self.scale

    def delta(self) -> Tensor:
        """What the adapters add to the frozen matrix."""
        return torch.cat([part.up @ part.down for part in self.adapters]) * self.scale

    def _dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout) if self.dropout else x
