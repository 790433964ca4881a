"""A reply's text while its tokens come: whole characters only, and nothing of a stop string."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_BROKEN = "\ufffd"
"""What an unfinished character decodes to."""


class TextStream:
    """Text that grows token by token; its parts together are what decoding all tokens at once gives."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._told: list[int] = []
        """The tokens of the last part: the decoder may treat a text's beginning differently."""
        self._new: list[int] = []

    def push(self, token: int) -> str:
        """What can be told now; empty while a character is unfinished."""
        self._new.append(token)
        text = self._fresh()
        if not text or text.endswith(_BROKEN):
            return ""
        self._told, self._new = self._new, []
        return text

    def finish(self) -> str:
        """What is left, unfinished or not."""
        text = self._fresh() if self._new else ""
        self._new = []
        return text

    def _fresh(self) -> str:
        return self._decode(self._told + self._new)[len(self._decode(self._told)) :]


class StopCutter:
    """Passes text on up to the first stop string; what may become one waits."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._waiting = ""
        self.hit = False
        """Whether a stop string has come: nothing more passes."""

    def push(self, text: str) -> str:
        """The text that is no part of a stop string."""
        if self.hit:
            return ""
        text = self._waiting + text
        found = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.hit, self._waiting = True, ""
            return text[: min(found)]
        keep = max((held_back(text, stop) for stop in self._stops), default=0)
        self._waiting = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        """What waited in vain."""
        text, self._waiting = self._waiting, ""
        return text


def held_back(text: str, mark: str) -> int:
    """Length of the longest end of `text` that is a true beginning of `mark`."""
    for size in range(min(len(text), len(mark) - 1), 0, -1):
        if mark.startswith(text[-size:]):
            return size
    return 0
