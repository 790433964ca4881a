"""What a learner trains, in full or by adapters: the network to differentiate, its tensors, and the way back.

`publish` writes the trained weights into the policy's, so that the next samples come from them.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Protocol

import torch
from torch import Tensor

from trainsmith.engine.adapters import adapter_tensors, make_adapters
from trainsmith.engine.network import Network, adapted_network, trained_network
from trainsmith.engine.policy import Policy
from trainsmith.engine.projections import Adapted, Trained
from trainsmith.engine.records import LoraSpec
from trainsmith.engine.weights import MATRICES, Layer, Weights, load_weights


class Trainable(Protocol):
    """A policy's weights under training."""

    network: Network
    tensors: list[Tensor]
    """Trained float32 tensors."""

    def start_gradients(self) -> None:
        """Forget the last step's gradients."""

    def publish(self) -> None:
        """Copy the trained weights into the policy's."""

    def merged(self) -> Weights:
        """All weights as trained, float32."""


class FullTraining:
    """Every weight is trained: the policy's own tensors in float32, float32 masters of them in bfloat16."""

    def __init__(self, policy: Policy) -> None:
        self._working = policy.weights
        self._masters = _masters(policy) if policy.weights.reduced else policy.weights
        self.network = trained_network(self._masters, self._working)
        self.tensors = [tensor.requires_grad_() for tensor in self._masters.tensors()]

    def start_gradients(self) -> None:
        """Zero the small gradients; those of the matrices are overwritten by the first product that comes."""
        matrices = set()
        for layer in self.network.layers:
            for key in MATRICES:
                projection = getattr(layer, key)
                assert isinstance(projection, Trained)
                projection.stale = True
                matrices.add(id(projection.master))
        for tensor in self.tensors:
            if tensor.grad is not None and id(tensor) not in matrices:
                tensor.grad.zero_()

    @torch.no_grad()
    def publish(self) -> None:
        """Round the masters into the policy's matrices; in float32 they are the same tensors."""
        if self._masters is self._working:
            return
        for master, layer in zip(self._masters.layers, self._working.layers, strict=True):
            for key in MATRICES:
                getattr(layer, key).copy_(getattr(master, key))

    def merged(self) -> Weights:
        """The masters themselves."""
        return self._masters


def _masters(policy: Policy) -> Weights:
    """Float32 matrices; all other tensors are float32 already, and shared with the policy."""
    weights = policy.weights
    source = load_weights(policy.source, policy.architecture, policy.device, torch.float32)
    layers = [
        replace(working, **{key: _master(getattr(working, key), getattr(exact, key)) for key in MATRICES})
        for working, exact in zip(weights.layers, source.layers, strict=True)
    ]
    return Weights(weights.embedding, layers, weights.norm, weights.head)


def _master(working: Tensor, source: Tensor) -> Tensor:
    """What the working copy was rounded from, or the copy itself once a learner has moved it."""
    return source if torch.equal(source.to(working.dtype), working) else working.float()


class LoraTraining:
    """The weights are frozen at the policy's; adapters are trained, and merged for sampling and saving."""

    def __init__(self, policy: Policy, spec: LoraSpec, seed: int) -> None:
        self._policy = policy
        self._frozen = _frozen_copy(policy.weights)
        generator = torch.Generator().manual_seed(seed % 2**63)
        self._adapted = make_adapters(self._frozen, policy.architecture, spec, generator)
        self.network = adapted_network(self._frozen, self._adapted)
        self.tensors = adapter_tensors(self._adapted)

    def start_gradients(self) -> None:
        """Drop them: adapters are small."""
        for tensor in self.tensors:
            tensor.grad = None

    @torch.no_grad()
    def publish(self) -> None:
        """Write frozen plus adapters into the policy's matrices."""
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


def _merged(adapted: Adapted) -> Tensor:
    return adapted.frozen.matrix.float() + adapted.delta()


def _frozen_copy(weights: Weights) -> Weights:
    """The matrices copied, since the policy's will hold the merged ones; all else shared, no gradients."""
    embedding = weights.embedding.detach()
    head = embedding if weights.head is weights.embedding else weights.head.detach()
    return Weights(embedding, [_frozen_layer(layer) for layer in weights.layers], weights.norm.detach(), head)


def _frozen_layer(layer: Layer) -> Layer:
    present = {item.name: getattr(layer, item.name) for item in fields(layer)}
    shared = {name: tensor.detach() for name, tensor in present.items() if tensor is not None}
    return replace(layer, **shared | {name: shared[name].clone() for name in MATRICES})
