"""From the bytes of a request to its record: what is malformed or not served is refused by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json
from starlette.requests import Request

from trainsmith.engine.server.openai.refusal import UNSUPPORTED, Refused

T = TypeVar("T", bound="Body")


class Body(BaseModel):
    """A request, or a part of one. Unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())


_NEUTRAL: dict[str, tuple[object, ...]] = {
    "allowed_token_ids": (),
    "audio": (),
    "bad_words": ([],),
    "best_of": (1,),
    "chat_template": (),
    "chat_template_kwargs": ({}, {"enable_thinking": False}),
    "content_parts": ([],),
    "continue_final_message": (False,),
    "documents": ([],),
    "echo": (False,),
    "extra_args": ({},),
    "features": (),
    "frequency_penalty": (0,),
    "function_call": ("none",),
    "functions": ([],),
    "guided_choice": (),
    "guided_grammar": (),
    "guided_json": (),
    "guided_regex": (),
    "include_stop_str_in_output": (False,),
    "kv_transfer_params": ({},),
    "length_penalty": (1,),
    "logit_bias": ({},),
    "min_p": (0,),
    "min_tokens": (0,),
    "modalities": (["text"],),
    "output_mode": ("tokens",),
    "prediction": (),
    "presence_penalty": (0,),
    "prompt_embeds": (),
    "reasoning_effort": ("none",),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "structured_outputs": (),
    "suffix": ("",),
    "truncate_prompt_tokens": (),
    "use_beam_search": (False,),
    "web_search_options": (),
}
"""Fields that the engine does not serve, with the values besides null that ask for nothing."""


async def read_body(request: Request, kind: type[T]) -> T:
    """The request's record. Raises Refused."""
    try:
        document = from_json(await request.body(), allow_inf_nan=False)
    except ValueError as error:
        raise Refused(f"the body is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise Refused("the body is not a JSON object")
    refuse_unserved(document)
    return parsed(document, kind)


def parsed(document: Mapping[str, Any], kind: type[T]) -> T:
    """A record from its JSON. Raises Refused with the first field that is wrong."""
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or None
        what = f"{field}: {first['msg']}" if field else first["msg"]
        raise Refused(what, param=field) from error


def refuse_unserved(document: Mapping[str, Any], served: Collection[str] = ()) -> None:
    """Raise Refused for a field that asks for what is not served here; `served` are exceptions."""
    for field in _NEUTRAL.keys() & document.keys() - set(served):
        value = document[field]
        if value is not None and value not in _NEUTRAL[field]:
            neutral = " or ".join(map(repr, _NEUTRAL[field]))
            hint = f"leave it out or set it to {neutral}" if neutral else "leave it out"
            raise Refused(f"{field} is not served here; {hint}", param=field, code=UNSUPPORTED)
