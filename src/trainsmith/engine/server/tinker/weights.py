"""Weights of training runs, saved and loaded: under names, or for one sampling session alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from trainsmith import seeds
from trainsmith.engine.server.errors import HttpError
from trainsmith.engine.server.records import CheckpointRecord, RunRecord, SamplerRecord
from trainsmith.engine.server.tinker.beginning import begin, check_base, check_optimiser
from trainsmith.engine.server.tinker.bodies import LoadWeights, SaveForSampler, SaveWeights
from trainsmith.engine.server.tinker.context import Context
from trainsmith.engine.server.tinker.futures import Payload, json_payload
from trainsmith.engine.server.tinker.promises import in_turn
from trainsmith.engine.server.tinker.reading import read_json
from trainsmith.engine.server.tinker_path import Kind, TinkerPath
from trainsmith.errors import UserError

UNNAMED_KEPT = 16
"""Weights without a name that a run keeps: the least recently sampled go first."""


class Weights:
    """Handlers. A checkpoint is there once its state is whole on disk."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._served = context.served
        self._store = context.served.store

    def routes(self, prefix: str) -> list[Route]:
        """All routes."""
        posts = {
            "save_weights": self.save,
            "save_weights_for_sampler": self.save_for_sampler,
            "load_weights": self.load,
        }
        return [Route(f"{prefix}/{name}", handler, methods=["POST"]) for name, handler in posts.items()]

    async def save(self, request: Request) -> Response:
        """With the optimiser. A name is made up when none is given."""
        body = await read_json(request, SaveWeights)
        run = self._context.clients.run(body.model_id)

        async def work() -> Payload:
            name = f"step-{body.seq_id or 0:06d}" if body.path is None else body.path
            path = TinkerPath(run.record.id, Kind.TRAINING, name)
            await self._save(run.record, path, body)
            return json_payload({"path": str(path), "type": "save_weights"})

        return in_turn(self._context, run, body.seq_id, work)

    async def save_for_sampler(self, request: Request) -> Response:
        """Under a name, or as a sampling session without one."""
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

        return in_turn(self._context, run, body.seq_id, unnamed if body.path is None else named)

    async def load(self, request: Request) -> Response:
        """Into a run, or as a new run that takes its rank from the checkpoint."""
        body = await read_json(request, LoadWeights)
        if body.model_id is None:
            return self._create_from(body)
        run = self._context.clients.run(body.model_id)
        return in_turn(self._context, run, body.seq_id, lambda: self._load(run.record.id, body))

    def _create_from(self, body: LoadWeights) -> Response:
        if body.session_id is None or body.model_seq_id is None:
            raise HttpError(400, "give a model_id, or a session_id with a model_seq_id")
        if body.optimizer_config is not None:
            check_optimiser(body.optimizer_config)
        if body.base_model is not None:
            check_base(self._served, body.base_model)
        self._context.clients.hear(body.session_id)
        checkpoint = self._checkpoint(TinkerPath.parse(body.path))
        run = f"{body.session_id}:train:{body.model_seq_id}"
        return begin(
            self._context,
            run,
            rank=checkpoint.rank,
            seed=seeds.derive("lora", run),
            metadata=body.user_metadata,
            then=lambda: self._load(run, body),
        )

    async def _load(self, run: str, body: LoadWeights) -> Payload:
        path = TinkerPath.parse(body.path)
        checkpoint = self._checkpoint(path)
        if body.optimizer and not checkpoint.optimiser:
            raise UserError("it holds no optimiser", where=str(path), fix="load the weights alone")
        await self._served.host.load(run, self._store.directory(path), body.optimizer)
        return json_payload({"path": body.path, "model_id": run, "type": "load_weights"})

    async def _save(self, run: RunRecord, path: TinkerPath, body: SaveWeights) -> None:
        known = self._store.has_checkpoint(path)
        if known and not body.overwrite:
            raise UserError("there is a checkpoint of this name", where=str(path), fix="choose another name")
        optimiser, directory = path.kind is Kind.TRAINING, self._store.directory(path)
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
        self._store.put_checkpoint(path, record)
        if known:
            await self._served.host.release(str(directory))

    async def _snapshot(self, run: RunRecord, number: int) -> SamplerRecord:
        """A sampling session over the weights as they are now."""
        sampler = SamplerRecord(
            id=f"{run.session}:sample:{number}",
            session=run.session,
            base=run.base,
            folder=self._store.unnamed_folder(run.id, number),
        )
        await self._served.host.snapshot(run.id, self._store.unnamed(sampler))
        self._store.put_sampler(sampler)
        for old in self._store.unnamed_of(run.id)[:-UNNAMED_KEPT]:
            if directory := self._store.drop_sampler(old):
                await self._served.host.drop(str(directory))
        return sampler

    def _checkpoint(self, path: TinkerPath) -> CheckpointRecord:
        checkpoint = self._store.checkpoint(path)
        check_base(self._served, checkpoint.base)
        return checkpoint
