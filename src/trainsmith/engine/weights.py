"""The model's weights: read from safetensors, fused for few large products, written back under their names.

Query, key and value projections are one matrix, gate and up projections another. Both are only stacked rows,
so gradients and optimiser steps are the same as for the separate matrices. The layers' matrices have the
compute type; embedding, norms, biases and head stay float32.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from torch import Tensor

from trainsmith.bases.architecture import Architecture
from trainsmith.bases.safetensors_file import TensorSpec, read_specs
from trainsmith.engine.tensor_file import read_tensors, write_tensors
from trainsmith.errors import UserError


@dataclass(slots=True)
class Layer:
    """One decoder layer. Matrices are [out, in]; a bias or norm that the architecture lacks is None."""

    input_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    query_norm: Tensor | None
    key_norm: Tensor | None
    output: Tensor
    output_bias: Tensor | None
    mlp_norm: Tensor
    gate_up: Tensor
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None


@dataclass(slots=True)
class Weights:
    """All weights. With a tied head `head` is the very tensor `embedding`."""

    embedding: Tensor
    layers: list[Layer]
    norm: Tensor
    head: Tensor

    @property
    def reduced(self) -> bool:
        """Whether the layers' matrices have fewer bits than float32."""
        return self.layers[0].down.dtype != torch.float32

    def tensors(self) -> Iterator[Tensor]:
        """Every tensor once, in a fixed order."""
        yield self.embedding
        for layer in self.layers:
            for field in fields(layer):
                tensor = getattr(layer, field.name)
                if tensor is not None:
                    yield tensor
        yield self.norm
        if self.head is not self.embedding:
            yield self.head


MATRICES = ("qkv", "output", "gate_up", "down")
"""The fields of a layer that have the compute type."""

PARTS: dict[str, tuple[str, ...]] = {
    "input_norm": ("input_layernorm.weight",),
    "qkv": ("self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"),
    "qkv_bias": ("self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"),
    "query_norm": ("self_attn.q_norm.weight",),
    "key_norm": ("self_attn.k_norm.weight",),
    "output": ("self_attn.o_proj.weight",),
    "output_bias": ("self_attn.o_proj.bias",),
    "mlp_norm": ("post_attention_layernorm.weight",),
    "gate_up": ("mlp.gate_proj.weight", "mlp.up_proj.weight"),
    "gate_up_bias": ("mlp.gate_proj.bias", "mlp.up_proj.bias"),
    "down": ("mlp.down_proj.weight",),
    "down_bias": ("mlp.down_proj.bias",),
}
"""The names in files, under a layer, of what each of its fields is stacked from."""


def tensor_specs(model_dir: Path) -> tuple[TensorSpec, ...]:
    """Name, shape and stored type of every tensor of a model directory, without reading the data."""
    specs = [spec for file in _weight_files(model_dir) for spec in read_specs(file)]
    return tuple(sorted(specs, key=lambda spec: spec.name))


def load_weights(source: Path, architecture: Architecture, device: str, dtype: torch.dtype) -> Weights:
    """Read and fuse all weights of a model directory or of one safetensors file.

    Raises UserError when a tensor is missing or misshapen, or the file is broken.
    """
    named = read_named(source, architecture)
    weights = empty_weights(architecture, device, dtype)
    copy_named(named, weights, architecture)
    return weights


def read_named(source: Path, architecture: Architecture) -> dict[str, Tensor]:
    """The tensors of a model directory or of one safetensors file, on the CPU in their stored types.

    Raises UserError when a tensor is missing or misshapen, or the file is broken.
    """
    named: dict[str, Tensor] = {}
    for file in _weight_files(source) if source.is_dir() else (source,):
        named |= read_tensors(file)
    for name, shape in expected_shapes(architecture).items():
        found = tuple(named[name].shape) if name in named else None
        if found != shape:
            raise UserError(f"{name} has shape {found}, expected {shape}", where=str(source))
    return named


@torch.no_grad()
def copy_named(named: Mapping[str, Tensor], weights: Weights, architecture: Architecture) -> None:
    """Write tensors under Hugging Face's names into the weights, rounded to the types that those have."""
    for name, tensor in named_tensors(weights, architecture).items():
        tensor.copy_(named[name])


