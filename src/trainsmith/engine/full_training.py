"""Every weight trained: the policy's own tensors in float32, float32 masters of them in bfloat16."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace

import torch
from torch import Tensor

from trainsmith.bases.architecture import Architecture
from trainsmith.engine.network import Network, plain_network, trained_network
from trainsmith.engine.policy import Policy
from trainsmith.engine.projections import Trained
from trainsmith.engine.weights import MATRICES, Layer, Weights, load_weights, named_tensors


class FullTraining:
    """All weights of a policy under training; its sampler reads them."""

    def __init__(self, policy: Policy) -> None:
        self._architecture: Architecture = policy.architecture
        self._working = policy.weights
        self._masters = _masters(policy) if policy.weights.reduced else policy.weights
        self.network = trained_network(self._masters, self._working)
        self.sampling = plain_network(self._working)
        self.tensors = [tensor.requires_grad_() for tensor in self._masters.tensors()]

    def start_gradients(self) -> None:
        """Zero the small gradients; those of the matrices are overwritten by the first product that comes."""
        matrices = set()
        for projection in self._projections():
            projection.stale = True
            matrices.add(id(projection.master))
        small = [
            tensor.grad for tensor in self.tensors if id(tensor) not in matrices and tensor.grad is not None
        ]
        if small:
            torch._foreach_zero_(small)

    def finish_gradients(self) -> None:
        """Zero the gradients of matrices that no product has overwritten, and make those that miss."""
        for projection in self._projections():
            if projection.stale and projection.master.grad is not None:
                projection.master.grad.zero_()
            projection.stale = False
        for tensor in self.tensors:
            if tensor.grad is None:
                tensor.grad = torch.zeros_like(tensor)

    @torch.no_grad()
    def publish(self) -> None:
        """Round the masters into the policy's matrices; in float32 they are the same tensors."""
        if self._masters is self._working:
            return
        working, masters = (
            [getattr(layer, key) for layer in weights.layers for key in MATRICES]
            for weights in (self._working, self._masters)
        )
        torch._foreach_copy_(working, masters)

    def merged(self) -> Weights:
        """The masters themselves."""
        return self._masters

    def snapshot(self) -> Network:
        """A copy of all weights in the compute type."""
        weights = self._working
        embedding = weights.embedding.detach().clone()
        head = embedding if weights.head is weights.embedding else weights.head.detach().clone()
        layers = [_copied(layer) for layer in weights.layers]
        return plain_network(Weights(embedding, layers, weights.norm.detach().clone(), head))

    def named(self) -> Mapping[str, Tensor]:
        """The masters under Hugging Face's names."""
        return named_tensors(self._masters, self._architecture)

    def _projections(self) -> Iterator[Trained]:
        for layer in self.network.layers:
            for key in MATRICES:
                projection = getattr(layer, key)
                assert isinstance(projection, Trained)
                yield projection


@torch.no_grad()
def _masters(policy: Policy) -> Weights:
    """Float32 matrices; all other tensors are float32 already, and shared with the policy."""
    weights = policy.weights
    if policy.source == policy.model_dir:
        source = policy.stored.exact()
    else:
        source = load_weights(policy.source, policy.architecture, policy.device, torch.float32)
    layers = [
        replace(working, **{key: _master(getattr(working, key), getattr(exact, key)) for key in MATRICES})
        for working, exact in zip(weights.layers, source.layers, strict=True)
    ]
    masters = Weights(weights.embedding, layers, weights.norm, weights.head)
    if policy.device == "cpu":
        return masters
    if policy.kept_masters is None:
        policy.kept_masters = masters
    else:
        for kept, fresh in zip(policy.kept_masters.layers, masters.layers, strict=True):
            for key in MATRICES:
                getattr(kept, key).copy_(getattr(fresh, key))
    return policy.kept_masters


def _master(working: Tensor, source: Tensor) -> Tensor:
    """What the working copy was rounded from, or the copy itself once a learner has moved it."""
    return source if torch.equal(source.to(working.dtype), working) else working.float()


def _copied(layer: Layer) -> Layer:
    present = {item.name: getattr(layer, item.name) for item in fields(layer)}
    return replace(layer, **{name: x.detach().clone() for name, x in present.items() if x is not None})
