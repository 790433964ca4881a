"""Training runs: create, forward and backward, step, save and load. Every request is answered by a future."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from trainsmith import seeds
from trainsmith.engine.records import AdamSpec, LoraSpec
from trainsmith.engine.server.errors import HttpError
from trainsmith.engine.server.records import CheckpointRecord, RunRecord, SamplerRecord
from trainsmith.engine.server.tinker import wire
from trainsmith.engine.server.tinker.bodies import (
    CreateModel,
    LoadWeights,
    LoraConfig,
    OfModel,
    OptimiserConfig,
    OptimStep,
    SaveForSampler,
    SaveWeights,
)
from trainsmith.engine.server.tinker.clients import LiveRun
from trainsmith.engine.server.tinker.context import Context
from trainsmith.engine.server.tinker.futures import Payload, json_payload, protobuf_payload
from trainsmith.engine.server.tinker.reading import read_binary, read_json
from trainsmith.engine.server.tinker_path import Kind, TinkerPath
from trainsmith.errors import UserError

ALPHA = 32.0
"""Tinker's LoRA alpha, whatever the rank."""
UNNAMED_KEPT = 16
"""Weights without a name that a run keeps: the least recently sampled go first."""


class Training:
    """Handlers."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._served = context.served

    def routes(self, prefix: str) -> list[Route]:
        """All routes."""
        posts = {
            "create_model": self.create_model,
            "get_info": self.get_info,
            "unload_model": self.unload_model,
            "forward_backward": self.forward_backward,
            "optim_step": self.optim_step,
            "save_weights": self.save_weights,
            "save_weights_for_sampler": self.save_for_sampler,
            "load_weights": self.load_weights,
        }
        return [Route(f"{prefix}/{name}", handler, methods=["POST"]) for name, handler in posts.items()]

    async def create_model(self, request: Request) -> Response:
        body = await read_json(request, CreateModel)
        self._check_base(body.base_model)
        _check_optimiser(body.optimizer_config)
        lora = body.lora_config or LoraConfig(rank=32)
        if not (lora.train_attn and lora.train_mlp):
            raise HttpError(400, "attention and MLP layers are trained together: leave both on")
        run = f"{body.session_id}:train:{body.model_seq_id}"
        self._context.clients.hear(body.session_id)
        if self._context.clients.find(run) is None:
            seed = seeds.derive("lora", run) if lora.seed is None else lora.seed
            self._begin(self._record(run, body.session_id, lora.rank, seed, body.user_metadata))
        return _promise(f"{run}:create", run)

    async def get_info(self, request: Request) -> Response:
        record = self._context.clients.run((await read_json(request, OfModel)).model_id).record
        policy = self._served.host.policy
        model = {
            "arch": policy.architecture.family,
            "model_name": record.base,
            "tokenizer_id": str(policy.model_dir),
        }
        return JSONResponse(
            {
                "type": "get_info",
                "model_data": model,
                "model_id": record.id,
                "is_lora": True,
                "lora_rank": record.rank,
                "model_name": record.base,
            }
        )

    async def unload_model(self, request: Request) -> Response:
        run = self._context.clients.run((await read_json(request, OfModel)).model_id)

        async def work() -> Payload:
            self._context.clients.remove(run.record.id)
            await self._served.host.drop(run.record.id)
            return json_payload({"model_id": run.record.id, "type": "unload_model"})

        return self._in_turn(run, None, work)

    async def forward_backward(self, request: Request) -> Response:
        message = wire.parse_forward_backward(await read_binary(request, self._context.body_limit))
        run, host = self._context.clients.run(message.model_id), self._served.host

        async def work() -> Payload:
            loss = wire.to_loss(message)
            data = await asyncio.to_thread(wire.to_data, message)
            go = host.forward if message.forward_only else host.forward_backward
            return protobuf_payload(wire.forward_backward_output(await go(run.record.id, data, loss)))

        return self._in_turn(run, message.seq_id or None, work)

    async def optim_step(self, request: Request) -> Response:
        body = await read_json(request, OptimStep)
        if body.adam_params is None:
            raise HttpError(400, "adam_params is missing: AdamW is the one optimiser here")
        given = body.adam_params
        adam = AdamSpec(
            lr=given.learning_rate,
            beta1=given.beta1,
            beta2=given.beta2,
            eps=given.eps,
            weight_decay=given.weight_decay,
            grad_clip_norm=max(0.0, given.grad_clip_norm),
        )
        run = self._context.clients.run(body.model_id)

        async def work() -> Payload:
            stats = await self._served.host.optim_step(run.record.id, adam)
            metrics = {"grad_norm": stats.grad_norm, "step_taken": float(stats.taken), "lr": stats.lr}
            # JSON has no infinity: a norm that is not finite is left out, and no step taken.
            return json_payload({"metrics": {k: v for k, v in metrics.items() if math.isfinite(v)}})

        return self._in_turn(run, body.seq_id, work)

    async def save_weights(self, request: Request) -> Response:
        body = await read_json(request, SaveWeights)
        run = self._context.clients.run(body.model_id)

        async def work() -> Payload:
            path = TinkerPath(run.record.id, Kind.TRAINING, body.path or _unnamed(body.seq_id))
            await self._save(run.record, path, body)
            return json_payload({"path": str(path), "type": "save_weights"})

        return self._in_turn(run, body.seq_id, work)

    async def save_for_sampler(self, request: Request) -> Response:
        body = await read_json(request, SaveForSampler)
        run = self._context.clients.run(body.model_id)
        if body.kind != "snapshot":
            raise HttpError(400, f"sampling clients of the kind {body.kind!r} are not served; use 'snapshot'")
        if body.path is None and body.sampling_session_seq_id is None:
            raise HttpError(400, "give a path or a sampling_session_seq_id")

        async def named() -> Payload:
            path = TinkerPath(run.record.id, Kind.SAMPLER, body.path or "")
            await self._save(run.record, path, body)
            return json_payload({"path": str(path), "type": "save_weights_for_sampler"})

        async def unnamed() -> Payload:
            sampler = await self._snapshot(run.record, body.sampling_session_seq_id or 0)
            return json_payload({"sampling_session_id": sampler.id, "type": "save_weights_for_sampler"})

        return self._in_turn(run, body.seq_id, unnamed if body.path is None else named)

    async def load_weights(self, request: Request) -> Response:
        body = await read_json(request, LoadWeights)
        if body.model_id is None:
            return await self._create_from(body)
        run = self._context.clients.run(body.model_id)

        async def work() -> Payload:
            await self._load(run.record.id, body)
            return _loaded(body.path, run.record.id)

        return self._in_turn(run, body.seq_id, work)

    async def _create_from(self, body: LoadWeights) -> Response:
        """A new run from a checkpoint, whose rank it takes."""
        if body.session_id is None or body.model_seq_id is None:
            raise HttpError(400, "give a model_id, or a session_id with a model_seq_id")
        if body.optimizer_config is not None:
            _check_optimiser(body.optimizer_config)
        self._context.clients.hear(body.session_id)
        checkpoint = self._checkpoint(TinkerPath.parse(body.path))
        if body.base_model is not None:
            self._check_base(body.base_model)
        run = f"{body.session_id}:train:{body.model_seq_id}"
        if self._context.clients.find(run) is None:
            seed = seeds.derive("lora", run)
            record = self._record(run, body.session_id, checkpoint.rank, seed, body.user_metadata)
            self._begin(record, body)
        return _promise(f"{run}:create", run)

    def _record(
        self, run: str, session: str, rank: int, seed: int, metadata: dict[str, object] | None
    ) -> RunRecord:
        return RunRecord(
            id=run,
            session=session,
            base=self._served.host.base,
            rank=rank,
            alpha=ALPHA,
            seed=seed,
            created=datetime.now(UTC),
            metadata=metadata,
        )

    def _begin(self, record: RunRecord, load: LoadWeights | None = None) -> None:
        self._served.store.put_run(record)
        self._context.clients.add(record)

        async def work() -> Payload:
            try:
                await self._served.host.create(
                    record.id, LoraSpec(rank=record.rank, alpha=record.alpha), record.seed
                )
                if load is None:
                    return json_payload({"model_id": record.id, "type": "create_model"})
                await self._load(record.id, load)
                return _loaded(load.path, record.id)
            except BaseException:
                self._context.clients.remove(record.id)
                await self._served.host.drop(record.id)
                raise

        self._context.futures.begin(f"{record.id}:create", record.session, work())

    async def _load(self, run: str, body: LoadWeights) -> None:
        path = TinkerPath.parse(body.path)
        checkpoint = self._checkpoint(path)
        if body.optimizer and not checkpoint.optimiser:
            raise UserError("it holds no optimiser", where=str(path), fix="load the weights alone")
        await self._served.host.load(run, self._served.store.directory(path), body.optimizer)

    async def _save(self, run: RunRecord, path: TinkerPath, body: SaveWeights) -> None:
        store = self._served.store
        known = store.has_checkpoint(path)
        if known and not body.overwrite:
            raise UserError("there is a checkpoint of this name", where=str(path), fix="choose another name")
        optimiser, directory = path.kind is Kind.TRAINING, store.directory(path)
        await self._served.host.save(run.id, directory, optimiser)
        now = datetime.now(UTC)
        record = CheckpointRecord(
            path=str(path),
            base=run.base,
            rank=run.rank,
            alpha=run.alpha,
            optimiser=optimiser,
            created=now,
            expires=None if body.ttl_seconds is None else now + timedelta(seconds=body.ttl_seconds),
            metadata=body.user_metadata,
        )
        store.put_checkpoint(path, record)
        if known:
            await self._served.host.release(str(directory))

    async def _snapshot(self, run: RunRecord, number: int) -> SamplerRecord:
        """A sampling session over the weights as they are now."""
        store = self._served.store
        sampler = SamplerRecord(
            id=f"{run.session}:sample:{number}",
            session=run.session,
            base=run.base,
            folder=store.unnamed_folder(run.id, number),
        )
        await self._served.host.snapshot(run.id, store.unnamed(sampler))
        store.put_sampler(sampler)
        for old in store.unnamed_of(run.id)[:-UNNAMED_KEPT]:
            if directory := store.drop_sampler(old):
                await self._served.host.drop(str(directory))
        return sampler

    def _checkpoint(self, path: TinkerPath) -> CheckpointRecord:
        checkpoint = self._served.store.checkpoint(path)
        self._check_base(checkpoint.base)
        return checkpoint

    def _check_base(self, base: str) -> None:
        served = self._served.host.base
        if base != served:
            raise HttpError(404, f"the base {base!r} is not served here; {served!r} is")

    def _in_turn(self, run: LiveRun, given: int | None, work: Callable[[], Awaitable[Payload]]) -> Response:
        """Promise the work, which is done when all requests of lower numbers are over.

        A request that is posted again, since its answer was lost, is not done again.
        """
        number = run.line.number(given)
        request = f"{run.record.id}:{number}"

        async def in_turn() -> Payload:
            async with run.line.turn(number):
                return await work()

        if request not in self._context.futures and not run.line.is_over(number):
            self._context.futures.begin(request, run.record.session, in_turn())
        return _promise(request, run.record.id)


def _promise(request: str, run: str) -> Response:
    return JSONResponse({"request_id": request, "model_id": run})


def _loaded(path: str, run: str) -> Payload:
    return json_payload({"path": path, "model_id": run, "type": "load_weights"})


def _check_optimiser(config: OptimiserConfig) -> None:
    if config.type != "adamw":
        raise HttpError(400, f"the optimiser {config.type!r} is not served; use 'adamw'")


def _unnamed(number: int | None) -> str:
    return f"step-{number or 0:06d}"
