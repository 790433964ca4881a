"""Optimisers by prime-rl's names, over float32 tensors with float32 gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim import SGD, AdamW, Optimizer

from trainsmith.engine.records import AdamSpec, OptimSpec

ADAM_EPSILON = 1e-8
"""Of AdamW by prime-rl's names, which has no key for it: torch's default."""


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


def configure(optimiser: Optimizer, spec: OptimSpec, lr: float) -> None:
    """Set the next step's learning rate, and for AdamW whatever `configure_adam` may have set otherwise."""
    for group in optimiser.param_groups:
        group["lr"] = lr
        if spec.type == "adamw":
            group |= {
                "betas": (spec.betas1, spec.betas2),
                "eps": ADAM_EPSILON,
                "weight_decay": spec.weight_decay,
            }


def configure_adam(optimiser: Optimizer, adam: AdamSpec) -> None:
    """Set everything that the next AdamW step reads."""
    for group in optimiser.param_groups:
        group |= {
            "lr": adam.lr,
            "betas": (adam.beta1, adam.beta2),
            "eps": adam.eps,
            "weight_decay": adam.weight_decay,
        }


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
    if not gradients:
        return 0.0
    norms = torch.stack(torch._foreach_norm(gradients))
    norm = math.sqrt(sum(each**2 for each in norms.tolist()))
    if max_norm is not None and math.isfinite(norm) and max_norm < norm + 1e-6:
        torch._foreach_mul_(gradients, max_norm / (norm + 1e-6))
    return norm
