"""The rows that decode together on a CUDA GPU: captured steps, several between two looks from the host.

While the host hands out the tokens of some steps, the device runs the next ones. What a row draws after its
end is thrown away. All decisions follow from the requests alone, so equal runs give
equal tokens, bit for bit.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainsmith.bases.architecture import Architecture
from trainsmith.engine.cuda.arena import Lease, shared_arena
from trainsmith.engine.cuda.attention_jobs import Group, attention_jobs
from trainsmith.engine.cuda.decode_step import DecodeStep, StepSize
from trainsmith.engine.cuda.graphs import Graph, Mark, shared_graphs
from trainsmith.engine.cuda.kernels.choose import choose
from trainsmith.engine.cuda.prompt_store import CachedPrompt, PromptStore
from trainsmith.engine.cuda.row_table import WINDOW, FreshRow, RowTable
from trainsmith.engine.cuda.sizes import rounded_rows
from trainsmith.engine.decode_loop import Drawn, Row
from trainsmith.engine.decoder import logits_of
from trainsmith.engine.network import Network
from trainsmith.engine.prefill import PromptReader
from trainsmith.engine.rotary import Rotary

CAPACITY = 2048
"""Most rows at once: a step's time hardly depends on their number until there are hundreds."""
STEPS = 4
"""Steps between two looks from the host."""
_HEAD_ROWS = 512
"""Prompts whose first logits exist at once."""


@dataclass(slots=True, eq=False)
class _Live:
    """A row on its way."""

    row: Row
    prompt: CachedPrompt
    own: int
    place: int
    """In the table of rows."""
    scheduled: int = 1
    """Tokens that the launched work draws."""
    landed: int = 0
    """Tokens that came back."""
    over: bool = False
    """It has drawn all that is wanted of it."""

    @property
    def limit(self) -> int:
        return self.row.request.max_tokens


@dataclass(frozen=True, slots=True)
class _Flight:
    """Launched steps: on their landing the host finds each row's newest tokens."""

    rows: list[_Live]
    """In the order of the table."""
    ends: list[int]
    """Tokens that each row has drawn by then."""
    tokens_BW: Tensor
    logprobs_BW: Tensor
    landed: Mark


@dataclass(frozen=True, slots=True)
class _Landed:
    """Tokens that came back, [B, steps], and which of them belong to rows that were not over."""

    rows: list[_Live]
    tokens: NDArray[np.int64]
    logprobs: NDArray[np.float32]
    present: NDArray[np.bool_]

    def steps(self) -> Iterator[Drawn]:
        """What was drawn, step by step."""
        columns = (side.T.tolist() for side in (self.tokens, self.logprobs, self.present))
        for step in zip(*columns, strict=True):
            entries = zip(self.rows, *step, strict=True)
            yield [(live.row, token, log) for live, token, log, here in entries if here]


