"""When a reply is over. Free of torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from trainsmith.engine.records import SampleRequest

Decode = Callable[[Sequence[int]], str]

_MARGIN = 8
"""Tokens read before the longest possible stop string: a text that begins in mid-character is harmless."""


class Stopping:
    """The rule of one request. `own` are the model's own stop tokens, `decode` turns tokens into text."""

    def __init__(self, request: SampleRequest, own: frozenset[int], decode: Decode) -> None:
        self._tokens = own if request.stop_tokens is None else frozenset(request.stop_tokens)
        self._strings = request.stop_strings
        self._limit = request.max_tokens
        self._decode = decode
        # A token has a byte at least, so the newest match lies within as many tokens as the string has bytes.
        self._window = max((len(text.encode()) for text in request.stop_strings), default=0) + _MARGIN

    def finish(self, tokens: Sequence[int]) -> Literal["stop", "length"] | None:
        """Why the reply is over with its newest token; None when it is not."""
        if tokens[-1] in self._tokens or self._completes(tokens):
            return "stop"
        return "length" if len(tokens) >= self._limit else None

    def _completes(self, tokens: Sequence[int]) -> bool:
        if not self._strings:
            return False
        text = self._decode(tokens[-self._window :])
        return any(string in text for string in self._strings)
