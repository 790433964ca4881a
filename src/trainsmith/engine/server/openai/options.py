"""How to sample, as all three protocols say it, and the engine's requests made from it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field, field_validator

from trainsmith import seeds
from trainsmith.engine.records import SampleRequest
from trainsmith.engine.server.openai.body import Body
from trainsmith.engine.server.openai.refusal import CONTEXT, Refused

DEFAULT_MAX_TOKENS = 2048
"""Without a limit a reply ends here, or where the context does."""
MOST_CHOICES = 128
_MOST_STOPS = 16

Stop = Annotated[str, Field(min_length=1, max_length=1000)]


class Options(Body):
    """Fields of OpenAI's requests and of vLLM's `SamplingParams`; None is the default."""

    temperature: float | None = Field(None, ge=0, allow_inf_nan=False)
    top_p: float | None = Field(None, gt=0, le=1, allow_inf_nan=False)
    top_k: int | None = Field(None, ge=-1)
    """0 and -1 are all tokens."""
    n: int | None = Field(None, ge=1, le=MOST_CHOICES)
    seed: int | None = Field(None, ge=-(2**63), le=2**63 - 1)
    stop: tuple[Stop, ...] = Field((), max_length=_MOST_STOPS)
    stop_token_ids: tuple[int, ...] | None = Field(None, max_length=1000)
    """Beside the model's own."""
    ignore_eos: bool | None = None
    """The model's own stop tokens do not end the reply."""
    max_tokens: int | None = Field(None, ge=1)

    @field_validator("stop", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        if value is None:
            return ()
        return (value,) if isinstance(value, str) else value

    @property
    def limit(self) -> int | None:
        """The longest reply in tokens that the client asked for."""
        return self.max_tokens


def sample_requests(
    options: Options, prompt: tuple[int, ...], own_stops: frozenset[int], context: int
) -> list[SampleRequest]:
    """One request a choice. Raises Refused when prompt and reply exceed the context.

    The first choice has the client's seed, so it is the same whatever `n` is.
    """
    seed = secrets.randbits(63) if options.seed is None else options.seed
    first = SampleRequest(
        prompt=prompt,
        max_tokens=_room(options.limit, len(prompt), context),
        temperature=1.0 if options.temperature is None else options.temperature,
        seed=seed,
        top_p=1.0 if options.top_p is None else options.top_p,
        top_k=max(0, options.top_k or 0),
        stop_tokens=_stop_tokens(options, own_stops),
        stop_strings=options.stop,
    )
    others = range(1, options.n or 1)
    return [first, *(replace(first, seed=seeds.derive("choice", seed, index)) for index in others)]


def check_tokens(tokens: Sequence[int], vocabulary: int, param: str) -> None:
    """Raise Refused for a token that the model does not have."""
    if tokens and not (min(tokens) >= 0 and max(tokens) < vocabulary):
        raise Refused(f"{param}: every token must be from 0 to {vocabulary - 1}", param=param)


def _stop_tokens(options: Options, own: frozenset[int]) -> tuple[int, ...] | None:
    named = frozenset(options.stop_token_ids or ())
    if options.ignore_eos:
        return tuple(sorted(named))
    return tuple(sorted(named | own)) if named else None


def _room(wanted: int | None, prompt: int, context: int) -> int:
    """Tokens of the longest reply."""
    left = context - prompt
    if wanted is None and left > 0:
        return min(left, DEFAULT_MAX_TOKENS)
    if wanted is None or wanted > left:
        asked = f"{prompt} in the prompt" + (f" and {wanted} for the reply" if wanted else "")
        what = f"the maximum context length is {context} tokens, but you requested {asked}"
        raise Refused(f"{what}. Shorten the prompt or lower max_tokens", code=CONTEXT)
    return wanted
