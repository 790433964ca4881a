"""`POST /v1/chat/completions`: whole or streamed, with tools, logprobs and several choices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from trainsmith.engine.records import Completion, SampleRequest
from trainsmith.engine.server.host import ModelHost
from trainsmith.engine.server.openai import wire
from trainsmith.engine.server.openai.body import read_body
from trainsmith.engine.server.openai.chat_request import ChatRequest, check_logprobs, offered, turns
from trainsmith.engine.server.openai.names import Names
from trainsmith.engine.server.openai.options import sample_requests
from trainsmith.engine.server.openai.reply import Reading, Reply
from trainsmith.engine.server.openai.streaming import event_stream, interleaved, until_gone
from trainsmith.engine.server.openai.wire import Json
from trainsmith.engine.tool_reader import Part


@dataclass(frozen=True, slots=True)
class _Plan:
    """One request, ready to be sampled."""

    request: ChatRequest
    weights: str | None
    samples: list[SampleRequest]
    reading: Reading
    id: str = field(default_factory=lambda: wire.new_id("chatcmpl"))
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def prompt(self) -> tuple[int, ...]:
        return self.samples[0].prompt

    def head(self, kind: str) -> Json:
        """What every answer begins with."""
        return {"id": self.id, "object": kind, "created": self.created, "model": self.request.model}


class Chat:
    """The endpoint."""

    def __init__(self, host: ModelHost, names: Names) -> None:
        self._host, self._names = host, names

    async def complete(self, request: Request) -> Response:
        """Raises Refused and HttpError."""
        plan = await self._plan(await read_body(request, ChatRequest))
        if plan.request.stream:
            return event_stream(self._events(plan))
        completions = await until_gone(request, self._host.sample(plan.weights, plan.samples))
        return JSONResponse(self._answer(plan, completions))

    async def _plan(self, body: ChatRequest) -> _Plan:
        check_logprobs(body)
        tools, conversation = offered(body), turns(body.messages)
        weights = self._names.weights(body.model)
        tokenizer = self._host.tokenizer
        # A long prompt takes a while, in which other clients are answered.
        prompt = await asyncio.to_thread(tokenizer.encode_conversation, conversation, tools)
        samples = sample_requests(body, prompt, tokenizer.stop_tokens, self._host.context)
        reading = Reading(body.stop, bool(tools), body.parallel_tool_calls is False)
        return _Plan(body, weights, samples, reading)

    def _answer(self, plan: _Plan, completions: Sequence[Completion]) -> Json:
        count = sum(len(each.tokens) for each in completions)
        answer = plan.head("chat.completion") | {
            "choices": [self._choice(plan, index, each) for index, each in enumerate(completions)],
            "usage": wire.usage(len(plan.prompt), count),
        }
        if plan.request.return_token_ids:
            answer["prompt_token_ids"] = list(plan.prompt)
        return answer

    def _choice(self, plan: _Plan, index: int, completion: Completion) -> Json:
        reply = Reply(self._host.tokenizer, plan.reading).read(completion.tokens)
        message: Json = {"role": "assistant", "content": reply.content, "refusal": None}
        if reply.calls:
            message["content"] = reply.content or None
            message["tool_calls"] = [wire.tool_call(call) for call in reply.calls]
        choice = {"index": index, "message": message, "finish_reason": reply.ended(completion.finish)}
        return choice | self._details(plan, completion.tokens, completion.logprobs)

    def _details(self, plan: _Plan, tokens: Sequence[int], logprobs: Sequence[float]) -> Json:
        wanted = plan.request.logprobs
        details: Json = {
            "logprobs": wire.logprobs(self._host.tokenizer, tokens, logprobs) if wanted else None
        }
        if plan.request.return_token_ids:
            details["token_ids"] = list(tokens)
        return details

    async def _events(self, plan: _Plan) -> AsyncGenerator[Json]:
        for index in range(len(plan.samples)):
            yield self._chunk(plan, index, {"role": "assistant", "content": ""}, first=True)
        count = 0
        replies = [Reply(self._host.tokenizer, plan.reading) for _ in plan.samples]
        finished: set[int] = set()
        async with aclosing(interleaved(self._host, plan.weights, plan.samples)) as items:
            async for index, item in items:
                if index in finished:
                    continue
                count += not isinstance(item, Completion)
                for chunk in self._told(plan, index, replies[index], item):
                    yield chunk
                if isinstance(item, Completion) or replies[index].over:
                    finished.add(index)
                if len(finished) == len(replies):
                    break
        if plan.request.include_usage:
            total = wire.usage(len(plan.prompt), count)
            yield plan.head("chat.completion.chunk") | {"choices": [], "usage": total}

    def _told(
        self, plan: _Plan, index: int, reply: Reply, item: tuple[int, float] | Completion
    ) -> list[Json]:
        """The chunks that follow from one token, or from the end of a choice."""
        calls = len(reply.calls)
        if isinstance(item, Completion):
            chunks = [self._chunk(plan, index, each) for each in _deltas(reply.finish(), calls)]
            return [*chunks, self._chunk(plan, index, {}, reply.ended(item.finish))]
        deltas = _deltas(reply.push(item[0]), calls)
        if not deltas and (plan.request.logprobs or plan.request.return_token_ids):
            deltas = [{"content": ""}]
        chunks = [self._chunk(plan, index, delta) for delta in deltas]
        if chunks:
            chunks[0]["choices"][0] |= self._details(plan, item[:1], item[1:])
        if reply.over:
            chunks.append(self._chunk(plan, index, {}, reply.ended("stop")))
        return chunks

    def _chunk(
        self, plan: _Plan, index: int, delta: Json, finish: str | None = None, *, first: bool = False
    ) -> Json:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk = plan.head("chat.completion.chunk") | {"choices": [choice]}
        if first and plan.request.return_token_ids:
            chunk["prompt_token_ids"] = list(plan.prompt)
        if plan.request.include_usage:
            chunk["usage"] = None
        return chunk


def _deltas(parts: Sequence[Part], calls: int) -> list[Json]:
    """Text and whole calls as a stream tells them; `calls` is the number of those told before."""
    deltas: list[Json] = []
    for part in parts:
        if isinstance(part, str):
            deltas.append({"content": part})
        else:
            deltas.append({"tool_calls": [{"index": calls, **wire.tool_call(part)}]})
            calls += 1
    return deltas
