"""One choice of a chat reply: tokens in, parts of the message out, the same whether streamed or whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trainsmith.engine.chat import ChatTokenizer
from trainsmith.engine.conversation import ToolCall
from trainsmith.engine.text_stream import StopCutter, TextStream
from trainsmith.engine.tool_reader import Part, ToolReader

Finish = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True)
class Reading:
    """How replies are read."""

    stops: tuple[str, ...] = ()
    tools: bool = False
    """Whether calls are looked for."""
    one_call: bool = False
    """Whether a reply ends with its first call."""


class Reply:
    """What one choice has said so far."""

    def __init__(self, tokenizer: ChatTokenizer, reading: Reading) -> None:
        self._text = TextStream(tokenizer.decode)
        self._cutter = StopCutter(reading.stops)
        self._reader = ToolReader() if reading.tools else None
        self._one_call = reading.one_call
        self.calls: list[ToolCall] = []
        self.content = ""
        self.over = False
        """Whether no later token can add anything."""

    def push(self, token: int) -> list[Part]:
        """The parts that this token completes."""
        return self._take(self._cutter.push(self._text.push(token)))

    def read(self, tokens: Sequence[int]) -> Reply:
        """All tokens of a whole reply, and its end."""
        for token in tokens:
            self.push(token)
        self.finish()
        return self

    def finish(self) -> list[Part]:
        """The last parts, once every token has come."""
        rest = self._cutter.push(self._text.finish()) + self._cutter.finish()
        return self._take(rest) + self._keep(self._reader.finish() if self._reader else [])

    def ended(self, finish: Literal["stop", "length"]) -> Finish:
        """The reason that clients read, from the engine's."""
        if self.over and self.calls:
            return "tool_calls"
        if self.over:
            return "stop"
        return "tool_calls" if self.calls and finish == "stop" else finish

    def _take(self, text: str) -> list[Part]:
        parts: list[Part] = [text] if text else []
        kept = self._keep(self._reader.push(text) if self._reader else parts)
        self.over = self.over or self._cutter.hit
        return kept

    def _keep(self, parts: list[Part]) -> list[Part]:
        kept: list[Part] = []
        for part in parts:
            if self.over:
                break
            kept.append(part)
            if isinstance(part, str):
                self.content += part
            else:
                self.calls.append(part)
                self.over = self._one_call
        return kept
