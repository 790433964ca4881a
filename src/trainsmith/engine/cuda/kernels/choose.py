"""The choice of a token from its logits, one program a row, without a look from the host.

The same rule as `engine.randomness`: the token at which the cumulative probability passes the row's uniform
number, which is the n-th of the Philox stream of the row's seed, as numpy counts it. Logprobs are at the
row's temperature over the whole vocabulary; rows of temperature 0 take the likeliest token at temperature 1.
Shapes: B rows, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 8192
"""Logits that a program holds at a time."""


@triton.jit
def _philox_uniform(seed, number):
    """The number-th float64 in (0, 1) of numpy's Philox under key `seed`: Philox 4x64, 10 rounds."""
    m0 = tl.full([], 0xD2E7470EE14C6C93, tl.uint64)
    m1 = tl.full([], 0xCA5A826395121157, tl.uint64)
    k0 = seed.to(tl.uint64)
    k1 = tl.zeros([], tl.uint64)
    c0 = (number // 4 + 1).to(tl.uint64)
    c1 = tl.zeros([], tl.uint64)
    c2 = tl.zeros([], tl.uint64)
    c3 = tl.zeros([], tl.uint64)
    for _ in tl.static_range(10):
        high0, low0 = tl.umulhi(m0, c0), m0 * c0
        high1, low1 = tl.umulhi(m1, c2), m1 * c2
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0 += tl.full([], 0x9E3779B97F4A7C15, tl.uint64)
        k1 += tl.full([], 0xBB67AE8584CAA73B, tl.uint64)
    lane = number % 4
    raw = tl.where(lane == 0, c0, tl.where(lane == 1, c1, tl.where(lane == 2, c2, c3)))
    return ((raw >> 11).to(tl.float64) + 0.5) * 1.1102230246251565e-16


@triton.jit
def _ordered(x):
    """float32 as int32 in the same order."""
    bits = x.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@triton.jit
def _weights(ROW, column, V, most, inverse, threshold):
    """Unnormalised probabilities of the entries at `column`; 0 below the threshold and outside."""
    x = tl.load(ROW + column, mask=column < V, other=-float("inf"))
    weight = tl.exp((x - most) * inverse)
    return tl.where((column < V) & (_ordered(x) >= threshold), weight, 0.0).to(tl.float64)


@triton.jit
def _mass(ROW, V, most, inverse, threshold, floor, BLOCK: tl.constexpr):
    """Entries at or over both thresholds, and their probability."""
    count = tl.zeros([], tl.int32)
    mass = tl.zeros([], tl.float64)
    least = tl.maximum(threshold, floor)
    for start in range(0, V, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(ROW + column, mask=column < V, other=-float("inf"))
        count += tl.sum(((column < V) & (_ordered(x) >= least)).to(tl.int32), axis=0)
        mass += tl.sum(_weights(ROW, column, V, most, inverse, least), axis=0)
    return count, mass


@triton.jit
def _threshold(ROW, V, most, inverse, top_k, top_p, BLOCK: tl.constexpr):
    """The least logit kept, as an ordered integer: of the k likeliest, then of the fewest that reach p."""
    lowest = tl.full([], -2147483648, tl.int64)
    floor = lowest
    if (top_k > 0) & (top_k < V):
        high = _ordered(most).to(tl.int64)
        while floor < high:
            middle = floor + (high - floor + 1) // 2
            count, _ = _mass(ROW, V, most, inverse, middle.to(tl.int32), lowest.to(tl.int32), BLOCK)
            floor = tl.where(count >= top_k, middle, floor)
            high = tl.where(count >= top_k, high, middle - 1)
    low = floor
    if top_p < 1.0:
        _, everything = _mass(ROW, V, most, inverse, floor.to(tl.int32), floor.to(tl.int32), BLOCK)
        high = _ordered(most).to(tl.int64)
        while low < high:
            middle = low + (high - low + 1) // 2
            _, mass = _mass(ROW, V, most, inverse, middle.to(tl.int32), floor.to(tl.int32), BLOCK)
            enough = mass >= top_p.to(tl.float64) * everything
            low = tl.where(enough, middle, low)
            high = tl.where(enough, high, middle - 1)
    return low.to(tl.int32)


@triton.jit
def _choose_kernel(
    LOGITS, SOURCE, PLACE, TEMPERATURE, TOP_P, TOP_K, SEED, LIMIT, TOKEN, DRAWN, OUT_TOKENS, OUT_LOGPROBS,
    V, window,
    NB: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.load(PLACE + tl.program_id(0))
    drawn = tl.load(DRAWN + row)
    limit = tl.load(LIMIT + row)
    if drawn < limit:
        ROW = LOGITS + tl.load(SOURCE + tl.program_id(0)).to(tl.int64) * V
        most = tl.full([], -float("inf"), tl.float32)
        best = tl.zeros([], tl.int32)
        for start in range(0, V, BLOCK):
            column = start + tl.arange(0, BLOCK)
            x = tl.load(ROW + column, mask=column < V, other=-float("inf"))
            larger = tl.max(x, axis=0)
            first = start + tl.argmax(x, axis=0)
            best = tl.where(larger > most, first, best)
            most = tl.maximum(most, larger)
        temperature = tl.load(TEMPERATURE + row)
        greedy = temperature == 0.0
        inverse = 1.0 / tl.where(greedy, 1.0, temperature)
        lowest = tl.full([], -2147483648, tl.int32)
        index = tl.arange(0, NB)
        sums = tl.zeros([NB], tl.float64)
        for number in range(0, tl.cdiv(V, BLOCK)):
            column = number * BLOCK + tl.arange(0, BLOCK)
            mass = tl.sum(_weights(ROW, column, V, most, inverse, lowest), axis=0)
            sums = tl.where(index == number, mass, sums)
        total = tl.sum(sums, axis=0)
        top_k, top_p = tl.load(TOP_K + row), tl.load(TOP_P + row)
        threshold = lowest
        if ((top_k > 0) | (top_p < 1.0)) & (temperature > 0.0):
            threshold = _threshold(ROW, V, most, inverse, top_k, top_p, BLOCK)
            for number in range(0, tl.cdiv(V, BLOCK)):
                column = number * BLOCK + tl.arange(0, BLOCK)
                mass = tl.sum(_weights(ROW, column, V, most, inverse, threshold), axis=0)
                sums = tl.where(index == number, mass, sums)
        ends = tl.cumsum(sums, axis=0)
        kept = tl.max(ends, axis=0)
        target = _philox_uniform(tl.load(SEED + row), drawn) * kept
        # The first block whose end passes the target; never one of no weight.
        number = tl.minimum(
            tl.sum((ends <= target).to(tl.int32), axis=0), tl.sum((ends < kept).to(tl.int32), axis=0)
        )
        size = tl.sum(tl.where(index == number, sums, 0.0), axis=0)
        before = tl.sum(tl.where(index < number, sums, 0.0), axis=0)
        column = number * BLOCK + tl.arange(0, BLOCK)
        inside = tl.cumsum(_weights(ROW, column, V, most, inverse, threshold), axis=0)
        whole = tl.max(inside, axis=0)
        # The share of the block that lies below the target, on the scale of the block's own running sum.
        target = (target - before) / size * whole
        within = tl.minimum(
            tl.sum((inside <= target).to(tl.int32), axis=0), tl.sum((inside < whole).to(tl.int32), axis=0)
        )
        token = tl.where(greedy, best, number * BLOCK + within)
        logprob = ((tl.load(ROW + token) - most) * inverse).to(tl.float64) - tl.log(total)
        place = row * window + drawn % window
        tl.store(OUT_TOKENS + place, token.to(tl.int64))
        tl.store(OUT_LOGPROBS + place, logprob.to(tl.float32))
        tl.store(TOKEN + row, token.to(tl.int64))
        tl.store(DRAWN + row, drawn + 1)


@dataclass(frozen=True, slots=True)
class Drawing:
    """What the choice reads and writes of every place for a row, [B] each."""

    temperature_B: Tensor
    """float32; 0 is greedy."""
    top_p_B: Tensor
    """float32; 1 keeps all."""
    top_k_B: Tensor
    """int32; 0 keeps all."""
    seed_B: Tensor
    """int64: the bits of an unsigned seed."""
    limit_B: Tensor
    """int32: a row that has drawn so many is left as it is."""
    token_B: Tensor
    """int64, written: the newest token."""
    drawn_B: Tensor
    """int32, counted up: tokens sampled so far."""
    out_tokens_BW: Tensor
    """int64, written at place n modulo W for the row's n-th token."""
    out_logprobs_BW: Tensor
    """float32, written likewise."""


def choose(logits_NV: Tensor, source_M: Tensor, place_M: Tensor, rows: Drawing) -> None:
    """Sample a token for the row at each of `place_M` from float32 logits at `source_M` (int32 both)."""
    vocabulary = logits_NV.shape[1]
    block = min(BLOCK, triton.next_power_of_2(vocabulary))
    _choose_kernel[(len(source_M),)](
        logits_NV,
        source_M,
        place_M,
        rows.temperature_B,
        rows.top_p_B,
        rows.top_k_B,
        rows.seed_B,
        rows.limit_B,
        rows.token_B,
        rows.drawn_B,
        rows.out_tokens_BW,
        rows.out_logprobs_BW,
        vocabulary,
        rows.out_tokens_BW.shape[1],
        NB=triton.next_power_of_2(triton.cdiv(vocabulary, block)),
        BLOCK=block,
        num_warps=16,
    )
