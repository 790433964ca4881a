"""The step of attention that the decoder and the learner must do alike."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def weighted(share, v):
    """share [M, N] times values [N, K], float32.

    Shares are relative to the largest score so far, which depends on the order of tiles: rounded to bfloat16
    they would differ between the two. TF32 keeps eight times as much of them, and bfloat16 values whole.
    """
    if v.dtype == tl.float32:
        product = tl.dot(share, v, input_precision="ieee")
    else:
        product = tl.dot(share, v.to(tl.float32), input_precision="tf32")
    return product
