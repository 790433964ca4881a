"""The loss at the head, with its gradient, in chunks: no more than a chunk of logits exists at a time.

The gradient is written out by hand: autograd would keep several copies of [rows, vocabulary]. Nothing here
waits for the device: sums and logprobs stay there until `HeadSums.read` and `Logprobs.read`.
Shapes: R rows of logits, N loss terms and M logprobs only read of a chunk, V vocabulary, D hidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainsmith.engine.decoder import logits_of
from trainsmith.engine.device import reduced_factors
from trainsmith.engine.losses import token_loss
from trainsmith.engine.losses.token_loss import TokenLoss
from trainsmith.engine.network import Network
from trainsmith.engine.packing import Floats, MicroBatch
from trainsmith.engine.records import LossSpec
from trainsmith.engine.token_tree import Indices

CHUNK_ROWS = 128
"""Rows of logits at a time: 25 MB for a vocabulary of 49,152."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over trained tokens, as numbers."""

    loss: float
    entropy: float
    mismatch_kl: float
    masked: float


class HeadSums:
    """Sums over trained tokens, as one float64 tensor on the device."""

    def __init__(self, device: torch.device | str) -> None:
        self._sums = torch.zeros(4, dtype=torch.float64, device=device)

    def add(self, losses: TokenLoss, weight_N: Tensor, entropy_N: Tensor) -> None:
        """Add a chunk's terms."""
        terms = (losses.loss.detach() * weight_N, entropy_N, losses.mismatch_kl, losses.masked)
        self._sums += torch.stack([term.sum().double() for term in terms])

    def add_sums(self, sums_4: Tensor) -> None:
        """Add sums in the order of `Sums`."""
        self._sums += sums_4

    def read(self) -> Sums:
        """Wait for the device."""
        return Sums(*self._sums.tolist())


class Logprobs:
    """Logprobs of targets as they come, and where each belongs."""

    def __init__(self) -> None:
        self._values: list[Tensor] = []
        self._places: list[Indices] = []

    def add(self, values: Tensor, places: Indices) -> None:
        """Take some logprobs."""
        self._values.append(values.detach())
        self._places.append(places)

    def read(self, count: int) -> Floats:
        """All of them in order, [count]; 0 where none came. Waits for the device."""
        line = np.zeros(count, dtype=np.float32)
        if self._values:
            line[np.concatenate(self._places)] = torch.cat(self._values).cpu().numpy()
        return line


@dataclass(frozen=True, slots=True)
class HeadTerms:
    """The trained rows of a micro-batch and their terms, on the device, padded to sizes of the caller's."""

    temperature_R1: Tensor
    row_N: Tensor
    target_N: Tensor
    sampler_logprob_N: Tensor
    advantage_N: Tensor
    weight_N: Tensor
    """0 for padding."""
    present_N: Tensor
    """1, or 0 for padding."""


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some rows of a micro-batch, the terms and the further targets that read from them."""

    normed_RD: Tensor
    temperature_R1: Tensor
    row_N: Tensor
    target_N: Tensor
    sampler_logprob_N: Tensor
    advantage_N: Tensor
    weight_N: Tensor
    place_N: Indices
    row_M: Tensor
    target_M: Tensor
    place_M: Indices


@dataclass(frozen=True, slots=True)
class _Reading:
    """A chunk's distributions. `shares` sum to `total` in each row."""

    logits_RV: Tensor
    """At the temperature, less each row's largest."""
    shares_RV: Tensor
    total_R1: Tensor
    log_total_R: Tensor

    def logprobs(self, row: Tensor, target: Tensor) -> Tensor:
        """The logprob of each target in its row."""
        return self.logits_RV[row, target] - self.log_total_R[row]

    def entropy_R(self) -> Tensor:
        """Nats: log of the total less the mean logit."""
        weighted: Tensor = torch.linalg.vecdot(self.shares_RV, self.logits_RV)
        return self.log_total_R - weighted / self.total_R1[:, 0]


@torch.no_grad()
def head_loss(
    network: Network,
    normed_RD: Tensor,
    batch: MicroBatch,
    spec: LossSpec,
    scale: float,
    sums: HeadSums,
    logprobs: Logprobs | None = None,
) -> Tensor:
    """Add the batch's sums, add the head's gradient, and return the loss's gradient by the trained rows.

    The gradient [trained_rows, D] is that of the summed weighted token losses times `scale`. The head's own
    goes to `network.head.grad` when the head requires one.
    """
    gradients = []
    for chunk in _chunks(normed_RD, batch):
        reading = _read(network, chunk)
        if logprobs is not None:
            logprobs.add(reading.logprobs(chunk.row_M, chunk.target_M), chunk.place_M)
        if len(chunk.row_N):
            losses, by_logprob, ours = _differentiate(reading, chunk, spec)
            sums.add(losses, chunk.weight_N, reading.entropy_R()[chunk.row_N])
            if logprobs is not None:
                logprobs.add(ours, chunk.place_N)
            gradients.append(_propagate(network, chunk, reading, by_logprob * scale))
    return torch.cat(gradients) if gradients else normed_RD[:0]


