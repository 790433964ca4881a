"""Sampling sessions and samples; and the futures, which samples share with training."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from trainsmith import seeds
from trainsmith.engine.records import SampleRequest
from trainsmith.engine.server.errors import HttpError
from trainsmith.engine.server.records import SamplerRecord
from trainsmith.engine.server.tinker import wire
from trainsmith.engine.server.tinker.bodies import CreateSamplingSession, OfFuture, Sample, SamplingParams
from trainsmith.engine.server.tinker.context import Context
from trainsmith.engine.server.tinker.futures import Payload, protobuf_payload
from trainsmith.engine.server.tinker.reading import read_json
from trainsmith.errors import UserError

_FUTURE = r"[0-9a-f]{16}:(train:[0-9]+:([0-9]+|create)|sample:[0-9]+:[0-9]+|once:[0-9a-f]+)"


class Sampling:
    """Handlers."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._served = context.served

    def routes(self, prefix: str) -> list[Route]:
        """All routes."""
        return [
            Route(f"{prefix}/create_sampling_session", self.create_session, methods=["POST"]),
            Route(f"{prefix}/samplers/{{sampler}}", self.get_sampler),
            Route(f"{prefix}/asample", self.sample, methods=["POST"]),
            Route(f"{prefix}/retrieve_future", self.retrieve, methods=["POST"]),
            Route(f"{prefix}/cancel_future", self.cancel, methods=["POST"]),
        ]

    async def create_session(self, request: Request) -> Response:
        body = await read_json(request, CreateSamplingSession)
        self._context.clients.hear(body.session_id)
        if body.model_path is None and body.base_model is None:
            raise HttpError(400, "give a model_path or a base_model")
        self._served.weights(body.model_path or body.base_model or "")
        record = SamplerRecord(
            id=f"{body.session_id}:sample:{body.sampling_session_seq_id}",
            session=body.session_id,
            base=self._served.host.base,
            path=body.model_path,
        )
        self._served.store.put_sampler(record)
        return JSONResponse({"type": "create_sampling_session", "sampling_session_id": record.id})

    async def get_sampler(self, request: Request) -> Response:
        record = self._served.store.sampler(request.path_params["sampler"])
        return JSONResponse({"sampler_id": record.id, "base_model": record.base, "model_path": record.path})

    async def sample(self, request: Request) -> Response:
        """A promise with the ids of the sequences. The same number of a session is not sampled twice."""
        body = await read_json(request, Sample)
        session, name = self._named(body)
        request_id = f"{name}:{body.seq_id}" if body.seq_id is not None else f"{session}:once:{name}"
        if request_id not in self._context.futures:
            work = self._sample(body, request_id)
            self._context.futures.begin(request_id, session, work, abandonable=True)
        sequences = [f"{request_id}:{index}" for index in range(body.num_samples)]
        return JSONResponse({"request_id": request_id, "sample_sequence_ids": sequences})

    async def retrieve(self, request: Request) -> Response:
        asked = (await read_json(request, OfFuture)).request_id
        if not re.fullmatch(_FUTURE, asked):
            raise HttpError(404, f"there is no request {asked!r}")
        patience, stopping = self._context.poll_seconds, self._served.stopping
        payload = await self._context.futures.retrieve(asked, patience, stopping)
        if payload is None:
            return JSONResponse({"type": "try_again", "request_id": asked, "queue_state": "active"})
        return Response(payload.content, media_type=payload.media_type)

    async def cancel(self, request: Request) -> Response:
        self._context.futures.cancel((await read_json(request, OfFuture)).request_id)
        return JSONResponse({})

    def _named(self, body: Sample) -> tuple[str, str]:
        """The session that a sample belongs to, and what its id begins with."""
        if body.sampling_session_id is None:
            return "0" * 16, secrets.token_hex(8)
        if body.seq_id is None:
            raise HttpError(400, "seq_id: a sample of a sampling session needs its number")
        record = self._served.store.sampler(body.sampling_session_id)
        self._context.clients.hear(record.session)
        return record.session, record.id

    async def _sample(self, body: Sample, request_id: str) -> Payload:
        requests = self._requests(body, request_id)
        completions = await self._served.host.sample(self._weights(body), requests)
        logprobs = completions[0].prompt_logprobs if body.prompt_logprobs else None
        if logprobs is not None and body.prompt_logprobs_last_n is not None:
            skipped = len(logprobs) - body.prompt_logprobs_last_n
            logprobs = (None,) * skipped + logprobs[skipped:]
        return protobuf_payload(wire.sample_response(completions, logprobs))

    def _weights(self, body: Sample) -> str | None:
        if body.sampling_session_id is None:
            return self._served.weights(body.model_path or body.base_model or self._served.host.base)
        record = self._served.store.sampler(body.sampling_session_id)
        if record.folder and record.base == self._served.host.base:
            self._served.store.touch(record)
            return str(self._served.store.unnamed(record))
        return self._served.weights(record.path or record.base)

    def _requests(self, body: Sample, request_id: str) -> list[SampleRequest]:
        """One a sample; the prompt's logprobs are asked of the first alone."""
        _check_served(body)
        prompt, params = _prompt(body), body.sampling_params
        if body.prompt_logprobs_last_n is not None and not 0 < body.prompt_logprobs_last_n < len(prompt):
            raise UserError("prompt_logprobs_last_n must be less than the prompt's length", where="sample")
        tokens, strings = _stops(params)
        first = SampleRequest(
            prompt=prompt,
            max_tokens=params.max_tokens or max(1, self._served.host.context - len(prompt)),
            temperature=params.temperature,
            seed=0,
            top_p=params.top_p,
            top_k=max(0, params.top_k),
            stop_tokens=tokens,
            stop_strings=strings,
            prompt_logprobs=bool(body.prompt_logprobs),
        )
        seed: str | int = request_id if params.seed is None else params.seed
        rows = [replace(first, seed=seeds.derive("sample", seed, n)) for n in range(body.num_samples)]
        return rows[:1] + [replace(row, prompt_logprobs=False) for row in rows[1:]]


def _check_served(body: Sample) -> None:
    asked = {
        "topk_prompt_logprobs": body.topk_prompt_logprobs > 0,
        "topk_sample_logprobs": body.topk_sample_logprobs > 0,
        "target_prompt_logprobs": body.target_prompt_logprobs is not None,
        "prompt_alt_tokens_k": body.prompt_alt_tokens_k > 0,
        "record_stability_info": bool(body.record_stability_info),
    }
    for name in (name for name, is_asked in asked.items() if is_asked):
        raise UserError(f"{name} is not served", where="sample", fix="leave it out")


def _prompt(body: Sample) -> tuple[int, ...]:
    if any(chunk.type != "encoded_text" for chunk in body.prompt.chunks):
        raise UserError("a prompt is text only", where="sample")
    return tuple(token for chunk in body.prompt.chunks for token in chunk.tokens)


def _stops(params: SamplingParams) -> tuple[tuple[int, ...] | None, tuple[str, ...]]:
    """Stop tokens, None for the model's own; and stop strings.

    As Tinker has it: none given keeps the model's, an empty list takes them away, tokens stand for them.
    Strings come beside them.
    """
    stop = params.stop
    if stop is None or isinstance(stop, str):
        return None, (stop,) if stop else ()
    numbers: Sequence[int] = [each for each in stop if isinstance(each, int)]
    strings = tuple(each for each in stop if isinstance(each, str))
    return (None, strings) if strings else (tuple(numbers), ())
