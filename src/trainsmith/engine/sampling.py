"""Sampling with continuous batching: requests join the rows that are decoding, and leave when they are done.

    completions = sampler.sample(requests)        # all at once

    row = sampler.submit(request, listener)       # or one by one
    while sampler.step():
        ...

Not thread-safe: whoever owns the sampler calls it from one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from trainsmith.engine.batching import BatchLimits
from trainsmith.engine.decode_loop import DecodeLoop, Listener, Row
from trainsmith.engine.failure import NotFinite
from trainsmith.engine.records import Completion, SampleRequest
from trainsmith.engine.stopping import Decode, Stopping

CPU_LIMITS = BatchLimits(rows=256, cache_bytes=2**30, prefill_tokens=4096)
"""More rows gain little on a CPU."""
GPU_LIMITS = BatchLimits(rows=2048, cache_bytes=8 * 2**30, prefill_tokens=16384)
"""A step's time hardly depends on the number of rows."""
_TOGETHER = 8
"""Rows join live ones when they are an eighth as many, or all that wait: few small prefills."""


class Sampler:
    """Samples over one decode loop. Weights may change while no row is on its way."""

    def __init__(self, make_loop: Callable[[], DecodeLoop], stop: frozenset[int], decode: Decode) -> None:
        """`stop` are the model's own stop tokens, `decode` turns tokens into text."""
        self._make_loop = make_loop
        self._stop, self._decode = stop, decode
        self.loop = make_loop()
        """What keeps the rows' caches."""
        self._waiting: deque[Row] = deque()
        self._live: dict[Row, Stopping] = {}

    def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        """One completion a request, in order. Rows that were submitted before go on meanwhile."""
        gathered = [_Gathered() for _ in requests]
        # Prompts of like length come together, since tails are padded.
        order = sorted(range(len(requests)), key=lambda i: (len(requests[i].prompt), requests[i].prompt))
        for index in order:
            self.submit(requests[index], gathered[index])
        while any(each.completion is None for each in gathered):
            self.step()
        return [each.completion for each in gathered if each.completion is not None]

    def submit(self, request: SampleRequest, listener: Listener) -> Row:
        """Let a request join as soon as there is room; the row is its ticket for `cancel`."""
        row = Row(request, listener)
        self._waiting.append(row)
        return row

    def cancel(self, row: Row) -> None:
        """Forget a row, if it is not complete; its listener hears no more."""
        if row in self._live:
            del self._live[row]
            self.loop.release([row])
        elif row in self._waiting:
            self._waiting.remove(row)

    def step(self) -> bool:
        """Let waiting rows join, and draw a token for each live one. False when there is none.

        After an exception all rows are forgotten.
        """
        try:
            self._admit()
            if not self._live:
                return False
            self._step()
        except BaseException:
            self._waiting.clear()
            self._live.clear()
            self.loop = self._make_loop()
            raise
        return True

    def _admit(self) -> None:
        count = self.loop.fitting(self._waiting) if self._waiting else 0
        if self._live and count < min(len(self._waiting), 1 + len(self._live) // _TOGETHER):
            return
        rows = [self._waiting.popleft() for _ in range(count)]
        if rows:
            self._live |= {row: Stopping(row.request, self._stop, self._decode) for row in rows}
            self.loop.admit(rows)

    def _step(self) -> None:
        over: list[tuple[Row, Literal["stop", "length"]]] = []
        drawn = self.loop.step()
        if not all(isfinite(logprob) for _, _, logprob in drawn):
            raise NotFinite  # a GPU's loop cannot say so itself without waiting for it
        for row, token, logprob in drawn:
            row.tokens.append(token)
            row.logprobs.append(logprob)
            finish = self._live[row].finish(row.tokens)
            if finish is not None:
                over.append((row, finish))
        for row, _ in over:
            del self._live[row]
        self.loop.release([row for row, _ in over])
        for row, token, logprob in drawn:
            row.listener.on_token(token, logprob)
        for row, finish in over:
            done = Completion(tuple(row.tokens), tuple(row.logprobs), finish, row.prompt_logprobs)
            row.listener.on_done(done)


@dataclass(slots=True)
class _Gathered:
    """Keeps the completion alone."""

    completion: Completion | None = None

    def on_token(self, token: int, logprob: float) -> None:
        """Only the completion counts."""

    def on_done(self, completion: Completion) -> None:
        self.completion = completion
