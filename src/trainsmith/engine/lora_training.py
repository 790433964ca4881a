"""Adapters trained over frozen weights: merged into a policy, or kept apart, several over one policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

import torch
from torch import Tensor

from trainsmith.engine.adapters import adapter_tensors, copied, make_adapters, named_adapters, undropped
from trainsmith.engine.network import Network, adapted_network, plain_network
from trainsmith.engine.policy import Policy
from trainsmith.engine.projections import Adapted
from trainsmith.engine.records import LoraSpec
from trainsmith.engine.weights import MATRICES, Layer, Weights


class LoraTraining:
    """Adapters of a policy under training; the frozen weights are the policy's at the start.

    Apart (`shared`), the policy's weights are read and never written, and no copy of them is made. Otherwise
    they are copied once, and the policy's matrices hold frozen plus adapters after every step.
    """

    def __init__(self, policy: Policy, spec: LoraSpec, seed: int, *, shared: bool) -> None:
        self._policy = policy
        self._shared = shared
        self._frozen = frozen_weights(policy.weights, copy=not shared)
        generator = torch.Generator().manual_seed(seed % 2**63)
        self._adapted = make_adapters(self._frozen, policy.architecture, spec, generator)
        self.network = adapted_network(self._frozen, self._adapted)
        apart = adapted_network(self._frozen, undropped(self._adapted))
        self.sampling = apart if shared else plain_network(policy.weights)
        self.tensors = adapter_tensors(self._adapted)

    def start_gradients(self) -> None:
        """Drop them: adapters are small."""
        for tensor in self.tensors:
            tensor.grad = None

    def finish_gradients(self) -> None:
        """Make those that miss."""
        for tensor in self.tensors:
            if tensor.grad is None:
                tensor.grad = torch.zeros_like(tensor)

    @torch.no_grad()
    def publish(self) -> None:
        """Write frozen plus adapters into the policy's matrices, unless they are kept apart."""
        if self._shared:
            return
        for adapted, layer in zip(self._adapted, self._policy.weights.layers, strict=True):
            for key in MATRICES:
                getattr(layer, key).copy_(_merged(adapted[key]))

    @torch.no_grad()
    def merged(self) -> Weights:
        """Frozen plus adapters in float32."""
        layers = [
            replace(layer, **{key: _merged(adapted[key]) for key in MATRICES})
            for adapted, layer in zip(self._adapted, self._frozen.layers, strict=True)
        ]
        return Weights(self._frozen.embedding, layers, self._frozen.norm, self._frozen.head)

    def snapshot(self) -> Network:
        """The frozen weights with a copy of the adapters."""
        return adapted_network(self._frozen, copied(self._adapted))

    def named(self) -> Mapping[str, Tensor]:
        """The adapters under PEFT's names."""
        return named_adapters(self._adapted)


def frozen_weights(weights: Weights, *, copy: bool) -> Weights:
    """The same weights without gradients; the matrices copied where the policy's will be written."""
    embedding = weights.embedding.detach()
    head = embedding if weights.head is weights.embedding else weights.head.detach()
    layers = [_frozen(layer, copy=copy) for layer in weights.layers]
    return Weights(embedding, layers, weights.norm.detach(), head)


def _frozen(layer: Layer, *, copy: bool) -> Layer:
    present = {item.name: getattr(layer, item.name) for item in fields(layer)}
    shared = {name: tensor.detach() for name, tensor in present.items() if tensor is not None}
    return replace(layer, **shared | {name: shared[name].clone() for name in MATRICES if copy})


def _merged(adapted: Adapted) -> Tensor:
    return adapted.frozen.matrix.float() + adapted.delta()
