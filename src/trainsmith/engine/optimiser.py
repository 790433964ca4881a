"""Optimisers by prime-rl's names, over float32 tensors with float32 gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim import SGD, AdamW, Optimizer

from trainsmith.engine.records import OptimSpec


def make_optimiser(spec: OptimSpec, tensors: Sequence[Tensor]) -> Optimizer:
    """The optimiser of a spec over `tensors`."""
    match spec.type:
        case "adamw":
            betas = (spec.betas1, spec.betas2)
            return AdamW(tensors, lr=spec.lr, weight_decay=spec.weight_decay, betas=betas, fused=True)
        case "sgd":
            return SGD(
                tensors,
                lr=spec.lr,
                weight_decay=spec.weight_decay,
                momentum=spec.momentum,
                nesterov=spec.nesterov,
                foreach=False,
            )
        case "sign_sgd":
            return SignSgd(tensors, lr=spec.lr, weight_decay=spec.weight_decay)


class SignSgd(Optimizer):
    """Every weight moves by the learning rate against its gradient's sign, after decoupled weight decay."""

    def __init__(self, tensors: Sequence[Tensor], *, lr: float, weight_decay: float) -> None:
        super().__init__(tensors, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move every tensor that has a gradient."""
        for group in self.param_groups:
            for tensor in group["params"]:
                if tensor.grad is not None:
                    tensor.mul_(1 - group["lr"] * group["weight_decay"])
                    tensor.add_(tensor.grad.sign(), alpha=-group["lr"])


@torch.no_grad()
def clip_gradients(tensors: Sequence[Tensor], max_norm: float | None) -> float:
    """Scale all gradients so that their joint norm is at most `max_norm`; the norm before.

    A norm that is not finite scales nothing: the caller decides.
    """
    gradients = [tensor.grad for tensor in tensors if tensor.grad is not None]
    norm = math.sqrt(sum(float(torch.linalg.vector_norm(gradient)) ** 2 for gradient in gradients))
    if max_norm is not None and math.isfinite(norm) and max_norm < norm + 1e-6:
        torch._foreach_mul_(gradients, max_norm / (norm + 1e-6))
    return norm
