"""Sessions of clients, and the questions that they ask before and beside all work."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from trainsmith.engine.server.records import SessionRecord
from trainsmith.engine.server.tinker.bodies import CreateSession, OfSession
from trainsmith.engine.server.tinker.context import Context
from trainsmith.engine.server.tinker.reading import read_json


class Sessions:
    """Handlers. A session ends when its client says so; one that falls silent only loses its work."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self, prefix: str) -> list[Route]:
        """All routes."""
        return [
            Route(f"{prefix}/healthz", self.health),
            Route(f"{prefix}/get_server_capabilities", self.capabilities),
            Route(f"{prefix}/client/config", self.config, methods=["POST"]),
            Route(f"{prefix}/client/dynamic_config", self.dynamic_config, methods=["POST"]),
            Route(f"{prefix}/telemetry", self.telemetry, methods=["POST"]),
            Route(f"{prefix}/create_session", self.create, methods=["POST"]),
            Route(f"{prefix}/session_heartbeat", self.heartbeat, methods=["POST"]),
            Route(f"{prefix}/sessions", self.list),
            Route(f"{prefix}/sessions/{{session}}", self.get),
            Route(f"{prefix}/sessions/{{session}}/finish", self.finish, methods=["POST"]),
        ]

    async def health(self, _: Request) -> Response:
        """That the server answers, and how much it holds; asking keeps no session alive."""
        context = self._context
        load = {
            "rows": context.served.host.rows,
            "futures": len(context.futures),
            "runs": context.clients.runs,
        }
        return JSONResponse({"status": "ok", **load})

    async def capabilities(self, _: Request) -> Response:
        host = self._context.served.host
        model = {
            "model_name": host.base,
            "max_context_length": host.context,
            "trainable": True,
            "sampleable": True,
        }
        return JSONResponse({"supported_models": [model]})

    async def config(self, _: Request) -> Response:
        """No flags: the SDK's defaults keep newer protocols off."""
        return JSONResponse({})

    async def dynamic_config(self, _: Request) -> Response:
        """A client that gives up on a sample says so."""
        return JSONResponse({"sample_cancel_enabled": True})

    async def telemetry(self, request: Request) -> Response:
        """Swallowed: nothing leaves the machine."""
        await request.body()
        return JSONResponse({"status": "accepted"})

    async def create(self, request: Request) -> Response:
        body = await read_json(request, CreateSession)
        record = SessionRecord(
            id=secrets.token_hex(8),
            created=datetime.now(UTC),
            metadata=body.user_metadata,
            name=body.display_name,
        )
        self._context.served.store.put_session(record)
        self._context.clients.hear(record.id)
        return JSONResponse({"type": "create_session", "session_id": record.id})

    async def heartbeat(self, request: Request) -> Response:
        self._context.clients.hear((await read_json(request, OfSession)).session_id)
        return JSONResponse({"type": "session_heartbeat"})

    async def list(self, _: Request) -> Response:
        return JSONResponse({"sessions": [each.id for each in self._context.served.store.sessions()]})

    async def get(self, request: Request) -> Response:
        store = self._context.served.store
        record = store.session(request.path_params["session"])
        document = {
            "training_run_ids": [run.id for run in store.runs() if run.session == record.id],
            "sampler_ids": [sampler.id for sampler in store.samplers(record.id)],
            "user_metadata": record.metadata,
            "display_name": record.name,
        }
        return JSONResponse(document)

    async def finish(self, request: Request) -> Response:
        """Its work stops, its learners and unnamed weights go; its checkpoints stay."""
        served = self._context.served
        record = served.store.session(request.path_params["session"])
        served.store.put_session(record.model_copy(update={"finished": True}))
        for run in self._context.end_session(record.id):
            await served.host.drop(run)
        for sampler in served.store.samplers(record.id):
            if directory := served.store.drop_sampler(sampler):
                await served.host.drop(str(directory))
        return JSONResponse({})
