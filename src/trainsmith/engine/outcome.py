"""What a pass over data returns, from the sums and logprobs that it left on the device."""

from __future__ import annotations

from collections.abc import Sequence

from trainsmith.engine.head_loss import HeadSums, Logprobs
from trainsmith.engine.packing import MicroBatch
from trainsmith.engine.records import CrossEntropy, Datum, ForwardBackward, LossMetrics, LossSpec


def outcome(
    data: Sequence[Datum],
    loss: LossSpec,
    count: int,
    batches: Sequence[MicroBatch],
    sums: HeadSums,
    logprobs: Logprobs,
) -> ForwardBackward:
    """Read the device once; `count` is the number of trained tokens."""
    total, share = sums.read(), 1 / max(1, count)
    line = iter(logprobs.read(sum(len(datum.tokens) for datum in data)).tolist())
    return ForwardBackward(
        loss=total.loss,
        logprobs=tuple(tuple(next(line) for _ in datum.tokens) for datum in data),
        metrics=LossMetrics(
            trained_tokens=count,
            packed_tokens=sum(len(batch.tree) for batch in batches),
            entropy=total.entropy * share,
            mismatch_kl=0.0 if isinstance(loss, CrossEntropy) else total.mismatch_kl * share,
            masked_fraction=total.masked * share,
        ),
    )
