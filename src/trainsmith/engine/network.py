"""The decoder as projections over stored weights, in its three kinds: plain, trained, adapted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from trainsmith.engine.projections import Adapted, Plain, Projection, Trained
from trainsmith.engine.weights import Layer, Weights


@dataclass(slots=True)
class NetworkLayer:
    """One decoder layer; `query_norm` and `key_norm` only where the architecture has them."""

    input_norm: Tensor
    qkv: Projection
    query_norm: Tensor | None
    key_norm: Tensor | None
    output: Projection
    mlp_norm: Tensor
    gate_up: Projection
    down: Projection


@dataclass(slots=True)
class Network:
    """The decoder: embedding, layers, final norm and head."""

    embedding: Tensor
    layers: list[NetworkLayer]
    norm: Tensor
    head: Tensor
    reduced: bool
    """Products of the layers are in bfloat16, so the head's may round their factors too."""


def plain_network(weights: Weights) -> Network:
    """For sampling."""
    return _network(weights, lambda _, layer, key: _plain(layer, key))


def trained_network(masters: Weights, working: Weights) -> Network:
    """For full training: products with `working`, gradients to `masters`; in float32 both are the same."""

    def project(index: int, layer: Layer, key: str) -> Projection:
        return Trained(getattr(masters.layers[index], key), getattr(layer, key), _bias(layer, key))

    return _network(working, project)


def adapted_network(frozen: Weights, adapted: Sequence[dict[str, Adapted]]) -> Network:
    """For LoRA: `adapted` has, for each layer, the adapted projection of every key."""
    return _network(frozen, lambda index, _, key: adapted[index][key])


def _network(weights: Weights, project: Callable[[int, Layer, str], Projection]) -> Network:
    layers = [
        NetworkLayer(
            input_norm=layer.input_norm,
            qkv=project(index, layer, "qkv"),
            query_norm=layer.query_norm,
            key_norm=layer.key_norm,
            output=project(index, layer, "output"),
            mlp_norm=layer.mlp_norm,
            gate_up=project(index, layer, "gate_up"),
            down=project(index, layer, "down"),
        )
        for index, layer in enumerate(weights.layers)
    ]
    return Network(weights.embedding, layers, weights.norm, weights.head, weights.reduced)


def _plain(layer: Layer, key: str) -> Plain:
    return Plain(getattr(layer, key), _bias(layer, key))


def _bias(layer: Layer, key: str) -> Tensor | None:
    bias: Tensor | None = getattr(layer, f"{key}_bias")
    return bias
