"""Tool calls and the text around them, read out of a reply while it comes."""

from __future__ import annotations

from trainsmith.engine.conversation import ToolCall
from trainsmith.engine.hermes import CLOSE, OPEN, Malformed, read_call
from trainsmith.engine.text_stream import held_back

Part = str | ToolCall


class ToolReader:
    """Text and calls in order. White space around calls is dropped; a malformed call stays text as it is."""

    def __init__(self) -> None:
        self._rest = ""
        """What is not told yet: the beginning of a call, or what may become one."""
        self._gap = ""
        """White space that is told only if more text follows."""
        self._spoken = False
        self._after_call = False

    def push(self, text: str) -> list[Part]:
        """What can be told now."""
        self._rest += text
        parts: list[Part] = []
        while self._rest:
            before = len(self._rest)
            parts += self._call() if self._rest.startswith(OPEN) else self._text()
            if len(self._rest) == before:
                break
        return parts

    def finish(self) -> list[Part]:
        """What is left: an unclosed call is text, and a later one that it hides is found."""
        parts: list[Part] = []
        while self._rest.startswith(OPEN):
            self._rest = self._rest[len(OPEN) :]
            parts += [*self._tell(OPEN), *self.push("")]
        parts += self._tell(self._rest)
        if self._gap and not self._after_call:
            parts.append(self._gap)
        self._rest = self._gap = ""
        return parts

    def _text(self) -> list[Part]:
        """Everything up to the next tag, or what may become one."""
        at = self._rest.find(OPEN)
        end = at if at >= 0 else len(self._rest) - held_back(self._rest, OPEN)
        text, self._rest = self._rest[:end], self._rest[end:]
        return self._tell(text)

    def _call(self) -> list[Part]:
        """The call that begins here, once it is closed."""
        end = self._rest.find(CLOSE, len(OPEN))
        while end >= 0:
            try:
                call = read_call(self._rest[len(OPEN) : end])
            except Malformed as error:
                if not error.unfinished:
                    self._rest = self._rest[len(OPEN) :]
                    return self._tell(OPEN)
                end = self._rest.find(CLOSE, end + len(CLOSE))
            else:
                self._rest = self._rest[end + len(CLOSE) :]
                self._after_call = True
                self._gap = self._gap if self._spoken else ""
                return [call]
        return []

    def _tell(self, text: str) -> list[Part]:
        """The text with the gap before it; its own end may be the next gap."""
        text = text.lstrip() if self._after_call else text
        solid = text.rstrip()
        if not solid:
            self._gap += text
            return []
        told, self._gap = self._gap + solid, text[len(solid) :]
        self._spoken, self._after_call = True, False
        return [told]
