"""One optimiser step from a batch of trajectories, in full or by LoRA, with prime-rl's default loss.

The batch is packed into trees in which every shared token stands once, so a group's prompt is computed once
however many samples it has. In full mode all weights are trained, the embedding too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from trainsmith.engine.decoder import final_norm, forward_packed
from trainsmith.engine.device import repeatable
from trainsmith.engine.head_loss import HeadSums, head_loss, term_logprobs
from trainsmith.engine.optimiser import clip_gradients, make_optimiser
from trainsmith.engine.packed_input import pack_input
from trainsmith.engine.packing import MicroBatch, check_trajectories, pack, trained_tokens
from trainsmith.engine.policy import Policy
from trainsmith.engine.records import LoraSpec, LossSpec, OptimSpec, Trajectory, UpdateStats
from trainsmith.engine.schedule import check_scheduler, learning_rate
from trainsmith.engine.trainable import FullTraining, LoraTraining, Trainable
from trainsmith.engine.weights import save_weights

MICRO_BATCH_TOKENS = 640
"""Packed tokens of one forward and backward pass; activations take about 1.3 MB a token in float32."""


class Learner:
    """Trains a policy's weights in place: after `update` the policy samples from the new ones."""

    def __init__(
        self,
        policy: Policy,
        optim: OptimSpec,
        loss: LossSpec | None = None,
        lora: LoraSpec | None = None,
        *,
        seed: int = 0,
        micro_batch_tokens: int = MICRO_BATCH_TOKENS,
    ) -> None:
        """`seed` draws the adapters and their dropout. Raises UserError for a scheduler that does not fit."""
        check_scheduler(optim.scheduler)
        self._policy = policy
        self._optim = optim
        self._loss = loss or LossSpec()
        self._limit = micro_batch_tokens
        self._trainable: Trainable = (
            FullTraining(policy) if lora is None else LoraTraining(policy, lora, seed)
        )
        self._optimiser = make_optimiser(optim, self._trainable.tensors)
        self._dropout_seed = seed if lora is not None and lora.dropout > 0 else None
        self.step = 0
        """Optimiser steps taken."""

    def update(self, trajectories: Sequence[Trajectory]) -> UpdateStats:
        """Take one optimiser step; none for a batch without trained tokens or with a gradient not finite.

        A batch whose advantages are all zero still steps, on squared log-ratio, weight decay and momentum.
        Raises UserError for a malformed trajectory.
        """
        self._check(trajectories)
        count = trained_tokens(trajectories)
        lr = learning_rate(self._optim, self.step)
        if count == 0:
            return UpdateStats(0.0, 0.0, 0.0, 0.0, 0, 0.0, 0, lr)
        sums, packed = HeadSums(), 0
        self._trainable.start_gradients()
        if self._dropout_seed is not None:
            torch.manual_seed((self._dropout_seed * 1_000_003 + self.step) % 2**63)
        with repeatable(self._policy.device):
            for batch in pack(trajectories, self._limit):
                self._accumulate(batch, 1 / count, sums)
                packed += len(batch.tree)
            norm = clip_gradients(self._trainable.tensors, self._optim.max_norm)
            if math.isfinite(norm):
                self._advance(lr)
        return UpdateStats(
            loss=sums.loss / count,
            entropy=sums.entropy / count,
            mismatch_kl=sums.mismatch_kl / count,
            grad_norm=norm,
            trained_tokens=count,
            masked_fraction=sums.masked / count,
            packed_tokens=packed,
            lr=lr,
        )

    def logprobs(self, trajectories: Sequence[Trajectory]) -> list[tuple[float, ...]]:
        """The learner's logprob of every trained token, without a step: to compare with the sampler's."""
        self._check(trajectories)
        return [self._logprobs_of(trajectory) for trajectory in trajectories]

    def save(self, file: Path) -> None:
        """Write all weights as trained, adapters merged, float32, under Hugging Face's names, atomically."""
        save_weights(self._trainable.merged(), self._policy.architecture, file)

    def _check(self, trajectories: Sequence[Trajectory]) -> None:
        check_trajectories(trajectories)
        for number, trajectory in enumerate(trajectories):
            if trajectory.tokens:
                self._policy.check_tokens(trajectory.tokens, f"trajectory {number}")

    def _advance(self, lr: float) -> None:
        for group in self._optimiser.param_groups:
            group["lr"] = lr
        self._optimiser.step()
        self._trainable.publish()
        self.step += 1

    def _accumulate(self, batch: MicroBatch, scale: float, sums: HeadSums) -> None:
        """Add the gradient of one micro-batch to every trained tensor."""
        embedding = self._trainable.network.embedding
        tokens = torch.from_numpy(batch.tree.tokens_T).to(embedding.device)
        embedded = embedding.detach()[tokens].requires_grad_()
        normed = self._normed(batch, embedded)
        gradient = head_loss(self._trainable.network, normed.detach(), batch, self._loss, scale, sums)
        torch.autograd.backward(normed, gradient)
        if embedding.requires_grad and embedded.grad is not None:
            # By hand: autograd would make a dense gradient of the embedding's size for every micro-batch.
            if embedding.grad is None:
                embedding.grad = torch.zeros_like(embedding)
            embedding.grad.index_add_(0, tokens, embedded.grad)

    def _normed(self, batch: MicroBatch, embedded: Tensor) -> Tensor:
        """What the head reads at the rows that the loss needs, [R, D]."""
        network, a = self._trainable.network, self._policy.architecture
        packed = pack_input(batch.tree, self._policy.rotary, self._policy.device)
        hidden = forward_packed(network, a, packed, embedded)
        return final_norm(network, a, hidden[torch.from_numpy(batch.rows_R).to(hidden.device)])

    @torch.no_grad()
    def _logprobs_of(self, trajectory: Trajectory) -> tuple[float, ...]:
        batches = pack([trajectory], len(trajectory.tokens))
        if not batches:
            return ()
        (batch,) = batches
        embedding = self._trainable.network.embedding
        normed = self._normed(batch, embedding[torch.from_numpy(batch.tree.tokens_T).to(embedding.device)])
        return tuple(term_logprobs(self._trainable.network, normed, batch).tolist())
