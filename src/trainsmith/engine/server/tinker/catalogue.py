"""What there is on disk: training runs and checkpoints, listed, described and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from trainsmith.engine.server.errors import HttpError
from trainsmith.engine.server.records import CheckpointRecord, RunRecord
from trainsmith.engine.server.tinker.bodies import TimeToLive, WeightsInfo
from trainsmith.engine.server.tinker.context import Context
from trainsmith.engine.server.tinker.reading import read_json
from trainsmith.engine.server.tinker_path import Kind, TinkerPath

Json = dict[str, Any]

_TYPES = {Kind.TRAINING: "training", Kind.SAMPLER: "sampler"}


class Catalogue:
    """Handlers."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.served.store

    def routes(self, prefix: str) -> list[Route]:
        """All routes."""
        run = f"{prefix}/training_runs/{{run}}"
        one = f"{run}/checkpoints/{{kind}}/{{name}}"
        return [
            Route(f"{prefix}/training_runs", self.list_runs),
            Route(run, self.get_run),
            Route(f"{run}/checkpoints", self.list_of_run),
            Route(one, self.delete, methods=["DELETE"]),
            Route(f"{one}/ttl", self.set_time_to_live, methods=["PUT"]),
            Route(f"{prefix}/checkpoints", self.list_all),
            Route(f"{prefix}/weights_info", self.weights_info, methods=["POST"]),
        ]

    async def list_runs(self, request: Request) -> Response:
        runs = self._store.runs()
        page, cursor = _page(request, runs, default=20)
        return JSONResponse({"training_runs": [self._run(each) for each in page], "cursor": cursor})

    async def get_run(self, request: Request) -> Response:
        return JSONResponse(self._run(self._store.run(request.path_params["run"])))

    async def list_of_run(self, request: Request) -> Response:
        found = self._store.checkpoints(request.path_params["run"])
        return JSONResponse({"checkpoints": [self._checkpoint(each) for each in found]})

    async def list_all(self, request: Request) -> Response:
        page, cursor = _page(request, self._store.checkpoints(), default=100)
        return JSONResponse({"checkpoints": [self._checkpoint(each) for each in page], "cursor": cursor})

    async def delete(self, request: Request) -> Response:
        directory = self._store.delete_checkpoint(_path(request))
        await self._context.served.host.drop(str(directory))
        return Response(status_code=204)

    async def set_time_to_live(self, request: Request) -> Response:
        path, seconds = _path(request), (await read_json(request, TimeToLive)).ttl_seconds
        expires = None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
        record = self._store.checkpoint(path).model_copy(update={"expires": expires})
        self._store.put_checkpoint(path, record)
        return Response(status_code=204)

    async def weights_info(self, request: Request) -> Response:
        body = await read_json(request, WeightsInfo)
        record = self._store.checkpoint(TinkerPath.parse(body.tinker_path))
        return JSONResponse(
            {
                "base_model": record.base,
                "is_lora": True,
                "lora_rank": record.rank,
                "train_unembed": False,
                "train_mlp": True,
                "train_attn": True,
            }
        )

    def _run(self, record: RunRecord) -> Json:
        found = [self._checkpoint(each) for each in self._store.checkpoints(record.id)]
        live = self._context.clients.find(record.id)
        return {
            "training_run_id": record.id,
            "base_model": record.base,
            "model_owner": "local",
            "is_lora": True,
            "lora_rank": record.rank,
            "last_request_time": (live.last_request if live else record.created).isoformat(),
            "last_checkpoint": _latest(found, "training"),
            "last_sampler_checkpoint": _latest(found, "sampler"),
            "user_metadata": record.metadata,
        }

    def _checkpoint(self, record: CheckpointRecord) -> Json:
        path = TinkerPath.parse(record.path)
        return {
            "checkpoint_id": path.checkpoint,
            "checkpoint_type": _TYPES[path.kind],
            "time": record.created.isoformat(),
            "tinker_path": record.path,
            "size_bytes": self._store.size(path),
            "public": False,
            "user_metadata": record.metadata,
            "expires_at": record.expires.isoformat() if record.expires else None,
        }


def _path(request: Request) -> TinkerPath:
    parts = request.path_params
    return TinkerPath.parse(f"tinker://{parts['run']}/{parts['kind']}/{parts['name']}")


def _latest(found: Sequence[Json], kind: str) -> Json | None:
    return next((each for each in found if each["checkpoint_type"] == kind), None)


def _page(request: Request, found: Sequence[Any], default: int) -> tuple[Sequence[Any], Json]:
    try:
        limit = int(request.query_params.get("limit", default))
        offset = int(request.query_params.get("offset", 0))
    except ValueError as error:
        raise HttpError(400, "limit and offset are whole numbers") from error
    if limit < 0 or offset < 0:
        raise HttpError(400, "limit and offset are not negative")
    cursor = {"offset": offset, "limit": limit, "total_count": len(found)}
    return found[offset : offset + limit], cursor
