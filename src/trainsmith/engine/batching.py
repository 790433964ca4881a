"""Which requests are decoded together, and which prompts read together, within bounds of memory. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainsmith.engine.records import SampleRequest
from trainsmith.engine.token_tree import Indices, common_prefix


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Bounds of one decode batch."""

    rows: int
    cache_bytes: int
    """Keys and values of prompts and new tokens; a single request may need more."""
    prefill_tokens: int
    """Packed prompt tokens of one forward pass; a single prompt may have more."""


def batches(requests: Sequence[SampleRequest], limits: BatchLimits, token_bytes: int) -> list[list[int]]:
    """Indices of requests, batch by batch. Prompts of like length come together, since tails are padded.

    `token_bytes` is the size of one token's keys and values.
    """
    room = limits.cache_bytes // token_bytes
    order = sorted(range(len(requests)), key=lambda i: (len(requests[i].prompt), requests[i].prompt))
    result: list[list[int]] = []
    prompts: set[tuple[int, ...]] = set()
    longest_reply = 0
    for index in order:
        request = requests[index]
        prompts.add(request.prompt)
        longest_reply = max(longest_reply, request.max_tokens)
        rows = len(result[-1]) + 1 if result else 1
        # Ascending lengths: this prompt is the longest so far, and all are padded to it.
        need = len(prompts) * len(request.prompt) + rows * longest_reply
        if not result or rows > limits.rows or need > room:
            result.append([])
            prompts, longest_reply = {request.prompt}, request.max_tokens
        result[-1].append(index)
    return result


def shared_header(prompts: Sequence[tuple[int, ...]]) -> int:
    """Tokens that all of these sorted prompts share, at least one less than the shortest has.

    Each prompt keeps a token of its own, from which its first logits come.
    """
    first, last = np.asarray(prompts[0]), np.asarray(prompts[-1])
    # Of sorted prompts the first and the last share the least.
    return min(common_prefix(first, last), min(map(len, prompts)) - 1)


def prefill_chunks(prompts: Sequence[tuple[int, ...]], limit: int) -> list[list[int]]:
    """Indices of sorted prompts, in chunks whose packed trees hold at most `limit` tokens."""
    chunks: list[list[int]] = []
    size = 0
    previous: Indices = np.empty(0, dtype=np.int64)
    for index, prompt in enumerate(prompts):
        current = np.asarray(prompt, dtype=np.int64)
        fresh = len(prompt) - common_prefix(previous, current)
        if not chunks or size + fresh > limit:
            chunks.append([])
            size, fresh = 0, len(prompt)
        chunks[-1].append(index)
        size, previous = size + fresh, current
    return chunks
