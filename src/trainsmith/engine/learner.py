"""Trains a policy, in full or by LoRA, from trajectories (a job's way) or data under a named loss (Tinker's).

Sequences are packed into trees in which every shared token stands once, so a group's prompt is computed once
however many samples it has. In full mode all weights are trained, the embedding too.

    stats = learner.update(trajectories)                # one step; the loss is a mean over trained tokens

    done = learner.forward_backward(data, Ppo())        # gradients add up; the loss is a sum
    stats = learner.optim_step(AdamSpec(lr=1e-4))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import torch

from trainsmith.engine import learner_state
from trainsmith.engine.device import repeatable
from trainsmith.engine.full_training import FullTraining
from trainsmith.engine.head_loss import HeadSums, Logprobs
from trainsmith.engine.lora_training import LoraTraining
from trainsmith.engine.network import Network
from trainsmith.engine.optimiser import clip_gradients, configure, configure_adam, make_optimiser
from trainsmith.engine.packing import (
    MicroBatch,
    as_datum,
    check_data,
    check_trajectories,
    pack,
    trained_tokens,
    without_idle,
)
from trainsmith.engine.passes import Passes
from trainsmith.engine.policy import Policy
from trainsmith.engine.records import (
    AdamSpec,
    CrossEntropy,
    Datum,
    ForwardBackward,
    LoraSpec,
    LossMetrics,
    LossSpec,
    OptimSpec,
    OptimStats,
    PrimeLoss,
    Trajectory,
    UpdateStats,
)
from trainsmith.engine.schedule import check_scheduler, learning_rate
from trainsmith.engine.trainable import Trainable
from trainsmith.engine.weights import save_weights
from trainsmith.errors import UserError

MICRO_BATCH_TOKENS = 640
"""Packed tokens of one forward and backward pass; activations take about 1.3 MB a token in float32."""


class Learner:
    """Trains a policy's weights in place, or adapters beside them."""

    def __init__(
        self,
        policy: Policy,
        optim: OptimSpec = OptimSpec(),  # noqa: B008
        loss: LossSpec | None = None,
        lora: LoraSpec | None = None,
        *,
        seed: int = 0,
        micro_batch_tokens: int = MICRO_BATCH_TOKENS,
        shared: bool = False,
    ) -> None:
        """`seed` draws the adapters and their dropout.

        `optim` and `loss` (default prime-rl's) are those of `update`. With `shared` the adapters stay apart:
        the policy's weights are only read, so that several learners train side by side over one policy, and
        `network` samples from them. Raises UserError for a scheduler that does not fit.
        """
        check_scheduler(optim.scheduler)
        if shared and lora is None:
            raise UserError("only adapters can share a policy", where="learner", fix="give a LoraSpec")
        self._policy = policy
        self._optim = optim
        self._loss: LossSpec = loss or PrimeLoss()
        self._limit = micro_batch_tokens
        self._lora = lora
        self._trainable: Trainable = (
            FullTraining(policy) if lora is None else LoraTraining(policy, lora, seed, shared=shared)
        )
        self._optimiser = make_optimiser(optim, self._trainable.tensors)
        self._passes = Passes(policy)
        self._dropout_seed = seed if lora is not None and lora.dropout > 0 else None
        self._pending = 0
        """Backward passes since the last step."""
        self.step = 0
        """Optimiser steps taken."""

    @property
    def network(self) -> Network:
        """To sample with: follows the training, without dropout. For `Policy.sampler_for`."""
        return self._trainable.sampling

    def snapshot(self) -> Network:
        """`network` as it is now: adapters are copied and frozen weights shared, full weights copied."""
        return self._trainable.snapshot()

    def update(self, trajectories: Sequence[Trajectory]) -> UpdateStats:
        """Take one optimiser step; none for a batch without trained tokens or with a gradient not finite.

        A batch whose advantages are all zero still steps, on squared log-ratio, weight decay and momentum.
        Gradients of earlier `forward_backward` calls are dropped. Raises UserError for a malformed
        trajectory.
        """
        check_trajectories(trajectories)
        data = [as_datum(trajectory) for trajectory in trajectories]
        self._check(data, "trajectory")
        count = trained_tokens(data)
        lr = learning_rate(self._optim, self.step)
        if count == 0:
            return UpdateStats(0.0, 0.0, 0.0, 0.0, 0, 0.0, 0, lr)
        batches, sums = pack(data, self._limit), HeadSums(self._policy.device)
        self._pending = 0
        with repeatable(self._policy.device):
            self._backward(batches, self._loss, 1 / count, sums, None)
            norm, _ = self._take(self._optim.max_norm, lambda: configure(self._optimiser, self._optim, lr))
        total = sums.read()
        return UpdateStats(
            loss=total.loss / count,
            entropy=total.entropy / count,
            mismatch_kl=total.mismatch_kl / count,
            grad_norm=norm,
            trained_tokens=count,
            masked_fraction=total.masked / count,
            packed_tokens=sum(len(batch.tree) for batch in batches),
            lr=lr,
        )

    def forward_backward(self, data: Sequence[Datum], loss: LossSpec) -> ForwardBackward:
        """Add the gradient of the summed loss to those since the last step.

        Raises UserError for a malformed datum; the gradients are as before then.
        """
        return self._run(data, loss, backward=True)

    def forward(self, data: Sequence[Datum], loss: LossSpec) -> ForwardBackward:
        """What `forward_backward` returns, without a gradient and without dropout."""
        return self._run(data, loss, backward=False)

    def optim_step(self, adam: AdamSpec) -> OptimStats:
        """One AdamW step on the gradients since the last one, zero where there are none.

        A gradient that is not finite is dropped, and no step taken. Raises UserError for a learner whose
        optimiser is not AdamW.
        """
        if self._optim.type != "adamw":
            raise UserError(f"the optimiser is {self._optim.type}, not adamw", where="optim_step")
        if not self._pending:
            self._trainable.start_gradients()
        self._trainable.finish_gradients()
        with repeatable(self._policy.device):
            norm, taken = self._take(
                adam.grad_clip_norm or None, lambda: configure_adam(self._optimiser, adam)
            )
        return OptimStats(lr=adam.lr, grad_norm=norm, taken=taken)

    def logprobs(self, trajectories: Sequence[Trajectory]) -> list[tuple[float, ...]]:
        """The learner's logprob of every trained token, without a step: to compare with the sampler's."""
        check_trajectories(trajectories)
        data = [as_datum(trajectory) for trajectory in trajectories]
        lines = iter(self.forward([datum for datum in data if datum.tokens], self._loss).logprobs)
        return [
            tuple(x for x, on in zip(next(lines), datum.weights, strict=True) if on) if datum.tokens else ()
            for datum in data
        ]

    def save(self, file: Path) -> None:
        """Write all weights as trained, adapters merged, float32, under Hugging Face's names, atomically."""
        save_weights(self._trainable.merged(), self._policy.architecture, file)

    def save_state(self, directory: Path, optimiser: bool = True) -> None:
        """Write what is trained, with the optimiser's state if asked, so that training goes on bit for bit.

        Gradients since the last step are not saved. A state that is there already is replaced in one step.
        """
        state = learner_state.State(self.step, self._lora, self._optim.type)
        learner_state.save(directory, state, self._trainable.named(), self._optimiser if optimiser else None)

    def load_state(self, directory: Path, optimiser: bool = True) -> None:
        """Go on from a saved state: weights alone, with a fresh optimiser, or both. Gradients are dropped.

        Raises UserError, and changes nothing, for a state of another kind of learner or a broken one.
        """
        self.step = learner_state.load(
            directory,
            learner_state.State(0, self._lora, self._optim.type),
            self._trainable.named(),
            self._optimiser,
            with_optimiser=optimiser,
        )
        self._trainable.publish()
        self._pending = 0

    def stepwise(
        self, data: Sequence[Datum], loss: LossSpec, *, backward: bool
    ) -> Generator[None, None, ForwardBackward]:
        """`forward_backward` or `forward`, with a yield after each micro-batch for other work to run in."""
        check_data(data)
        self._check(data, "datum")
        needed = without_idle(data, loss)
        batches = pack(needed, self._limit, read_all=True)
        sums, logprobs = HeadSums(self._policy.device), Logprobs()
        if backward:
            self._start_backward()
        for batch in batches:
            with repeatable(self._policy.device):
                if backward:
                    self._passes.backward(self._trainable.network, batch, loss, 1.0, sums, logprobs)
                else:
                    self._passes.forward(self.network, batch, loss, sums, logprobs)
            yield
        return _outcome(data, loss, trained_tokens(needed), batches, sums, logprobs)

    def _run(self, data: Sequence[Datum], loss: LossSpec, *, backward: bool) -> ForwardBackward:
        steps = self.stepwise(data, loss, backward=backward)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                outcome: ForwardBackward = stop.value
                return outcome

    def _check(self, data: Sequence[Datum], kind: str) -> None:
        """Raise UserError for what this model cannot read."""
        context = self._policy.architecture.context
        for number, datum in enumerate(data):
            where, size = f"{kind} {number}", len(datum.tokens)
            if size > context:
                raise UserError(f"{size} tokens exceed the context of {context}", where=where)
            if size:
                self._policy.check_tokens(datum.tokens, where)
                self._policy.check_tokens(datum.targets, where)

    def _backward(
        self,
        batches: Sequence[MicroBatch],
        loss: LossSpec,
        scale: float,
        sums: HeadSums,
        logprobs: Logprobs | None,
    ) -> None:
        self._start_backward()
        for batch in batches:
            self._passes.backward(self._trainable.network, batch, loss, scale, sums, logprobs)

    def _start_backward(self) -> None:
        if not self._pending:
            self._trainable.start_gradients()
        if self._dropout_seed is not None:
            # Torch's CPU generator reads 32 bits of a seed; passes must differ in those.
            number = self._dropout_seed * 1_000_003 + self.step + self._pending * 2_654_435_761
            torch.manual_seed(number % 2**63)
        self._pending += 1

    def _take(self, max_norm: float | None, configured: Callable[[], None]) -> tuple[float, bool]:
        """One optimiser step if the gradient is finite: its norm before clipping, and whether it was."""
        self._pending = 0
        norm = clip_gradients(self._trainable.tensors, max_norm)
        if not math.isfinite(norm):
            return norm, False
        configured()
        self._optimiser.step()
        self._trainable.publish()
        self.step += 1
        return norm, True


def _outcome(
    data: Sequence[Datum],
    loss: LossSpec,
    count: int,
    batches: Sequence[MicroBatch],
    sums: HeadSums,
    logprobs: Logprobs,
) -> ForwardBackward:
    total, share = sums.read(), 1 / max(1, count)
    line = iter(logprobs.read(sum(len(datum.tokens) for datum in data)).tolist())
    return ForwardBackward(
        loss=total.loss,
        logprobs=tuple(tuple(next(line) for _ in datum.tokens) for datum in data),
        metrics=LossMetrics(
            trained_tokens=count,
            packed_tokens=sum(len(batch.tree) for batch in batches),
            entropy=total.entropy * share,
            mismatch_kl=0.0 if isinstance(loss, CrossEntropy) else total.mismatch_kl * share,
            masked_fraction=total.masked * share,
        ),
    )
