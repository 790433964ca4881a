"""Attention of one new token a row, in two kernels: over shared prompts, then over the row's own tokens.

A job of the first kernel is a block of rows and a range of tokens that all of them see: it reads the range
once for the whole block and leaves a part of the attention with its log-sum-exp. The second kernel writes the
new token's key and value, attends to the row's own tokens and adds the parts. Both turn the projections'
output (head norm, rotary positions) as they load it.
Shapes: B rows, H query heads, G key-value heads, R = H / G, K head size, J jobs, Z parts, T cached tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from trainsmith.engine.cuda.kernels.shares import weighted

PREFIX_WARPS = 4
OWN_WARPS = 1
"""Warps of a program, measured: one row's tile is small, and more rows at once hide its waits."""


@triton.jit
def _rotated(
    SOURCE,
    NORM,
    COS,
    SIN,
    head,
    position,
    inside,
    epsilon,
    K: tl.constexpr,
    BK: tl.constexpr,
    NORMED: tl.constexpr,
):
    """Rows [M, BK] of SOURCE at offsets `head`, normed and rotated to `position`; zero where not inside."""
    column = tl.arange(0, BK)[None, :]
    partner = (column + K // 2) % K
    here = inside & (column < K)
    x = tl.load(SOURCE + head + column, mask=here, other=0.0).to(tl.float32)
    y = tl.load(SOURCE + head + partner, mask=here, other=0.0).to(tl.float32)
    if NORMED:
        scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=1) / K + epsilon)[:, None]
        x = x * scale * tl.load(NORM + column, mask=column < K, other=0.0)
        y = y * scale * tl.load(NORM + partner, mask=column < K, other=0.0)
    cos = tl.load(COS + position * K + column, mask=here, other=0.0)
    sin = tl.load(SIN + position * K + column, mask=here, other=0.0)
    return x * cos + y * sin


