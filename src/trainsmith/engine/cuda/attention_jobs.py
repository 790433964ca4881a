"""The jobs of prompt attention: which rows read which tokens together. Free of torch.

Rows lie in order, so that rows of one prompt, and prompts of one header, are neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

JOB_FIELDS = 5
"""first row, rows, first token, tokens, part."""
MAX_PARTS = 16
"""Parts that the attention to one prompt may be cut into."""
PART_TOKENS = 256
"""A longer range is read by several programs side by side."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Cached tokens [first, first + count) that some rows share."""

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbouring rows of one prompt, and where the prompt lies, a shared header first."""

    segments: tuple[Segment, ...]
    rows: int


def attention_jobs(groups: Sequence[Group], job_rows: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Jobs [J, 5] as the kernel reads them, and the number of parts of each row [B]."""
    pieces = [_pieces(group.segments) for group in groups]
    jobs = [
        job
        for part in range(max(map(len, pieces), default=0))
        for job in _jobs(groups, pieces, part, job_rows)
    ]
    parts = np.repeat(
        np.array([len(own) for own in pieces], dtype=np.int32), [group.rows for group in groups]
    )
    return np.array(jobs, dtype=np.int32).reshape(-1, JOB_FIELDS), parts


def _jobs(
    groups: Sequence[Group], pieces: Sequence[tuple[Segment, ...]], part: int, job_rows: int
) -> Iterator[tuple[int, int, int, int, int]]:
    """The jobs of one part: neighbouring groups that read the same piece are served together."""
    runs: list[tuple[Segment | None, int, int]] = []
    row = 0
    for group, own in zip(groups, pieces, strict=True):
        piece = own[part] if part < len(own) else None
        if runs and runs[-1][0] == piece:
            runs[-1] = (piece, runs[-1][1], row + group.rows)
        else:
            runs.append((piece, row, row + group.rows))
        row += group.rows
    for piece, start, stop in runs:
        if piece is not None:
            for first in range(start, stop, job_rows):
                yield first, min(job_rows, stop - first), piece.first, piece.count, part


def _pieces(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """The segments cut into at most MAX_PARTS pieces."""
    total = sum(segment.count for segment in segments)
    size = max(PART_TOKENS, -(-total // max(1, MAX_PARTS - len(segments))))
    return tuple(
        Segment(segment.first + first, min(size, segment.count - first))
        for segment in segments
        for first in range(0, segment.count, size)
    )
