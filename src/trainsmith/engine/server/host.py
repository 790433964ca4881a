"""One base model with any number of training runs and versions of weights, behind an asyncio border.

All torch work is done on one thread (`torch_thread.py`), in which sampling steps and training micro-batches
take turns. A training run is a LoRA learner of its own over the shared base. A version of weights to sample
from is a directory that `save` or `snapshot` has written; None is the base itself.

    host = await ModelHost.open("smollm2-135m", EngineConfig())
    await host.create("run", LoraSpec(rank=8), seed=0)
    await host.forward_backward("run", data, CrossEntropy())
    await host.optim_step("run", AdamSpec(lr=1e-4))
    version = await host.snapshot("run", directory)
    completions = await host.sample(version, requests)

Not here: protocols, sessions, what the directories are called.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from trainsmith import bases
from trainsmith.config.engine import EngineConfig
from trainsmith.engine.records import (
    AdamSpec,
    Completion,
    Datum,
    ForwardBackward,
    LoraSpec,
    LossSpec,
    OptimStats,
    SampleRequest,
)
from trainsmith.engine.server.listening import Gathered, Receiver, Streamed
from trainsmith.engine.server.torch_thread import Job, TorchThread
from trainsmith.errors import UserError

if TYPE_CHECKING:
    from trainsmith.engine.chat import ChatTokenizer
    from trainsmith.engine.policy import Policy
    from trainsmith.engine.server.models import Models
    from trainsmith.engine.server.samplers import Asked

T = TypeVar("T")

_LOADING = "\x00loading"
"""The lane of what belongs to no training run."""


class ModelHost:
    """Samples and trains one base. All methods are for one event loop."""

    def __init__(self, base: str) -> None:
        """Use `open`."""
        self.base = base
        self._models: Models | None = None
        self._thread = TorchThread(lambda: self._models is not None and self._models.samplers.step())

    @classmethod
    async def open(
        cls, base: str, engine: EngineConfig, progress: Callable[[str], None] | None = None
    ) -> ModelHost:
        """Fetch and load a base. Raises UserError or MachineError when that fails."""
        host = cls(base)
        try:
            host._models = await host._call(_LOADING, lambda: _load(base, engine, progress))
        except BaseException:
            host._thread.close(0)
            raise
        return host

    @property
    def policy(self) -> Policy:
        """For what never changes: architecture, directory, type. Weights belong to the torch thread."""
        assert self._models is not None, "opened by `open`"
        return self._models.policy

    @property
    def tokenizer(self) -> ChatTokenizer:
        """Renders and decodes; safe to use from any thread."""
        return self.policy.tokenizer

    @property
    def context(self) -> int:
        """The most tokens that a prompt and its reply may have together."""
        return self.policy.architecture.context

    @property
    def rows(self) -> int:
        """Requests that are being sampled or wait for it."""
        return self._loaded.samplers.rows

    async def sample(self, weights: str | None, requests: Sequence[SampleRequest]) -> list[Completion]:
        """One completion a request, in order. Cancelling ends the rows.

        Raises UserError for a request that cannot be served.
        """
        if not requests:
            return []
        gathered = Gathered(len(requests))
        rows = self._submit(weights, list(zip(requests, gathered.receivers(), strict=True)))
        try:
            return await gathered.result
        finally:
            self._cancel(rows)

    async def stream(
        self, weights: str | None, request: SampleRequest
    ) -> AsyncGenerator[tuple[int, float] | Completion]:
        """Each token with its logprob as it is sampled, then the completion. Closing ends the row.

        Raises UserError for a request that cannot be served.
        """
        streamed = Streamed()
        rows = self._submit(weights, [(request, streamed)])
        try:
            while True:
                item = await streamed.items.get()
                if isinstance(item, Exception):
                    raise item
                yield item
                if isinstance(item, Completion):
                    return
        finally:
            self._cancel(rows)

    async def create(self, model_id: str, lora: LoraSpec, seed: int) -> None:
        """Begin a training run. Raises UserError when there is one of this name."""
        await self._with_models(model_id, lambda models: models.create(model_id, lora, seed))

    async def forward_backward(self, model_id: str, data: Sequence[Datum], loss: LossSpec) -> ForwardBackward:
        """Add to a run's gradient. Raises UserError for an unknown run or malformed data."""
        return await self._pass(model_id, data, loss, backward=True)

    async def forward(self, model_id: str, data: Sequence[Datum], loss: LossSpec) -> ForwardBackward:
        """What `forward_backward` returns, without a gradient."""
        return await self._pass(model_id, data, loss, backward=False)

    async def optim_step(self, model_id: str, adam: AdamSpec) -> OptimStats:
        """Step on the gradient since the last step."""
        return await self._with_models(model_id, lambda models: models.learner(model_id).optim_step(adam))

    async def save(self, model_id: str, directory: Path, optimiser: bool) -> None:
        """Write a run's state."""
        await self._with_models(
            model_id, lambda models: models.learner(model_id).save_state(directory, optimiser)
        )

    async def load(self, model_id: str, directory: Path, optimiser: bool) -> None:
        """Go on from a saved state. Raises UserError for one that does not fit."""
        await self._with_models(
            model_id, lambda models: models.learner(model_id).load_state(directory, optimiser)
        )

    async def snapshot(self, model_id: str, directory: Path) -> str:
        """Write a run's weights as they are now: a version to sample from."""
        await self._with_models(model_id, lambda models: models.snapshot(model_id, directory))
        return str(directory)

    async def load_snapshot(self, directory: Path) -> str:
        """The version of a directory. Raises UserError when no state is saved there."""
        await self._with_models(_LOADING, lambda models: models.check_saved(directory))
        return str(directory)

    async def release(self, version: str) -> None:
        """Read a version anew when it is next sampled from, since its directory was written to."""
        await self._with_models(version, lambda models: models.samplers.drop(version))

    async def drop(self, name: str) -> None:
        """End a training run, or let go of a version of weights; neither need exist. Rows of it fail."""
        await self._with_models(name, lambda models: models.drop(name))

    def close(self, timeout: float = 2.0) -> bool:
        """Stop after the unit in work; all else is cancelled. False when that takes longer."""
        return self._thread.close(timeout)

    async def _pass(
        self, model_id: str, data: Sequence[Datum], loss: LossSpec, *, backward: bool
    ) -> ForwardBackward:
        def job() -> Job[ForwardBackward]:
            return (yield from self._loaded.learner(model_id).stepwise(data, loss, backward=backward))

        return await asyncio.wrap_future(self._thread.submit(model_id, job))

    @property
    def _loaded(self) -> Models:
        assert self._models is not None, "opened by `open`"
        return self._models

    async def _with_models(self, lane: str, function: Callable[[Models], T]) -> T:
        return await self._call(lane, lambda: function(self._loaded))

    async def _call(self, lane: str, function: Callable[[], T]) -> T:
        def job() -> Job[T]:
            yield from ()
            return function()

        outcome: Future[T] = self._thread.submit(lane, job)
        return await asyncio.wrap_future(outcome)

    def _submit(self, weights: str | None, requests: Sequence[tuple[SampleRequest, Receiver]]) -> list[Asked]:
        """The rows, which are there once the torch thread has taken them."""
        rows: list[Asked] = []

        def take() -> None:
            rows.extend(self._loaded.samplers.submit(weights, *each) for each in requests)

        self._thread.call(take)
        return rows

    def _cancel(self, rows: list[Asked]) -> None:
        def cancel() -> None:
            for row in rows:
                self._loaded.samplers.cancel(row)

        self._thread.call(cancel)


def _load(base: str, engine: EngineConfig, progress: Callable[[str], None] | None) -> Models:
    directory = bases.fetch(base, progress=progress)
    # torch is imported on its own thread.
    from trainsmith.engine.policy import Policy
    from trainsmith.engine.server.models import Models

    try:
        policy = Policy.load(directory, device=engine.device, dtype=engine.dtype)
    except ValueError as error:
        if isinstance(error, UserError):
            raise
        raise UserError(str(error), where=base) from error
    return Models(policy)
