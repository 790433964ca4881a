"""Attention over a packed token tree, forward and backward, without a mask in memory.

Token j is seen from i exactly when `j <= i < end[j]`, so blocks of keys whose tokens all end before a block
of queries begins are skipped. Sums are in one order: gradients repeat bit for bit.
Shapes: T packed tokens, H query heads, G key-value heads, K head size.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from trainsmith.engine.cuda.kernels.shares import weighted

_BLOCK = 64
"""Queries and keys of one tile."""


@triton.jit
def _load(X, token, stride, head, T, K: tl.constexpr, BK: tl.constexpr):
    """Rows [B, BK] of one head."""
    column = tl.arange(0, BK)[None, :]
    place = token.to(tl.int64)[:, None] * stride + head * K + column
    return tl.load(X + place, mask=(token < T)[:, None] & (column < K), other=0.0)


@triton.jit
def _store(X, token, stride, head, T, value, K: tl.constexpr, BK: tl.constexpr):
    column = tl.arange(0, BK)[None, :]
    place = token.to(tl.int64)[:, None] * stride + head * K + column
    tl.store(X + place, value.to(X.dtype.element_ty), mask=(token < T)[:, None] & (column < K))


@triton.jit
def _seen(query, key, end, T):
    return (key[None, :] <= query[:, None]) & (query[:, None] < end[None, :]) & (query[:, None] < T)


@triton.jit(do_not_specialize=["T"])
def _forward_kernel(
    Q, KEY, VALUE, END, OUT, LOG, T, stride_q, stride_k, stride_v, scale,
    H: tl.constexpr, G: tl.constexpr, K: tl.constexpr, BK: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    start, head = tl.program_id(0) * B, tl.program_id(1)
    group = head // (H // G)
    query = start + tl.arange(0, B)
    q = _load(Q, query, stride_q, head, T, K, BK)
    most = tl.full([B], -1e30, tl.float32)
    total = tl.zeros([B], tl.float32)
    sums = tl.zeros([B, BK], tl.float32)
    for first in range(0, start + B, B):
        key = first + tl.arange(0, B)
        end = tl.load(END + key, mask=key < T, other=0)
        if tl.max(end, axis=0) > start:
            k = _load(KEY, key, stride_k, group, T, K, BK)
            v = _load(VALUE, key, stride_v, group, T, K, BK)
            scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
            scores = tl.where(_seen(query, key, end, T), scores, -1e30)
            larger = tl.maximum(most, tl.max(scores, axis=1))
            shrink = tl.exp(most - larger)
            share = tl.where(scores > -1e29, tl.exp(scores - larger[:, None]), 0.0)
            total = total * shrink + tl.sum(share, axis=1)
            sums = sums * shrink[:, None] + weighted(share, v)
            most = larger
    total = tl.where(total > 0, total, 1.0)
    _store(OUT, query, H * K, head, T, sums / total[:, None], K, BK)
    tl.store(LOG + head * T + query, most + tl.log(total), mask=query < T)


@triton.jit(do_not_specialize=["T"])
def _query_gradient_kernel(
    Q, KEY, VALUE, END, GRAD, LOG, DELTA, OUT, T, stride_q, stride_k, stride_v, scale,
    H: tl.constexpr, G: tl.constexpr, K: tl.constexpr, BK: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    start, head = tl.program_id(0) * B, tl.program_id(1)
    group = head // (H // G)
    query = start + tl.arange(0, B)
    q = _load(Q, query, stride_q, head, T, K, BK)
    grad = _load(GRAD, query, H * K, head, T, K, BK).to(q.dtype)
    log = tl.load(LOG + head * T + query, mask=query < T, other=0.0)
    delta = tl.load(DELTA + head * T + query, mask=query < T, other=0.0)
    sums = tl.zeros([B, BK], tl.float32)
    for first in range(0, start + B, B):
        key = first + tl.arange(0, B)
        end = tl.load(END + key, mask=key < T, other=0)
        if tl.max(end, axis=0) > start:
            k = _load(KEY, key, stride_k, group, T, K, BK)
            v = _load(VALUE, key, stride_v, group, T, K, BK)
            scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
            share = tl.where(_seen(query, key, end, T), tl.exp(scores - log[:, None]), 0.0)
            by_share = tl.dot(grad, tl.trans(v), input_precision="ieee")
            by_score = share * (by_share - delta[:, None]) * scale
            sums += tl.dot(by_score.to(k.dtype), k, input_precision="ieee")
    _store(OUT, query, H * K, head, T, sums, K, BK)


@triton.jit(do_not_specialize=["T"])
def _key_gradient_kernel(
    Q, KEY, VALUE, END, GRAD, LOG, DELTA, OUT_KEY, OUT_VALUE, T, stride_q, stride_k, stride_v, scale,
    H: tl.constexpr, G: tl.constexpr, K: tl.constexpr, BK: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """One head's share of the gradients; the caller adds the heads of a group."""
    start, head = tl.program_id(0) * B, tl.program_id(1)
    group = head // (H // G)
    key = start + tl.arange(0, B)
    end = tl.load(END + key, mask=key < T, other=0)
    k = _load(KEY, key, stride_k, group, T, K, BK)
    v = _load(VALUE, key, stride_v, group, T, K, BK)
    by_key = tl.zeros([B, BK], tl.float32)
    by_value = tl.zeros([B, BK], tl.float32)
    for first in range(start, tl.max(end, axis=0), B):
        query = first + tl.arange(0, B)
        q = _load(Q, query, stride_q, head, T, K, BK)
        grad = _load(GRAD, query, H * K, head, T, K, BK).to(q.dtype)
        log = tl.load(LOG + head * T + query, mask=query < T, other=0.0)
        delta = tl.load(DELTA + head * T + query, mask=query < T, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        share = tl.where(_seen(query, key, end, T), tl.exp(scores - log[:, None]), 0.0)
        by_value += tl.dot(tl.trans(share.to(grad.dtype)), grad, input_precision="ieee")
        by_share = tl.dot(grad, tl.trans(v), input_precision="ieee")
        by_score = share * (by_share - delta[:, None]) * scale
        by_key += tl.dot(tl.trans(by_score.to(q.dtype)), q, input_precision="ieee")
    _store(OUT_KEY, key, H * K, head, T, by_key, K, BK)
    _store(OUT_VALUE, key, H * K, head, T, by_value, K, BK)


class _TreeAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, end: Tensor) -> Tensor:
        tokens, heads, size = q.shape
        out = torch.empty(tokens, heads, size, dtype=q.dtype, device=q.device)
        log = torch.empty(heads, tokens, dtype=torch.float32, device=q.device)
        _launch(_forward_kernel, (q, k, v, end, out, log), q, k, v)
        ctx.save_for_backward(q, k, v, end, out, log)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        q, k, v, end, out, log = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        delta = torch.linalg.vecdot(gradient.float(), out.float()).t().contiguous()
        by_query = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        by_key, by_value = (torch.empty(q.shape, dtype=torch.float32, device=q.device) for _ in range(2))
        inputs = (q, k, v, end, gradient, log, delta)
        _launch(_query_gradient_kernel, (*inputs, by_query), q, k, v)
        _launch(_key_gradient_kernel, (*inputs, by_key, by_value), q, k, v)
        tokens, groups, size = k.shape
        by_key, by_value = (x.view(tokens, groups, -1, size).sum(dim=2) for x in (by_key, by_value))
        return by_query, by_key.to(k.dtype), by_value.to(v.dtype), None


def _launch(kernel: Any, tensors: tuple[Tensor, ...], q: Tensor, k: Tensor, v: Tensor) -> None:
    tokens, heads, size = q.shape
    kernel[(triton.cdiv(tokens, _BLOCK), heads)](
        *tensors, tokens, q.stride(0), k.stride(0), v.stride(0), size**-0.5,
        H=heads, G=k.shape[1], K=size, BK=max(16, triton.next_power_of_2(size)), B=_BLOCK,
    )  # fmt: skip


def tree_attention(q_THK: Tensor, k_TGK: Tensor, v_TGK: Tensor, end_T: Tensor) -> Tensor:
    """Attention [T, H * K] of a tree's tokens, in the type of q, k and v. `end_T` (int32): `TokenTree`'s."""
    q, k, v = (x if x.stride()[1:] == (x.shape[2], 1) else x.contiguous() for x in (q_THK, k_TGK, v_TGK))
    out: Tensor = _TreeAttention.apply(q, k, v, end_T)
    return out.flatten(1)