@torch.no_grad()
def padded_head_loss(
    network: Network, normed_RD: Tensor, terms: HeadTerms, spec: LossSpec, scale: Tensor
) -> tuple[Tensor, Tensor]:
    """`head_loss` of all rows at once without a look from the host: the sums [4] and the gradient [R, D]."""
    nothing: Indices = np.empty(0, dtype=np.int64)
    chunk = _Chunk(
        normed_RD,
        terms.temperature_R1,
        terms.row_N,
        terms.target_N,
        terms.sampler_logprob_N,
        terms.advantage_N,
        terms.weight_N,
        nothing,
        terms.row_N[:0],
        terms.target_N[:0],
        nothing,
    )
    reading = _read(network, chunk)
    losses, by_logprob, _ = _differentiate(reading, chunk, spec)
    entropy = reading.entropy_R()[chunk.row_N]
    values = (losses.loss.detach() * terms.weight_N, entropy, losses.mismatch_kl, losses.masked)
    sums = torch.stack([(value * terms.present_N).sum().double() for value in values])
    return sums, _propagate(network, chunk, reading, by_logprob * scale)


@torch.no_grad()
def head_values(
    network: Network, normed_RD: Tensor, batch: MicroBatch, spec: LossSpec, sums: HeadSums, logprobs: Logprobs
) -> None:
    """The sums and logprobs of `head_loss` without a gradient."""
    for chunk in _chunks(normed_RD, batch):
        reading = _read(network, chunk)
        ours = reading.logprobs(chunk.row_N, chunk.target_N)
        losses = token_loss(ours, chunk.sampler_logprob_N, chunk.advantage_N, spec)
        sums.add(losses, chunk.weight_N, reading.entropy_R()[chunk.row_N])
        logprobs.add(ours, chunk.place_N)
        logprobs.add(reading.logprobs(chunk.row_M, chunk.target_M), chunk.place_M)


def _chunks(normed_RD: Tensor, batch: MicroBatch) -> Iterator[_Chunk]:
    """Trained rows first, then the others; no chunk has both."""
    arrays = (
        batch.temperature_R[:, None],
        *(batch.row_N, batch.target_N, batch.sampler_logprob_N, batch.advantage_N, batch.weight_N),
        *(batch.row_M, batch.target_M),
    )
    temperature, row_N, target_N, sampler, advantage, weight, row_M, target_M = (
        torch.from_numpy(array).to(normed_RD.device) for array in arrays
    )
    for start, stop in _spans(batch.trained_rows, len(normed_RD)):
        n, m = (slice(*rows.searchsorted([start, stop])) for rows in (batch.row_N, batch.row_M))
        yield _Chunk(
            normed_RD[start:stop],
            temperature[start:stop],
            row_N[n] - start,
            target_N[n],
            sampler[n],
            advantage[n],
            weight[n],
            batch.place_N[n],
            row_M[m] - start,
            target_M[m],
            batch.place_M[m],
        )


def _spans(trained: int, rows: int) -> Iterator[tuple[int, int]]:
    for first, last in ((0, trained), (trained, rows)):
        for start in range(first, last, CHUNK_ROWS):
            yield start, min(start + CHUNK_ROWS, last)


def _read(network: Network, chunk: _Chunk) -> _Reading:
    logits = logits_of(network, chunk.normed_RD)
    logits.sub_(logits.amax(dim=-1, keepdim=True)).div_(chunk.temperature_R1)
    shares = logits.exp()
    total = shares.sum(dim=-1, keepdim=True)
    return _Reading(logits, shares, total, total[:, 0].log())


def _differentiate(reading: _Reading, chunk: _Chunk, spec: LossSpec) -> tuple[TokenLoss, Tensor, Tensor]:
    """The terms' losses, the derivative of each weighted loss by its logprob, and the logprobs."""
    with torch.enable_grad():
        leaf = reading.logprobs(chunk.row_N, chunk.target_N).requires_grad_()
        losses = token_loss(leaf, chunk.sampler_logprob_N, chunk.advantage_N, spec)
        (by_logprob,) = torch.autograd.grad(losses.loss, leaf, chunk.weight_N)
    return losses, by_logprob, leaf


def _propagate(network: Network, chunk: _Chunk, reading: _Reading, by_logprob_N: Tensor) -> Tensor:
    """Add the head's gradient; the gradient [R, D] by the chunk's normed hidden states.

    d logprob / d logit = (one-hot - share / total) / temperature. Overwrites the reading's shares.
    """
    by_row = torch.zeros_like(reading.total_R1).index_add_(0, chunk.row_N, by_logprob_N[:, None])
    by_logits = reading.shares_RV.mul_(-by_row / (reading.total_R1 * chunk.temperature_R1))
    hits = by_logprob_N / chunk.temperature_R1[chunk.row_N, 0]
    by_logits.index_put_((chunk.row_N, chunk.target_N), hits, accumulate=True)
    if not network.reduced:
        return _products(network, chunk.normed_RD, by_logits)
    with reduced_factors(by_logits.device):
        return _products(network, chunk.normed_RD, by_logits)


def _products(network: Network, normed_RD: Tensor, by_logits_RV: Tensor) -> Tensor:
    if network.head.requires_grad:
        if network.head.grad is None:
            network.head.grad = torch.zeros_like(network.head)
        network.head.grad.addmm_(by_logits_RV.t(), normed_RD)
    return by_logits_RV @ network.head