@triton.jit
def _attend_range(
    q,
    most,
    total,
    sums,
    KEYS,
    VALUES,
    first,
    count,
    scale,
    K: tl.constexpr,
    BK: tl.constexpr,
    BN: tl.constexpr,
):
    """Add tokens [first, first + count) to a running softmax (largest score, total, weighted values)."""
    column = tl.arange(0, BK)[None, :]
    for start in range(0, count, BN):
        token = start + tl.arange(0, BN)
        inside = token < count
        place = (first + token).to(tl.int64)[:, None] * K + column
        here = inside[:, None] & (column < K)
        k = tl.load(KEYS + place, mask=here, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where(inside[None, :], scores, -1e30)
        larger = tl.maximum(most, tl.max(scores, axis=1))
        shrink = tl.exp(most - larger)
        share = tl.exp(scores - larger[:, None])
        total = total * shrink + tl.sum(share, axis=1)
        v = tl.load(VALUES + place, mask=here, other=0.0)
        sums = sums * shrink[:, None] + weighted(share, v)
        most = larger
    return most, total, sums


@triton.jit(do_not_specialize=["rows_of_parts"])
def _prefix_kernel(
    QKV, QUERY_NORM, COS, SIN, PROMPT, DRAWN, JOBS, KEYS, VALUES, PARTS, LOGS,
    rows_of_parts, tokens, scale, epsilon,
    H: tl.constexpr, G: tl.constexpr, K: tl.constexpr, BK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    NORMED: tl.constexpr,
):  # fmt: skip
    job = JOBS + tl.program_id(0) * 5
    group = tl.program_id(1)
    rows = tl.load(job + 1)
    if rows > 0:
        R: tl.constexpr = H // G
        index = tl.arange(0, BM)
        inside = (index < rows * R)[:, None]
        row = tl.where(index < rows * R, tl.load(job) + index // R, 0).to(tl.int64)
        head = group * R + index % R
        position = (tl.load(PROMPT + row) + tl.load(DRAWN + row) - 1)[:, None]
        place = (row * (H + 2 * G) + head)[:, None] * K
        q = _rotated(QKV, QUERY_NORM, COS, SIN, place, position, inside, epsilon, K, BK, NORMED)
        most = tl.full([BM], -1e30, tl.float32)
        total = tl.zeros([BM], tl.float32)
        sums = tl.zeros([BM, BK], tl.float32)
        side = group.to(tl.int64) * tokens * K
        most, total, sums = _attend_range(
            q.to(KEYS.dtype.element_ty), most, total, sums, KEYS + side, VALUES + side,
            tl.load(job + 2), tl.load(job + 3), scale, K, BK, BN,
        )  # fmt: skip
        out = (tl.load(job + 4).to(tl.int64) * rows_of_parts + row) * H + head
        column = tl.arange(0, BK)[None, :]
        tl.store(PARTS + out[:, None] * K + column, sums / total[:, None], mask=inside & (column < K))
        tl.store(LOGS + out, most + tl.log(total), mask=index < rows * R)


@triton.jit(do_not_specialize=["rows_of_parts"])
def _own_kernel(
    QKV, QUERY_NORM, KEY_NORM, COS, SIN, PROMPT, DRAWN, LIMIT, OWN, PART_COUNT, KEYS, VALUES, PARTS, LOGS,
    OUT,
    rows_of_parts, tokens, scale, epsilon,
    H: tl.constexpr, G: tl.constexpr, K: tl.constexpr, BK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    NORMED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1)
    R: tl.constexpr = H // G
    index = tl.arange(0, BM)
    column = tl.arange(0, BK)
    inside = (index < R)[:, None]
    head = group * R + index
    drawn = tl.load(DRAWN + row)
    own = tl.load(OWN + row)
    position = tl.load(PROMPT + row) + drawn - 1
    start = row * (H + 2 * G) * K
    q = _rotated(
        QKV, QUERY_NORM, COS, SIN, start + head[:, None] * K, position, inside, epsilon, K, BK, NORMED
    )
    q = q.to(KEYS.dtype.element_ty)
    one = tl.zeros([1, 1], tl.int64)
    mine = start + (H + group) * K + one
    k = _rotated(QKV, KEY_NORM, COS, SIN, mine, position, one == 0, epsilon, K, BK, NORMED)
    k = tl.sum(k, axis=0).to(KEYS.dtype.element_ty)
    v = tl.load(QKV + start + (H + G + group) * K + column, mask=column < K, other=0.0).to(
        KEYS.dtype.element_ty
    )
    side = group.to(tl.int64) * tokens * K
    if drawn < tl.load(LIMIT + row):
        cell = side + (own + drawn - 1).to(tl.int64) * K + column
        tl.store(KEYS + cell, k, mask=column < K)
        tl.store(VALUES + cell, v, mask=column < K)
    most = tl.sum(q.to(tl.float32) * k.to(tl.float32)[None, :], axis=1) * scale
    total = tl.full([BM], 1.0, tl.float32)
    sums = tl.zeros([BM, BK], tl.float32) + v.to(tl.float32)[None, :]
    most, total, sums = _attend_range(
        q, most, total, sums, KEYS + side, VALUES + side, own, drawn - 1, scale, K, BK, BN
    )
    for part in range(0, tl.load(PART_COUNT + row)):
        source = (part * rows_of_parts + row) * H + head
        log = tl.load(LOGS + source, mask=index < R, other=-1e30)
        here = inside & (column < K)[None, :]
        theirs = tl.load(PARTS + source[:, None] * K + column[None, :], mask=here, other=0.0)
        larger = tl.maximum(most, log)
        shrink, share = tl.exp(most - larger), tl.exp(log - larger)
        total = total * shrink + share
        sums = sums * shrink[:, None] + theirs * share[:, None]
        most = larger
    out = (sums / total[:, None]).to(OUT.dtype.element_ty)
    place = row * H * K + head[:, None] * K + column[None, :]
    tl.store(OUT + place, out, mask=inside & (column < K)[None, :])


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Sizes of the heads. All that the kernels are compiled for."""

    heads: int
    kv_heads: int
    head_dim: int
    norm_epsilon: float

    @property
    def job_rows(self) -> int:
        """Most rows of one job: a block of 64 queries or less."""
        return min(16, max(1, 64 // (self.heads // self.kv_heads)))


@dataclass(frozen=True, slots=True)
class DecodeRows:
    """What the kernels read of every row, int32 [B] each, and the jobs, int32 [J, 5]."""

    prompt_B: Tensor
    """Tokens of the prompt."""
    drawn_B: Tensor
    """Tokens sampled so far, at least 1: the newest is this step's input."""
    limit_B: Tensor
    """A row that has drawn so many is over: it writes no more."""
    own_B: Tensor
    """First cache place of the row's own tokens."""
    parts_B: Tensor
    """Parts of the attention to its prompt."""
    jobs_J5: Tensor


@dataclass(frozen=True, slots=True)
class Parts:
    """Room for the parts of the attention: values [Z, B, H, K] and log-sum-exps [Z, B, H], float32."""

    values: Tensor
    logs: Tensor


def decode_attention(
    qkv_BX: Tensor,
    norms: tuple[Tensor, Tensor] | None,
    angles: tuple[Tensor, Tensor],
    rows: DecodeRows,
    cache: tuple[Tensor, Tensor],
    parts: Parts,
    shape: AttentionShape,
    dtype: torch.dtype,
) -> Tensor:
    """The attention [B, H * K] in `dtype` of each row's newest token, whose key and value are cached.

    `qkv_BX` is the projections' output [B, (H + 2 G) K], `norms` the weights of query and key norm, `angles`
    the cosines and signed sines of all positions, `cache` one layer's keys and values [G, T, K].
    """
    keys, values = cache
    head_dim, repeat = shape.head_dim, shape.heads // shape.kv_heads
    query_norm, key_norm = norms or (angles[0], angles[0])
    out = torch.empty(len(qkv_BX), shape.heads * head_dim, dtype=dtype, device=qkv_BX.device)
    sizes = {
        "H": shape.heads,
        "G": shape.kv_heads,
        "K": head_dim,
        "BK": max(16, triton.next_power_of_2(head_dim)),
        "NORMED": norms is not None,
    }
    scalars = (parts.logs.shape[1], keys.shape[1], head_dim**-0.5, shape.norm_epsilon)
    _prefix_kernel[(len(rows.jobs_J5), shape.kv_heads)](
        qkv_BX, query_norm, *angles, rows.prompt_B, rows.drawn_B, rows.jobs_J5, keys, values,
        parts.values, parts.logs, *scalars,
        **sizes, BM=max(16, triton.next_power_of_2(shape.job_rows * repeat)), BN=64, num_warps=PREFIX_WARPS,
    )  # fmt: skip
    _own_kernel[(len(qkv_BX), shape.kv_heads)](
        qkv_BX, query_norm, key_norm, *angles, rows.prompt_B, rows.drawn_B, rows.limit_B, rows.own_B,
        rows.parts_B, keys, values, parts.values, parts.logs, out, *scalars,
        **sizes, BM=max(16, triton.next_power_of_2(repeat)), BN=32, num_warps=OWN_WARPS,
    )  # fmt: skip
    return out
