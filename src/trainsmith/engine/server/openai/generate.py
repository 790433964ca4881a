"""`POST /inference/v1/generate`: tokens in, tokens and their logprobs out, as vLLM serves it.

This is what verifiers' train client and prime-rl call. Logprobs are those that a learner needs: of the
sampled tokens, at the sampling temperature, over the whole vocabulary. vLLM gives the same with
`logprobs_mode=processed_logprobs` and no top-p or top-k.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from trainsmith.engine.records import Completion, SampleRequest
from trainsmith.engine.server.host import ModelHost
from trainsmith.engine.server.openai import wire
from trainsmith.engine.server.openai.body import Body, parsed, read_body, refuse_unserved
from trainsmith.engine.server.openai.chat_request import StreamOptions
from trainsmith.engine.server.openai.names import Names
from trainsmith.engine.server.openai.options import Options, check_tokens, sample_requests
from trainsmith.engine.server.openai.refusal import UNSUPPORTED, Refused
from trainsmith.engine.server.openai.streaming import event_stream, interleaved, until_gone
from trainsmith.engine.server.openai.wire import Json


class SamplingParams(Options):
    """vLLM's, as far as they are served."""

    logprobs: int | None = Field(None, ge=0, le=1)
    """0 and 1 both give the sampled token's logprob."""
    prompt_logprobs: int | None = Field(None, ge=0, le=0)
    """0 gives the prompt's own tokens' logprobs."""


class GenerateRequest(Body):
    token_ids: tuple[int, ...] = Field(min_length=1)
    sampling_params: dict[str, Any]
    model: str | None = None
    request_id: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    """One request, ready to be sampled."""

    request: GenerateRequest
    params: SamplingParams
    id: str
    weights: str | None
    samples: list[SampleRequest]


class Generate:
    """The endpoint."""

    def __init__(self, host: ModelHost, names: Names) -> None:
        self._host, self._names = host, names

    async def generate(self, request: Request) -> Response:
        """Raises Refused and HttpError."""
        plan = await self._plan(await read_body(request, GenerateRequest))
        if plan.request.stream:
            return event_stream(self._events(plan))
        completions = await until_gone(request, self._host.sample(plan.weights, plan.samples))
        return JSONResponse(self._answer(plan, completions))

    async def _plan(self, body: GenerateRequest) -> _Plan:
        refuse_unserved(body.sampling_params)
        params = parsed(body.sampling_params, SamplingParams)
        if params.prompt_logprobs is not None and body.stream:
            what = "prompt_logprobs is not served in a stream"
            raise Refused(what, param="prompt_logprobs", code=UNSUPPORTED)
        vocabulary = self._host.policy.architecture.vocabulary
        check_tokens(body.token_ids, vocabulary, "token_ids")
        check_tokens(params.stop_token_ids or (), vocabulary, "stop_token_ids")
        weights = self._names.weights(body.model)
        stops = self._host.tokenizer.stop_tokens
        samples = sample_requests(params, body.token_ids, stops, self._host.context)
        if params.prompt_logprobs is not None:
            samples[0] = replace(samples[0], prompt_logprobs=True)
        return _Plan(body, params, body.request_id or wire.new_id("generate"), weights, samples)

    def _answer(self, plan: _Plan, completions: Sequence[Completion]) -> Json:
        count = sum(len(each.tokens) for each in completions)
        answer: Json = {
            "request_id": plan.id,
            "model": plan.request.model or self._host.base,
            "created": int(time.time()),
            "choices": [
                self._choice(plan, index, each.tokens, each.logprobs, each.finish)
                for index, each in enumerate(completions)
            ],
            "usage": wire.usage(len(plan.request.token_ids), count),
            "prompt_logprobs": _prompt_logprobs(plan.request.token_ids, completions[0]),
            "kv_transfer_params": None,
        }
        if plan.request.return_token_ids:
            answer |= {"prompt_token_ids": list(plan.request.token_ids), "mm_placeholders": {}}
        return answer

    async def _events(self, plan: _Plan) -> AsyncGenerator[Json]:
        """A chunk a token; a choice's finish comes with an empty one."""
        count = 0
        async with aclosing(interleaved(self._host, plan.weights, plan.samples)) as items:
            async for index, item in items:
                if isinstance(item, Completion):
                    choice = self._choice(plan, index, (), (), item.finish)
                else:
                    count += 1
                    choice = self._choice(plan, index, item[:1], item[1:], None)
                yield {"request_id": plan.id, "choices": [choice]}
        options = plan.request.stream_options
        if options and options.include_usage:
            total = wire.usage(len(plan.request.token_ids), count)
            yield {"request_id": plan.id, "choices": [], "usage": total}

    def _choice(
        self, plan: _Plan, index: int, tokens: Sequence[int], values: Sequence[float], finish: str | None
    ) -> Json:
        return {
            "index": index,
            "token_ids": list(tokens),
            "logprobs": None if plan.params.logprobs is None else wire.generate_logprobs(tokens, values),
            "finish_reason": finish,
        }


def _prompt_logprobs(prompt: Sequence[int], completion: Completion) -> list[Json | None] | None:
    if completion.prompt_logprobs is None:
        return None
    return [
        None if value is None else {str(token): {"logprob": value, "rank": None, "decoded_token": None}}
        for token, value in zip(prompt, completion.prompt_logprobs, strict=True)
    ]