class CudaDecodeLoop:
    """Decodes rows over one network's weights, which may change in place while no row is alive."""

    def __init__(self, network: Network, a: Architecture, rotary: Rotary, stop: frozenset[int]) -> None:
        """`stop` are the model's own stop tokens."""
        self._network, self._stop = network, stop
        device = network.norm.device
        dtype = torch.bfloat16 if network.reduced else torch.float32
        self._arena = shared_arena(a, dtype, device)
        self._lease = Lease(self._arena)
        self._reader = PromptReader(network, a, rotary)
        self._prompts = PromptStore(network, a, rotary, self._lease)
        self._step = DecodeStep(network, a, rotary.tables)
        self._table = RowTable(CAPACITY, device)
        self._live: dict[Row, _Live] = {}
        """Until they are released."""
        self._rows: list[_Live] = []
        """In the order of the table."""
        self._size = StepSize(0, 0, 0)
        self._flight: _Flight | None = None
        self._ready: deque[Drawn] = deque()
        self._dirty = False
        """Whether ready tokens belong to rows that are released."""
        self._owner = object()
        weakref.finalize(self, shared_graphs().forget, self._owner)
        weakref.finalize(self, self._lease.close)

    @property
    def free_places(self) -> int:
        """Cached tokens that there is room for, as the caches are."""
        return self._arena.ranges.free

    def fitting(self, waiting: Sequence[Row]) -> int:
        """How many of the first waiting rows can join now: at least one when no row is live."""
        ranges = self._arena.ranges
        spare = max(self._arena.most, ranges.size) - ranges.size + ranges.free
        most = min(len(waiting), CAPACITY - len(self._live))
        prompts: set[tuple[int, ...]] = set()
        for count, row in enumerate(islice(waiting, most)):
            request = row.request
            spare -= request.max_tokens + (0 if request.prompt in prompts else len(request.prompt))
            prompts.add(request.prompt)
            if spare < 0 and (count or self._live):
                return count
        return most

    @torch.no_grad()
    def admit(self, rows: Sequence[Row]) -> None:
        """Read the prompts and draw each row's first token; it comes back with the next tokens of all."""
        self._score(rows)
        prompts = self._prompts.take([row.request.prompt for row in rows])
        joined = []
        for number, (row, prompt) in enumerate(zip(rows, prompts, strict=True)):
            own = self._lease.take(row.request.max_tokens - 1)
            joined.append(_Live(row, prompt, own, CAPACITY + number))
        self._arrange(joined)
        self._draw_first(joined)

    def step(self) -> Drawn:
        """The next token of each row that is not over."""
        if not self._ready:
            flight = self._flight or self._launch()
            landed = None if flight is None else self._land(flight)
            # The device goes on while the host lays out what came.
            self._flight = self._launch()
            self._ready.extend(landed.steps() if landed is not None else ())
        drawn = self._ready.popleft() if self._ready else []
        if self._dirty:
            drawn = [entry for entry in drawn if entry[0] in self._live]
        return drawn

    def release(self, rows: Sequence[Row]) -> None:
        """These rows are over, or nobody wants them any more."""
        for row in rows:
            live = self._live.pop(row)
            live.over = True
            self._dirty = bool(self._ready)
            self._lease.give(live.own, live.limit - 1)
            self._prompts.give(row.request.prompt)

    def _score(self, rows: Sequence[Row]) -> None:
        """Set the logprobs of prompts that ask for them, each read by itself."""
        for row in rows:
            if row.request.prompt_logprobs:
                (read,) = self._reader.read([row.request.prompt], [True])
                row.prompt_logprobs = read.logprobs

    def _arrange(self, joined: Sequence[_Live] = ()) -> None:
        """Order the table by prompt, without the rows that are over and with those that join."""
        rows = [live for live in self._rows if not live.over]
        rows = sorted((*rows, *joined), key=lambda live: live.prompt.number)
        groups = [
            Group(same[0].prompt.segments, len(same))
            for same in (list(run) for _, run in groupby(rows, key=lambda live: live.prompt.number))
        ]
        jobs, parts = attention_jobs(groups, self._step.shape.job_rows)
        self._size = _size(len(rows), len(jobs), int(parts.max(initial=1)))
        fresh = [_fresh(live) for live in joined]
        self._table.arrange(np.array([live.place for live in rows], dtype=np.int64), fresh, self._size.rows)
        self._table.set_jobs(jobs, parts, self._size.jobs)
        for place, live in enumerate(rows):
            live.place = place
        self._rows = rows
        self._live |= {live.row: live for live in joined}

    def _draw_first(self, joined: Sequence[_Live]) -> None:
        by_prompt: dict[int, list[_Live]] = {}
        for live in joined:
            by_prompt.setdefault(live.prompt.number, []).append(live)
        groups = list(by_prompt.values())
        for start in range(0, len(groups), _HEAD_ROWS):
            chunk = groups[start : start + _HEAD_ROWS]
            normed = [rows[0].prompt.normed_D for rows in chunk]
            logits = logits_of(self._network, torch.stack([row for row in normed if row is not None]))
            pairs = [(source, live.place) for source, rows in enumerate(chunk) for live in rows]
            source, place = torch.tensor(pairs, dtype=torch.int32).t().contiguous().to(logits.device)
            choose(logits, source, place, self._table.drawing())

    def _launch(self) -> _Flight | None:
        """Start the next steps, unless every row has drawn its last token."""
        alive = sum(not live.over for live in self._rows)
        if alive == 0:
            return None
        if rounded_rows(alive) < self._size.rows:
            self._arrange()
        steps = min(STEPS, max(live.limit - live.scheduled for live in self._rows if not live.over))
        for _ in range(steps):
            self._graph().replay()
        for live in self._rows:
            live.scheduled = min(live.limit, live.scheduled + steps)
        return self._take_off()

    def _take_off(self) -> _Flight:
        tokens, logprobs = (
            torch.empty(side.shape, dtype=side.dtype, pin_memory=side.is_cuda).copy_(side, non_blocking=True)
            for side in self._table.newest(len(self._rows))
        )
        ends = [live.scheduled for live in self._rows]
        return _Flight(self._rows, ends, tokens, logprobs, shared_graphs().mark())

    def _land(self, flight: _Flight) -> _Landed:
        """Wait for the launched steps, and mark the rows that are over with them."""
        self._dirty = False
        flight.landed.synchronize()
        rows, ends = flight.rows, np.array(flight.ends)
        begins = np.array([live.landed for live in rows])
        numbers = begins[:, None] + np.arange(int((ends - begins).max(initial=0)))
        tokens, logprobs = (
            np.take_along_axis(side.numpy(), numbers % WINDOW, axis=1)
            for side in (flight.tokens_BW, flight.logprobs_BW)
        )
        wanted = np.array([live.row in self._live for live in rows])
        stops = self._stops(rows, tokens)
        present = (numbers < ends[:, None]) & (np.cumsum(stops, axis=1) - stops == 0) & wanted[:, None]
        ended = (stops & present).any(axis=1)
        for live, end, stopped in zip(rows, flight.ends, ended.tolist(), strict=True):
            live.landed = end
            live.over |= stopped or end == live.limit
        return _Landed(rows, tokens, logprobs, present)

    def _stops(self, rows: Sequence[_Live], tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the tokens [B, steps] end their rows."""
        wanted = [live.row.request.stop_tokens for live in rows]
        found = np.zeros(tokens.shape, dtype=np.bool_)
        for stop in set(wanted):
            mine = np.array([each == stop for each in wanted])
            ids = np.array(sorted(self._stop if stop is None else stop), dtype=np.int64)
            found[mine] = np.isin(tokens[mine], ids)
        return found

    def _graph(self) -> Graph:
        arena, size = self._arena, self._size

        def warm_up() -> None:
            self._step.run(RowTable(CAPACITY, self._network.norm.device), arena, size)

        def body() -> None:
            self._step.run(self._table, arena, size)

        return shared_graphs().get((self._owner, arena.generation, size), warm_up, body)


def _fresh(live: _Live) -> FreshRow:
    request = live.row.request
    return FreshRow(
        prompt=len(request.prompt),
        limit=request.max_tokens,
        own=live.own,
        seed=request.seed,
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=request.top_k,
    )


def _size(rows: int, jobs: int, parts: int) -> StepSize:
    """Few sizes, so that few graphs serve all batches."""
    size = rounded_rows(rows)
    room = max(32, size // 4)
    while room < jobs:
        room *= 2
    return StepSize(size, room, 2 if parts <= 2 else 4 if parts <= 4 else 16)
