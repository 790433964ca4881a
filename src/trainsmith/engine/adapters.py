"""Low-rank adapters on every linear layer of the decoder (LoRA, arXiv 2106.09685)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from trainsmith.bases.architecture import Architecture
from trainsmith.engine.projections import Adapted, Adapter, Plain
from trainsmith.engine.records import LoraSpec
from trainsmith.engine.weights import MATRICES, PARTS, Layer, Weights


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


def named_adapters(adapted: list[dict[str, Adapted]]) -> dict[str, Tensor]:
    """Every trained tensor under the name that PEFT gives it in a file."""
    named: dict[str, Tensor] = {}
    for index, layer in enumerate(adapted):
        for key in MATRICES:
            for name, adapter in zip(PARTS[key], layer[key].adapters, strict=True):
                prefix = f"base_model.model.model.layers.{index}.{name.removesuffix('.weight')}"
                named[f"{prefix}.lora_A.weight"] = adapter.down
                named[f"{prefix}.lora_B.weight"] = adapter.up
    return named


def undropped(adapted: list[dict[str, Adapted]]) -> list[dict[str, Adapted]]:
    """The same adapters without dropout: for sampling."""
    return _mapped(adapted, lambda one: replace(one, dropout=0.0))


def copied(adapted: list[dict[str, Adapted]]) -> list[dict[str, Adapted]]:
    """Copies of the adapters over the same frozen matrices, without dropout or gradient."""

    def copy(one: Adapted) -> Adapted:
        parts = (Adapter(part.down.detach().clone(), part.up.detach().clone()) for part in one.adapters)
        return replace(one, adapters=tuple(parts), dropout=0.0)

    return _mapped(adapted, copy)


def _mapped(
    adapted: list[dict[str, Adapted]], change: Callable[[Adapted], Adapted]
) -> list[dict[str, Adapted]]:
    return [{key: change(one) for key, one in layer.items()} for layer in adapted]


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
