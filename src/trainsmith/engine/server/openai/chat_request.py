"""The body of `/v1/chat/completions`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field
from pydantic_core import from_json

from trainsmith.engine.conversation import Tool, ToolCall, Turn
from trainsmith.engine.server.openai.body import Body
from trainsmith.engine.server.openai.options import Options
from trainsmith.engine.server.openai.refusal import UNSUPPORTED, Refused


class TextPart(Body):
    type: str
    text: str | None = None


class FunctionCall(Body):
    name: str = Field(min_length=1)
    arguments: str = ""
    """JSON, or what the model wrote in its place."""


class CallPart(Body):
    id: str = ""
    type: Literal["function"] = "function"
    function: FunctionCall


class ChatMessage(Body):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | tuple[TextPart, ...] | None = None
    tool_calls: tuple[CallPart, ...] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class FunctionDeclaration(Body):
    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ToolDeclaration(Body):
    type: Literal["function"] = "function"
    function: FunctionDeclaration


class StreamOptions(Body):
    include_usage: bool | None = None


class ChatRequest(Options):
    model: str
    messages: tuple[ChatMessage, ...] = Field(min_length=1)
    tools: tuple[ToolDeclaration, ...] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = None
    """vLLM's: the prompt's tokens and each choice's come back too."""

    @property
    def limit(self) -> int | None:
        """`max_completion_tokens` is the newer name."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with its usage."""
        return bool(self.stream_options and self.stream_options.include_usage)


def offered(request: ChatRequest) -> tuple[Tool, ...]:
    """The tools that the model may call. Raises Refused for a forced call: none can be promised."""
    choice = request.tool_choice
    if choice not in (None, "none", "auto"):
        what = "only tool_choice 'auto' and 'none' are served here: a call cannot be forced"
        raise Refused(what, param="tool_choice", code=UNSUPPORTED)
    return () if choice == "none" else tuple(map(_tool, request.tools or ()))


def check_logprobs(request: ChatRequest) -> None:
    """Raise Refused for logprobs of tokens that were not sampled: the sampler keeps none."""
    if request.top_logprobs:
        what = "top_logprobs is not served here beyond 0: only the sampled token's logprob is known"
        raise Refused(what, param="top_logprobs", code=UNSUPPORTED)
    if request.top_logprobs is not None and not request.logprobs:
        raise Refused("top_logprobs needs logprobs", param="top_logprobs")


def turns(messages: Sequence[ChatMessage]) -> list[Turn]:
    """The conversation as a chat template takes it. Raises Refused."""
    names: dict[str, str] = {}
    found = []
    for index, message in enumerate(messages):
        turn = _turn(message, f"messages.{index}", names)
        names |= {call.id: call.name for call in turn.calls}
        found.append(turn)
    return found


def _turn(message: ChatMessage, where: str, names: dict[str, str]) -> Turn:
    calls = tuple(_call(call, where) for call in message.tool_calls or ())
    content = _text(message, where, may_lack=bool(calls))
    match message.role:
        case "tool":
            call_id = message.tool_call_id or ""
            return Turn("tool", content, call_id=call_id, name=message.name or names.get(call_id, ""))
        case "developer":
            return Turn("system", content)
        case "assistant":
            return Turn("assistant", content, calls)
    return Turn(message.role, content)


def _text(message: ChatMessage, where: str, *, may_lack: bool) -> str:
    if isinstance(message.content, str):
        return message.content
    if message.content is None:
        if may_lack or message.role == "assistant":
            return ""
        raise Refused("content is missing", param=f"{where}.content")
    for part in message.content:
        if part.type != "text" or part.text is None:
            what = f"only text is served here, not content of type {part.type!r}"
            raise Refused(what, param=f"{where}.content", code=UNSUPPORTED)
    return "".join(part.text or "" for part in message.content)


def _call(part: CallPart, where: str) -> ToolCall:
    try:
        arguments = from_json(part.function.arguments or "{}", allow_inf_nan=False)
    except ValueError as error:
        raise Refused(f"arguments are not JSON: {error}", param=f"{where}.tool_calls") from error
    if not isinstance(arguments, dict):
        raise Refused("arguments are not a JSON object", param=f"{where}.tool_calls")
    return ToolCall(part.function.name, arguments, part.id)


def _tool(declaration: ToolDeclaration) -> Tool:
    function = declaration.function.model_dump(exclude_none=True)
    text = json.dumps({"type": "function", "function": function}, ensure_ascii=False)
    return Tool(declaration.function.name, text)
