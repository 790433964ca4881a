"""The routes of OpenAI's and vLLM's protocols on one host."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from trainsmith.engine.server.openai.chat import Chat
from trainsmith.engine.server.openai.completions import Completions
from trainsmith.engine.server.openai.generate import Generate
from trainsmith.engine.server.openai.names import Names
from trainsmith.engine.server.openai.refusal import with_refusals
from trainsmith.engine.server.served import Served


class OpenAiService:
    """Stateless: every request stands alone."""

    def __init__(self, served: Served) -> None:
        self._names = Names(served)
        self._chat = Chat(served.host, self._names)
        self._completions = Completions(served.host, self._names)
        self._generate = Generate(served.host, self._names)

    def routes(self) -> list[Route]:
        """For the application."""
        posts = {
            "/v1/chat/completions": self._chat.complete,
            "/v1/completions": self._completions.complete,
            "/inference/v1/generate": self._generate.generate,
        }
        return [
            *(Route(path, with_refusals(handler), methods=["POST"]) for path, handler in posts.items()),
            Route("/v1/models", self._models, methods=["GET"]),
            Route("/v1/models/{model:path}", with_refusals(self._model), methods=["GET"]),
        ]

    async def _models(self, _: Request) -> Response:
        return JSONResponse({"object": "list", "data": self._names.cards()})

    async def _model(self, request: Request) -> Response:
        return JSONResponse(self._names.card(request.path_params["model"]))
