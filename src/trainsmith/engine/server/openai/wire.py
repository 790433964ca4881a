"""The JSON of replies, as OpenAI's and vLLM's servers write it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from trainsmith.engine.chat import ChatTokenizer
from trainsmith.engine.conversation import ToolCall

Json = dict[str, Any]


def new_id(prefix: str) -> str:
    """An id that no other reply has."""
    return f"{prefix}-{secrets.token_hex(12)}"


def usage(prompt: int, completion: int) -> Json:
    """Tokens read and sampled."""
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def logprobs(tokenizer: ChatTokenizer, tokens: Sequence[int], values: Sequence[float]) -> Json:
    """One entry a token, stop tokens included; only the sampled token's own logprob is known."""
    return {"content": [_logprob(tokenizer, *each) for each in zip(tokens, values, strict=True)]}


def generate_logprobs(tokens: Sequence[int], values: Sequence[float]) -> Json:
    """The same for vLLM's token endpoint: ids as text for older clients, as numbers for newer ones."""
    content = []
    for token, value in zip(tokens, values, strict=True):
        entry = {"token": f"token_id:{token}", "token_id": token, "logprob": value}
        content.append({**entry, "bytes": None, "top_logprobs": [entry]})
    return {"content": content}


def tool_call(call: ToolCall) -> Json:
    """A call of a message, with an id of its own."""
    return {
        "id": new_id("call"),
        "type": "function",
        "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
    }


def _logprob(tokenizer: ChatTokenizer, token: int, value: float) -> Json:
    raw = tokenizer.token_bytes(token)
    text = raw.decode("utf-8", errors="replace")
    return {"token": text, "logprob": value, "bytes": list(raw), "top_logprobs": []}


def legacy_logprobs(
    tokenizer: ChatTokenizer, tokens: Sequence[int], values: Sequence[float], start: int
) -> Json:
    """The older form, of `/v1/completions`; `start` is the length of the text told before."""
    texts = [tokenizer.token_bytes(token).decode("utf-8", errors="replace") for token in tokens]
    ends = list(accumulate(map(len, texts), initial=start))
    return {
        "tokens": texts,
        "token_logprobs": list(values),
        "text_offset": ends[:-1],
        "top_logprobs": [{text: value} for text, value in zip(texts, values, strict=True)],
    }
