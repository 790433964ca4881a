"""Captured CUDA graphs in one pool of memory: the least recently used are dropped beyond a bound.

All graphs run on one stream, one after the other, and leave nothing in the pool that another reads: so the
pool is as large as the largest of them and not as their sum. Without a GPU nothing is captured and a replay
simply runs: so tests can follow the logic in Triton's interpreter.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

import torch

MOST_GRAPHS = 96


class Graph(Protocol):
    """Work that can be launched again."""

    def replay(self) -> None:
        """Launch it on the current stream."""


class Mark(Protocol):
    """A point in the launched work."""

    def synchronize(self) -> None:
        """Wait until the device is past it."""


@dataclass(frozen=True, slots=True)
class _Eager:
    """Graph and mark where there is no GPU."""

    body: Callable[[], None]

    def replay(self) -> None:
        self.body()

    def synchronize(self) -> None:
        """Everything launched has run."""


class GraphCache:
    """Graphs by key. A key's graph reads and writes the same tensors at every replay."""

    def __init__(self, most: int = MOST_GRAPHS, *, captures: bool | None = None) -> None:
        """`captures` is by default whether there is a GPU."""
        self._most = most
        self._graphs: OrderedDict[Hashable, Graph] = OrderedDict()
        self._captures = torch.cuda.is_available() if captures is None else captures
        if self._captures:
            self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        return len(self._graphs)

    def holds(self, key: Hashable) -> bool:
        """Whether the key's graph is kept."""
        return key in self._graphs

    def get(self, key: Hashable, warm_up: Callable[[], None], body: Callable[[], None]) -> Graph:
        """The key's graph, captured from `body` if need be. `warm_up` runs before, to compile what it calls.

        `warm_up` must launch what `body` launches, at the same sizes, without touching what is alive.
        """
        graph = self._graphs.get(key)
        if graph is None:
            self._drop(self._most - 1)
            graph = self._capture(warm_up, body) if self._captures else _Eager(body)
            self._graphs[key] = graph
        self._graphs.move_to_end(key)
        return graph

    def mark(self) -> Mark:
        """The present end of the launched work."""
        if not self._captures:
            return _Eager(lambda: None)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        return event

    def forget(self, owner: Hashable) -> None:
        """Drop the graphs whose key is a tuple that begins with `owner`."""
        for key in [key for key in self._graphs if isinstance(key, tuple) and key[0] == owner]:
            self._remove(key)

    def _drop(self, keep: int) -> None:
        while len(self._graphs) > keep:
            self._remove(next(iter(self._graphs)))

    def _remove(self, key: Hashable) -> None:
        if self._captures:
            torch.cuda.synchronize()
        del self._graphs[key]

    def _capture(self, warm_up: Callable[[], None], body: Callable[[], None]) -> torch.cuda.CUDAGraph:
        if not self._graphs:
            # A pool ends with the last graph of it.
            self._pool = torch.cuda.graph_pool_handle()
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        graph = torch.cuda.CUDAGraph()
        # Not `torch.cuda.graph`: it collects garbage and returns all cached memory at every capture.
        with torch.cuda.stream(self._stream):
            warm_up()
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                body()
            finally:
                graph.capture_end()
        current.wait_stream(self._stream)
        return graph


_shared: list[GraphCache] = []


def shared_graphs() -> GraphCache:
    """The process's graphs."""
    if not _shared:
        _shared.append(GraphCache())
    return _shared[0]
