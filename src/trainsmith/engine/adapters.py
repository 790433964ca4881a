"""Low-rank adapters on every linear layer of the decoder (LoRA, arXiv 2106.09685)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trainsmith.bases.architecture import Architecture
from trainsmith.engine.projections import Adapted, Adapter, Plain
from trainsmith.engine.records import LoraSpec
from trainsmith.engine.weights import MATRICES, Layer, Weights


def make_adapters(
    frozen: Weights, architecture: Architecture, spec: LoraSpec, generator: torch.Generator
) -> list[dict[str, Adapted]]:
    """For each layer, the adapted projection of every stacked matrix; one adapter for each part of the stack.

    `down` is Kaiming-uniform with a = sqrt(5), `up` zero, so training starts from the frozen model.
    """
    return [
        {key: _adapted(layer, key, _part_sizes(architecture, key), spec, generator) for key in MATRICES}
        for layer in frozen.layers
    ]


def adapter_tensors(adapted: list[dict[str, Adapted]]) -> list[Tensor]:
    """Every trained tensor, in a fixed order."""
    parts = [part for layer in adapted for key in MATRICES for part in layer[key].adapters]
    return [tensor for part in parts for tensor in (part.down, part.up)]


def _adapted(
    layer: Layer, key: str, sizes: tuple[int, ...], spec: LoraSpec, generator: torch.Generator
) -> Adapted:
    matrix: Tensor = getattr(layer, key)
    inputs = matrix.shape[1]
    adapters = []
    for size in sizes:
        # Kaiming's bound for a = sqrt(5): sqrt(6 / ((1 + 5) * fan_in)).
        down = torch.rand(spec.rank, inputs, generator=generator).mul_(2).sub_(1).mul_(1 / math.sqrt(inputs))
        up = torch.zeros(size, spec.rank)
        tensors = (tensor.to(matrix.device).requires_grad_() for tensor in (down, up))
        adapters.append(Adapter(*tensors))
    plain = Plain(matrix, getattr(layer, f"{key}_bias"))
    return Adapted(plain, tuple(adapters), spec.alpha / spec.rank, spec.dropout)


def _part_sizes(a: Architecture, key: str) -> tuple[int, ...]:
    """Outputs of each matrix in a stack."""
    if key == "qkv":
        return (a.heads * a.head_dim, a.kv_heads * a.head_dim, a.kv_heads * a.head_dim)
    return (a.intermediate, a.intermediate) if key == "gate_up" else (a.hidden,)