def empty_weights(architecture: Architecture, device: str, dtype: torch.dtype) -> Weights:
    """Room for all weights, with the layers' matrices in `dtype`."""
    shapes = expected_shapes(architecture)

    def make(names: tuple[str, ...], kind: torch.dtype) -> Tensor | None:
        if names[0] not in shapes:
            return None
        rows = sum(shapes[name][0] for name in names)
        return torch.empty((rows, *shapes[names[0]][1:]), dtype=kind, device=device)

    def make_layer(index: int) -> Layer:
        parts = {
            key: make(
                tuple(f"model.layers.{index}.{name}" for name in names),
                dtype if key in MATRICES else torch.float32,
            )
            for key, names in PARTS.items()
        }
        return Layer(**parts)  # type: ignore[arg-type]

    def make_one(name: str) -> Tensor:
        return torch.empty(shapes[name], device=device)

    embedding = make_one("model.embed_tokens.weight")
    head = embedding if architecture.tied_head else make_one("lm_head.weight")
    layers = [make_layer(index) for index in range(architecture.layers)]
    return Weights(embedding, layers, make_one("model.norm.weight"), head)


def save_weights(weights: Weights, architecture: Architecture, file: Path) -> None:
    """Write all weights in float32 under Hugging Face's names: whole, or not at all."""
    write_tensors(named_tensors(weights, architecture), file)


def named_tensors(weights: Weights, architecture: Architecture) -> dict[str, Tensor]:
    """The weights under Hugging Face's names: views, not copies."""
    shapes = expected_shapes(architecture)
    named = {"model.embed_tokens.weight": weights.embedding, "model.norm.weight": weights.norm}
    if not architecture.tied_head:
        named["lm_head.weight"] = weights.head
    for index, layer in enumerate(weights.layers):
        for key, parts in PARTS.items():
            tensor = getattr(layer, key)
            if tensor is None:
                continue
            names = [f"model.layers.{index}.{part}" for part in parts]
            named |= dict(zip(names, tensor.split([shapes[name][0] for name in names]), strict=True))
    return named


def expected_shapes(architecture: Architecture) -> dict[str, tuple[int, ...]]:
    """Name to shape of every tensor that the architecture has."""
    a = architecture
    queries, keys = a.heads * a.head_dim, a.kv_heads * a.head_dim
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (a.hidden,),
        "self_attn.q_proj.weight": (queries, a.hidden),
        "self_attn.k_proj.weight": (keys, a.hidden),
        "self_attn.v_proj.weight": (keys, a.hidden),
        "self_attn.o_proj.weight": (a.hidden, queries),
        "post_attention_layernorm.weight": (a.hidden,),
        "mlp.gate_proj.weight": (a.intermediate, a.hidden),
        "mlp.up_proj.weight": (a.intermediate, a.hidden),
        "mlp.down_proj.weight": (a.hidden, a.intermediate),
    }
    if a.qkv_bias:
        sizes = (("q", queries), ("k", keys), ("v", keys))
        layer |= {f"self_attn.{part}_proj.bias": (size,) for part, size in sizes}
    if a.output_bias:
        layer["self_attn.o_proj.bias"] = (a.hidden,)
    if a.mlp_bias:
        sizes = (("gate", a.intermediate), ("up", a.intermediate), ("down", a.hidden))
        layer |= {f"mlp.{part}_proj.bias": (size,) for part, size in sizes}
    if a.query_key_norm:
        layer |= {f"self_attn.{part}_norm.weight": (a.head_dim,) for part in "qk"}
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (a.vocabulary, a.hidden),
        "model.norm.weight": (a.hidden,),
    }
    if not a.tied_head:
        shapes["lm_head.weight"] = (a.vocabulary, a.hidden)
    for index in range(a.layers):
        shapes |= {f"model.layers.{index}.{name}": shape for name, shape in layer.items()}
    return shapes


def _weight_files(model_dir: Path) -> tuple[Path, ...]:
    """The one file, or the shards that the index names."""
    index = model_dir / "model.safetensors.index.json"
    single = model_dir / "model.safetensors"
    if single.exists():
        return (single,)
    if not index.exists():
        raise UserError(
            "no model.safetensors", where=str(model_dir), fix="name a directory with safetensors weights"
        )
    names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
    return tuple(model_dir / name for name in sorted(set(names)))
