"""One micro-batch through a network: forward for values, or forward and backward for gradients.

Shapes: T packed tokens, R rows of logits, D hidden.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trainsmith.engine.decoder import final_norm, forward_packed
from trainsmith.engine.device import has_kernels
from trainsmith.engine.head_loss import HeadSums, Logprobs, head_loss, head_values
from trainsmith.engine.network import Network
from trainsmith.engine.packed_input import pack_input
from trainsmith.engine.packing import MicroBatch
from trainsmith.engine.policy import Policy
from trainsmith.engine.records import LossSpec

if TYPE_CHECKING:
    from trainsmith.engine.cuda.captured_passes import CapturedPasses

CPU_TOKENS = 640
"""Packed tokens of one forward and backward pass; activations take about 1.3 MB a token in float32."""
GPU_TOKENS = 2048
"""The same on a GPU, which wants larger products."""


def usual_tokens(device: str) -> int:
    """Packed tokens of a micro-batch there."""
    return CPU_TOKENS if device == "cpu" else GPU_TOKENS


class Passes:
    """Passes over the networks of one policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def backward(
        self,
        network: Network,
        batch: MicroBatch,
        loss: LossSpec,
        scale: float,
        sums: HeadSums,
        logprobs: Logprobs | None = None,
    ) -> None:
        """Add the gradient of the batch's summed loss times `scale` to every tensor that requires one."""
        if logprobs is None and has_kernels(self._policy.device):
            captured = self._captured_passes(network)
            if captured.serves(batch):
                captured.backward(batch, loss, scale, sums)
                return
        tokens = torch.from_numpy(batch.tree.tokens_T).to(network.embedding.device)
        embedded = network.embedding.detach()[tokens].requires_grad_()
        normed = self._normed(network, batch, embedded)
        gradient = head_loss(network, normed.detach(), batch, loss, scale, sums, logprobs)
        if not batch.trained_rows:
            return
        trained = normed if batch.trained_rows == len(normed) else normed[: batch.trained_rows]
        torch.autograd.backward(trained, gradient)
        if network.embedding.requires_grad and embedded.grad is not None:
            # By hand: autograd would make a dense gradient of the embedding's size for every micro-batch.
            if network.embedding.grad is None:
                network.embedding.grad = torch.zeros_like(network.embedding)
            network.embedding.grad.index_add_(0, tokens, embedded.grad)

    @torch.no_grad()
    def forward(
        self, network: Network, batch: MicroBatch, loss: LossSpec, sums: HeadSums, logprobs: Logprobs
    ) -> None:
        """Add the batch's sums and logprobs."""
        tokens = torch.from_numpy(batch.tree.tokens_T).to(network.embedding.device)
        normed = self._normed(network, batch, network.embedding[tokens])
        head_values(network, normed, batch, loss, sums, logprobs)

    def _captured_passes(self, network: Network) -> CapturedPasses:
        from trainsmith.engine.cuda.captured_passes import CapturedPasses

        captured = self._policy.captured_passes
        if captured is None or not captured.adopt(network):
            captured = CapturedPasses(network, self._policy.architecture, self._policy.rotary)
            self._policy.captured_passes = captured
        return captured

    def _normed(self, network: Network, batch: MicroBatch, embedded: Tensor) -> Tensor:
        """What the head reads at the batch's rows, [R, D], from embedded tokens [T, D]."""
        a = self._policy.architecture
        packed = pack_input(batch.tree, self._policy.rotary, self._policy.device)
        hidden = forward_packed(network, a, packed, embedded)
        return final_norm(network, a, hidden[torch.from_numpy(batch.rows_R).to(hidden.device)])
