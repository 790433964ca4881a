"""Forward and backward of a micro-batch as one captured graph, for sizes rounded up to a few.

Serves full training with an update's loss; what it does not serve goes the ordinary way, with the same
gradients up to rounding. Which way a batch goes follows from its sizes alone, so equal runs stay equal.
Shapes: T packed tokens, R rows of logits, N loss terms, all padded. Padding tokens see themselves alone and
no row reads them; padding rows and terms have no weight.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainsmith.bases.architecture import Architecture
from trainsmith.engine.cuda.graphs import shared_graphs
from trainsmith.engine.cuda.sizes import rounded
from trainsmith.engine.decoder import final_norm, forward_packed
from trainsmith.engine.head_loss import HeadSums, HeadTerms, padded_head_loss
from trainsmith.engine.network import Network
from trainsmith.engine.packed_input import PackedInput
from trainsmith.engine.packing import MicroBatch
from trainsmith.engine.projections import Trained
from trainsmith.engine.records import LossSpec
from trainsmith.engine.rotary import Rotary
from trainsmith.engine.weights import MATRICES

MOST_TOKENS = 4096
MOST_LOGITS = 2**27
"""Rows times vocabulary of the logits at once: 512 MB in float32, and as much again for their gradient."""


@dataclass(frozen=True, slots=True)
class _Size:
    tokens: int
    rows: int
    terms: int


class _Inputs:
    """Static inputs of one size."""

    def __init__(self, size: _Size, device: torch.device) -> None:
        self.size = size
        t, r, n = size.tokens, size.rows, size.terms
        self._ints = torch.zeros(3 * t + r + 2 * n, dtype=torch.int64, device=device)
        self._floats = torch.ones(r + 4 * n + 1, dtype=torch.float32, device=device)
        self._floats[-1] = 0.0
        self.tokens_T, self.positions_T, self.end_T, self.rows_R, row_N, target_N = torch.split(
            self._ints, [t, t, t, r, n, n]
        )
        self.end_T.copy_(torch.arange(1, t + 1))
        temperature, sampler, advantage, weight, present, self.scale = torch.split(
            self._floats, [r, n, n, n, n, 1]
        )
        self.terms = HeadTerms(temperature[:, None], row_N, target_N, sampler, advantage, weight, present)

    def fill(self, batch: MicroBatch, scale: float) -> None:
        """Copy a batch in, padded."""
        t, r, n = self.size.tokens, self.size.rows, self.size.terms
        tree = batch.tree
        present = np.ones(len(batch.row_N), dtype=np.float32)
        ints = (
            _padded(tree.tokens_T, t),
            _padded(tree.positions_T, t),
            np.concatenate((tree.end_T, np.arange(len(tree) + 1, t + 1))),
            _padded(batch.rows_R, r),
            _padded(batch.row_N, n),
            _padded(batch.target_N, n),
        )
        floats = (
            np.concatenate((batch.temperature_R, np.ones(r - len(batch.rows_R), dtype=np.float32))),
            *(_padded(x, n) for x in (batch.sampler_logprob_N, batch.advantage_N, batch.weight_N, present)),
            np.array([scale], dtype=np.float32),
        )
        self._ints.copy_(torch.from_numpy(np.concatenate(ints)))
        self._floats.copy_(torch.from_numpy(np.concatenate(floats).astype(np.float32)))


def _padded(values: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate((values, np.zeros(size - len(values), dtype=values.dtype)))


class CapturedPasses:
    """The captured passes of one network under full training."""

    def __init__(self, network: Network, a: Architecture, rotary: Rotary) -> None:
        self.network, self._a, self._rotary = network, a, rotary
        self._device = network.norm.device
        self._trained = [p for p in _projections(network) if isinstance(p, Trained)]
        self._whole = len(self._trained) == len(_projections(network))
        self._tensors = [tensor for tensor in _leaves(network) if tensor.requires_grad]
        self._gradients = [torch.zeros_like(tensor) for tensor in self._tensors]
        self._inputs: dict[_Size, _Inputs] = {}
        self._sums_4 = torch.zeros(4, dtype=torch.float64, device=self._device)
        self._owner = object()
        weakref.finalize(self, shared_graphs().forget, self._owner)

    def serves(self, batch: MicroBatch) -> bool:
        """Whether `backward` takes this batch."""
        rows = len(batch.rows_R)
        return (
            self._whole
            and len(batch.tree) <= MOST_TOKENS
            and rows == batch.trained_rows
            and rounded(rows) * self._a.vocabulary <= MOST_LOGITS
        )

    def backward(self, batch: MicroBatch, loss: LossSpec, scale: float, sums: HeadSums) -> None:
        """Add the gradient of the batch's summed loss times `scale`, and the batch's sums."""
        size = _Size(rounded(len(batch.tree)), rounded(len(batch.rows_R)), rounded(len(batch.row_N)))
        inputs = self._inputs.get(size)
        if inputs is None:
            inputs = self._inputs[size] = _Inputs(size, self._device)
        stale = any(projection.stale for projection in self._trained)
        self._place_gradients()

        def body() -> None:
            for projection in self._trained:
                projection.stale = stale
            self._pass(inputs, loss)

        # With its scale of 0, a fresh input adds nothing.
        graph = shared_graphs().get((self._owner, size, loss, stale), body, body)
        inputs.fill(batch, scale)
        graph.replay()
        for projection in self._trained:
            projection.stale = False
        sums.add_sums(self._sums_4)

    def _pass(self, inputs: _Inputs, loss: LossSpec) -> None:
        network = self.network
        angles = self._rotary.at(inputs.positions_T)
        packed = PackedInput(inputs.tokens_T, *angles, [], inputs.tokens_T, [], [], inputs.end_T.int())
        embedded = network.embedding.detach()[inputs.tokens_T].requires_grad_()
        hidden = forward_packed(network, self._a, packed, embedded)
        normed = final_norm(network, self._a, hidden[inputs.rows_R])
        sums, gradient = padded_head_loss(network, normed.detach(), inputs.terms, loss, inputs.scale)
        self._sums_4.copy_(sums)
        torch.autograd.backward(normed, gradient)
        assert embedded.grad is not None and network.embedding.grad is not None
        network.embedding.grad.index_add_(0, inputs.tokens_T, embedded.grad)

    def adopt(self, network: Network) -> bool:
        """Serve another network from now on, if it is over the same tensors: its graphs are these."""
        trained = [p for p in _projections(network) if isinstance(p, Trained)]
        before, now = ([(id(p.master), id(p.working)) for p in each] for each in (self._trained, trained))
        same = (
            before == now
            and self.network.embedding is network.embedding
            and self.network.head is network.head
        )
        if same:
            self.network, self._trained = network, trained
        return same

    def _place_gradients(self) -> None:
        """Have every gradient where graphs add to it, with what it held before."""
        for tensor, place in zip(self._tensors, self._gradients, strict=True):
            if tensor.grad is place:
                continue
            if tensor.grad is None:
                place.zero_()
            else:
                place.copy_(tensor.grad)
            tensor.grad = place


def _projections(network: Network) -> list[object]:
    return [getattr(layer, key) for layer in network.layers for key in MATRICES]


def _leaves(network: Network) -> Iterator[Tensor]:
    """Every tensor that full training trains, once."""
    yield network.embedding
    yield network.norm
    if network.head is not network.embedding:
        yield network.head
    for layer in network.layers:
        norms = (layer.input_norm, layer.query_norm, layer.key_norm, layer.mlp_norm)
        yield from (norm for norm in norms if norm is not None)
    for projection in _projections(network):
        if isinstance(projection, Trained):
            yield projection.master
            if projection.bias is not None:
                yield projection.bias
