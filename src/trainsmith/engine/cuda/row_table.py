"""What the device knows of every row of a decode batch, at addresses that never change.

Rows stand in order at the front; the places after them hold padding, rows that are over and write nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainsmith.engine.cuda.attention_jobs import JOB_FIELDS, MAX_PARTS
from trainsmith.engine.cuda.kernels.choose import Drawing
from trainsmith.engine.cuda.kernels.decode_attention import DecodeRows

WINDOW = 16
"""Newest tokens of a row that are kept for the host; more than it lets pass between two looks."""

_PROMPT, _DRAWN, _LIMIT, _OWN, _PARTS, _TOP_K = range(6)
_PADDING = (0, 1, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class FreshRow:
    """A row that joins, before its first token is drawn."""

    prompt: int
    """Tokens of the prompt."""
    limit: int
    """Most tokens to sample."""
    own: int
    """First place of its own tokens."""
    seed: int
    temperature: float
    top_p: float
    top_k: int


class RowTable:
    """Room for `capacity` rows and all jobs that they may need."""

    def __init__(self, capacity: int, device: torch.device) -> None:
        self.capacity = capacity
        padding = torch.tensor(_PADDING, dtype=torch.int32, device=device)
        # Behind the rows lie those that are about to join, and then padding, for others to be filled from.
        # A multiple of 16, so that every field begins as aligned as the first.
        places = 2 * capacity + 16
        self._ints = padding[:, None].repeat(1, places)
        self._longs = torch.zeros(2, places, dtype=torch.int64, device=device)
        self._floats = torch.ones(2, places, dtype=torch.float32, device=device)
        self._tokens = torch.zeros(places, WINDOW, dtype=torch.int64, device=device)
        self._logprobs = torch.zeros(places, WINDOW, dtype=torch.float32, device=device)
        self._jobs = torch.zeros(MAX_PARTS * capacity, JOB_FIELDS, dtype=torch.int32, device=device)
        self._everyone = torch.arange(capacity, dtype=torch.int32, device=device)

    def arrange(self, order: NDArray[np.int64], fresh: Sequence[FreshRow], size: int) -> None:
        """Put rows in a new order and pad them to `size`.

        `order` holds their present places; the n-th fresh row's is `capacity + n`.
        """
        self._write(fresh)
        places = np.full(size, 2 * self.capacity, dtype=np.int64)
        places[: len(order)] = order
        index = torch.from_numpy(places).to(self._ints.device)
        for table in (self._ints, self._longs, self._floats):
            table[:, :size] = table[:, index]
        for window in (self._tokens, self._logprobs):
            window[:size] = window[index]

    def set_jobs(self, jobs_J5: NDArray[np.int32], parts_B: NDArray[np.int32], size: int) -> None:
        """The jobs, padded to `size` with empty ones, and the parts of each row."""
        table = np.zeros((size, JOB_FIELDS), dtype=np.int32)
        table[: len(jobs_J5)] = jobs_J5
        self._jobs[:size] = torch.from_numpy(table).to(self._jobs.device)
        self._ints[_PARTS, : len(parts_B)] = torch.from_numpy(parts_B).to(self._jobs.device)

    def decode_rows(self, size: int, jobs: int) -> DecodeRows:
        """The first `size` rows and `jobs` jobs, as attention reads them."""
        ints = self._ints[:, :size]
        return DecodeRows(
            ints[_PROMPT], ints[_DRAWN], ints[_LIMIT], ints[_OWN], ints[_PARTS], self._jobs[:jobs]
        )

    def everyone(self, size: int) -> Tensor:
        """The places [size] of the first rows."""
        return self._everyone[:size]

    def drawing(self) -> Drawing:
        """All places, as the choice of tokens reads and writes them."""
        return Drawing(
            self._floats[0],
            self._floats[1],
            self._ints[_TOP_K],
            self._longs[0],
            self._ints[_LIMIT],
            self._longs[1],
            self._ints[_DRAWN],
            self._tokens,
            self._logprobs,
        )

    def newest(self, size: int) -> tuple[Tensor, Tensor]:
        """Tokens and logprobs [size, W]: a row's n-th token at n modulo W."""
        return self._tokens[:size], self._logprobs[:size]

    def tokens(self, size: int) -> Tensor:
        """The newest token [size] of each row."""
        return self._longs[1, :size]

    def _write(self, fresh: Sequence[FreshRow]) -> None:
        if not fresh:
            return
        first, stop = self.capacity, self.capacity + len(fresh)
        ints = [(row.prompt, 0, row.limit, row.own, 0, row.top_k) for row in fresh]
        seeds = np.array([row.seed % 2**64 for row in fresh], dtype=np.uint64).view(np.int64)
        floats = [(row.temperature, row.top_p) for row in fresh]
        device = self._ints.device
        self._ints[:, first:stop] = torch.tensor(ints, dtype=torch.int32).t().to(device)
        self._longs[0, first:stop] = torch.from_numpy(seeds).to(device)
        self._floats[:, first:stop] = torch.tensor(floats, dtype=torch.float32).t().to(device)
