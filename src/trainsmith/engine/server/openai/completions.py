"""`POST /v1/completions`: raw text or tokens continued, whole or streamed."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from trainsmith.engine.records import Completion, SampleRequest
from trainsmith.engine.server.host import ModelHost
from trainsmith.engine.server.openai import wire
from trainsmith.engine.server.openai.body import read_body
from trainsmith.engine.server.openai.chat_request import StreamOptions
from trainsmith.engine.server.openai.names import Names
from trainsmith.engine.server.openai.options import Options, check_tokens, sample_requests
from trainsmith.engine.server.openai.refusal import Refused
from trainsmith.engine.server.openai.reply import Reading, Reply
from trainsmith.engine.server.openai.streaming import event_stream, interleaved, until_gone
from trainsmith.engine.server.openai.wire import Json

_DEFAULT_MAX_TOKENS = 16
"""OpenAI's for this endpoint."""
_MOST_PROMPTS = 1024

Prompt = str | tuple[int, ...]


class CompletionRequest(Options):
    model: str
    prompt: str | tuple[int, ...] | tuple[str, ...] | tuple[tuple[int, ...], ...]
    max_tokens: int | None = Field(_DEFAULT_MAX_TOKENS, ge=1)
    logprobs: int | None = Field(None, ge=0, le=1)
    """0 and 1 both give the sampled token's logprob."""
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = None

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with its usage."""
        return bool(self.stream_options and self.stream_options.include_usage)


@dataclass(frozen=True, slots=True)
class _Plan:
    """One request, ready to be sampled: n choices for the first prompt, then n for the next."""

    request: CompletionRequest
    weights: str | None
    samples: list[SampleRequest]
    head: Json

    @property
    def read(self) -> int:
        """Prompt tokens: each prompt once."""
        return sum(len(each.prompt) for each in self.samples[:: self.request.n or 1])


class Completions:
    """The endpoint."""

    def __init__(self, host: ModelHost, names: Names) -> None:
        self._host, self._names = host, names

    async def complete(self, request: Request) -> Response:
        """Raises Refused and HttpError."""
        plan = await self._plan(await read_body(request, CompletionRequest))
        if plan.request.stream:
            return event_stream(self._events(plan))
        completions = await until_gone(request, self._host.sample(plan.weights, plan.samples))
        choices = [self._whole(plan, index, each) for index, each in enumerate(completions)]
        count = sum(len(each.tokens) for each in completions)
        return JSONResponse(plan.head | {"choices": choices, "usage": wire.usage(plan.read, count)})

    async def _plan(self, body: CompletionRequest) -> _Plan:
        weights = self._names.weights(body.model)
        stops, context = self._host.tokenizer.stop_tokens, self._host.context
        samples = [
            sample
            for prompt in self._prompts(body)
            for sample in sample_requests(body, prompt, stops, context)
        ]
        head = {"object": "text_completion", "created": int(time.time()), "model": body.model}
        return _Plan(body, weights, samples, {"id": wire.new_id("cmpl"), **head})

    def _prompts(self, body: CompletionRequest) -> Iterator[tuple[int, ...]]:
        many = [body.prompt] if _is_one(body.prompt) else list(body.prompt)
        if len(many) > _MOST_PROMPTS:
            raise Refused(f"more than {_MOST_PROMPTS} prompts", param="prompt")
        for prompt in many:
            tokens = self._host.tokenizer.encode_text(prompt) if isinstance(prompt, str) else prompt
            assert isinstance(tokens, tuple), "one prompt"
            if not tokens:
                raise Refused("the prompt is empty", param="prompt")
            check_tokens(tokens, self._host.policy.architecture.vocabulary, "prompt")
            yield tokens

    def _whole(self, plan: _Plan, index: int, completion: Completion) -> Json:
        reply = Reply(self._host.tokenizer, Reading(plan.request.stop)).read(completion.tokens)
        finish = reply.ended(completion.finish)
        return self._choice(plan, index, (reply.content, 0), completion.tokens, completion.logprobs, finish)

    async def _events(self, plan: _Plan) -> AsyncGenerator[Json]:
        count = 0
        replies = [Reply(self._host.tokenizer, Reading(plan.request.stop)) for _ in plan.samples]
        async with aclosing(interleaved(self._host, plan.weights, plan.samples)) as items:
            async for index, item in items:
                reply, before = replies[index], len(replies[index].content)
                if isinstance(item, Completion):
                    reply.finish()
                    said, finish = (reply.content[before:], before), reply.ended(item.finish)
                    choice = self._choice(plan, index, said, (), (), finish)
                else:
                    count += 1
                    reply.push(item[0])
                    said = reply.content[before:], before
                    choice = self._choice(plan, index, said, item[:1], item[1:], None)
                yield plan.head | {"choices": [choice]}
        if plan.request.include_usage:
            yield plan.head | {"choices": [], "usage": wire.usage(plan.read, count)}

    def _choice(
        self,
        plan: _Plan,
        index: int,
        said: tuple[str, int],
        tokens: Sequence[int],
        values: Sequence[float],
        finish: str | None,
    ) -> Json:
        """`said` is the choice's new text, and the length of what was said before."""
        choice: Json = {"index": index, "text": said[0], "finish_reason": finish, "logprobs": None}
        if plan.request.logprobs is not None:
            choice["logprobs"] = wire.legacy_logprobs(self._host.tokenizer, tokens, values, said[1])
        if plan.request.return_token_ids:
            choice["token_ids"] = list(tokens)
            if finish is not None:
                choice["prompt_token_ids"] = list(plan.samples[index].prompt)
        return choice


def _is_one(prompt: object) -> bool:
    return isinstance(prompt, str) or (isinstance(prompt, tuple) and all(isinstance(p, int) for p in prompt))
