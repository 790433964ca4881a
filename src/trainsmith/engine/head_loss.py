"""The loss at the head, with its gradient, in chunks: no more than a chunk of logits exists at a time.

The gradient is written out by hand: autograd would keep several copies of [rows, vocabulary].
Shapes: R rows of logits and N loss terms of a chunk, V vocabulary, D hidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from trainsmith.engine.decoder import logits_of
from trainsmith.engine.device import reduced_factors
from trainsmith.engine.loss import TokenLoss, token_loss
from trainsmith.engine.network import Network
from trainsmith.engine.packing import MicroBatch
from trainsmith.engine.records import LossSpec

CHUNK_ROWS = 128
"""Rows of logits at a time: 25 MB for a vocabulary of 49,152."""


@dataclass(slots=True)
class HeadSums:
    """Sums over trained tokens."""

    loss: float = 0.0
    entropy: float = 0.0
    mismatch_kl: float = 0.0
    masked: float = 0.0


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some rows of a micro-batch and the terms that read from them."""

    normed_RD: Tensor
    temperature_R1: Tensor
    row_N: Tensor
    target_N: Tensor
    sampler_logprob_N: Tensor
    advantage_N: Tensor


@dataclass(frozen=True, slots=True)
class _Reading:
    """A chunk's distributions. `shares` sum to `total` in each row."""

    logits_RV: Tensor
    """At the temperature, less each row's largest."""
    shares_RV: Tensor
    total_R1: Tensor
    logprob_N: Tensor


@torch.no_grad()
def head_loss(
    network: Network, normed_RD: Tensor, batch: MicroBatch, spec: LossSpec, scale: float, sums: HeadSums
) -> Tensor:
    """Add the batch's sums, add the head's gradient, and return the loss's gradient [R, D] by `normed_RD`.

    The gradient is that of the summed token losses times `scale`. The head's own gradient goes to
    `network.head.grad` when the head requires one.
    """
    gradients = []
    for chunk in _chunks(normed_RD, batch):
        reading = _read(network, chunk)
        losses, by_logprob = _differentiate(reading.logprob_N, chunk, spec)
        _add(sums, losses, _entropy(reading)[chunk.row_N])
        gradients.append(_propagate(network, chunk, reading, by_logprob * scale))
    return torch.cat(gradients)


@torch.no_grad()
def term_logprobs(network: Network, normed_RD: Tensor, batch: MicroBatch) -> Tensor:
    """The logprob of every term of the batch, at its temperature."""
    return torch.cat([_read(network, chunk).logprob_N for chunk in _chunks(normed_RD, batch)])


def _chunks(normed_RD: Tensor, batch: MicroBatch) -> Iterator[_Chunk]:
    device = normed_RD.device
    for start in range(0, len(normed_RD), CHUNK_ROWS):
        stop = min(start + CHUNK_ROWS, len(normed_RD))
        terms = slice(*batch.row_N.searchsorted([start, stop]))
        yield _Chunk(
            normed_RD[start:stop],
            torch.from_numpy(batch.temperature_R[start:stop]).to(device)[:, None],
            torch.from_numpy(batch.row_N[terms] - start).to(device),
            torch.from_numpy(batch.target_N[terms]).to(device),
            torch.from_numpy(batch.sampler_logprob_N[terms]).to(device),
            torch.from_numpy(batch.advantage_N[terms]).to(device),
        )


def _read(network: Network, chunk: _Chunk) -> _Reading:
    logits = logits_of(network, chunk.normed_RD)
    logits.sub_(logits.amax(dim=-1, keepdim=True)).div_(chunk.temperature_R1)
    shares = logits.exp()
    total = shares.sum(dim=-1, keepdim=True)
    logprobs = logits[chunk.row_N, chunk.target_N] - total[chunk.row_N, 0].log()
    return _Reading(logits, shares, total, logprobs)


def _entropy(reading: _Reading) -> Tensor:
    """Nats [R]: log of the total less the mean logit."""
    weighted: Tensor = torch.linalg.vecdot(reading.shares_RV, reading.logits_RV)
    return reading.total_R1[:, 0].log() - weighted / reading.total_R1[:, 0]


def _differentiate(logprobs: Tensor, chunk: _Chunk, spec: LossSpec) -> tuple[TokenLoss, Tensor]:
    """The terms' losses and the derivative of each by its logprob."""
    with torch.enable_grad():
        leaf = logprobs.requires_grad_()
        losses = token_loss(leaf, chunk.sampler_logprob_N, chunk.advantage_N, spec)
        (by_logprob,) = torch.autograd.grad(losses.loss.sum(), leaf)
    return losses, by_logprob


def _add(sums: HeadSums, losses: TokenLoss, entropy_N: Tensor) -> None:
    sums.loss += float(losses.loss.detach().sum())
    sums.entropy += float(entropy_N.sum())
    sums.mismatch_kl += float(losses.mismatch_kl.sum())
    sums.masked += float(losses.masked.sum())


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
