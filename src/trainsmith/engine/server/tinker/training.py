"""Training runs: create, forward and backward, step. Every request is answered by a future."""

from __future__ import annotations

import asyncio
import math

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from trainsmith import seeds
from trainsmith.engine.records import AdamSpec
from trainsmith.engine.server.errors import HttpError
from trainsmith.engine.server.tinker import wire
from trainsmith.engine.server.tinker.beginning import begin, check_base, check_optimiser
from trainsmith.engine.server.tinker.bodies import AdamParams, CreateModel, LoraConfig, OfModel, OptimStep
from trainsmith.engine.server.tinker.context import Context
from trainsmith.engine.server.tinker.futures import Payload, json_payload, protobuf_payload
from trainsmith.engine.server.tinker.promises import in_turn
from trainsmith.engine.server.tinker.reading import read_binary, read_json


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
        }
        return [Route(f"{prefix}/{name}", handler, methods=["POST"]) for name, handler in posts.items()]

    async def create_model(self, request: Request) -> Response:
        body = await read_json(request, CreateModel)
        check_base(self._served, body.base_model)
        check_optimiser(body.optimizer_config)
        lora = body.lora_config or LoraConfig(rank=32)
        if not (lora.train_attn and lora.train_mlp):
            raise HttpError(400, "attention and MLP layers are trained together: leave both on")
        run = f"{body.session_id}:train:{body.model_seq_id}"

        async def created() -> Payload:
            return json_payload({"model_id": run, "type": "create_model"})

        seed = seeds.derive("lora", run) if lora.seed is None else lora.seed
        return begin(self._context, run, rank=lora.rank, seed=seed, metadata=body.user_metadata, then=created)

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

        return in_turn(self._context, run, None, work)

    async def forward_backward(self, request: Request) -> Response:
        """Also forward alone."""
        message = wire.parse_forward_backward(await read_binary(request, self._context.body_limit))
        run, host = self._context.clients.run(message.model_id), self._served.host

        async def work() -> Payload:
            loss = wire.to_loss(message)
            data = await asyncio.to_thread(wire.to_data, message)
            go = host.forward if message.forward_only else host.forward_backward
            return protobuf_payload(wire.forward_backward_output(await go(run.record.id, data, loss)))

        return in_turn(self._context, run, message.seq_id or None, work)

    async def optim_step(self, request: Request) -> Response:
        body = await read_json(request, OptimStep)
        if body.adam_params is None:
            raise HttpError(400, "adam_params is missing: AdamW is the one optimiser here")
        run, adam = self._context.clients.run(body.model_id), _adam(body.adam_params)

        async def work() -> Payload:
            stats = await self._served.host.optim_step(run.record.id, adam)
            metrics = {"grad_norm": stats.grad_norm, "step_taken": float(stats.taken), "lr": stats.lr}
            # JSON has no infinity: a norm that is not finite is left out, and no step taken.
            return json_payload({"metrics": {k: v for k, v in metrics.items() if math.isfinite(v)}})

        return in_turn(self._context, run, body.seq_id, work)


def _adam(given: AdamParams) -> AdamSpec:
    return AdamSpec(
        lr=given.learning_rate,
        beta1=given.beta1,
        beta2=given.beta2,
        eps=given.eps,
        weight_decay=given.weight_decay,
        grad_clip_norm=max(0.0, given.grad_clip_norm),
    )
