"""Rows that decode together, as the sampler sees them. What keeps their caches stands behind `DecodeLoop`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from trainsmith.engine.records import Completion, SampleRequest


class Listener(Protocol):
    """Whoever asked for a row. Called on the sampler's thread."""

    def on_token(self, token: int, logprob: float) -> None:
        """A token was sampled."""

    def on_done(self, completion: Completion) -> None:
        """The row is complete."""


@dataclass(eq=False, slots=True)
class Row:
    """One request on its way."""

    request: SampleRequest
    listener: Listener
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    prompt_logprobs: tuple[float | None, ...] | None = None


Drawn = list[tuple[Row, int, float]]
"""A token and its logprob for some rows, at most one for each."""


class DecodeLoop(Protocol):
    """Holds the caches of live rows. A row is live from `admit` to `release`."""

    def fitting(self, waiting: Sequence[Row]) -> int:
        """How many of the first waiting rows can join now: at least one when no row is live."""

    def admit(self, rows: Sequence[Row]) -> None:
        """Let rows join: they take part from the next step on. Sets their prompts' logprobs if asked for."""

    def step(self) -> Drawn:
        """Draw a token for live rows; none for a row that has `max_tokens` already."""

    def release(self, rows: Sequence[Row]) -> None:
        """These rows are over."""
