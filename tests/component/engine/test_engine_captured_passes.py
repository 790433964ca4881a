"""Captured training passes against the ordinary ones: on a GPU, or in Triton's interpreter on tiny models."""

import os

import pytest
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton")

from trainsmith.engine.cuda.captured_passes import CapturedPasses  # noqa: E402
from trainsmith.engine.full_training import FullTraining  # noqa: E402
from trainsmith.engine.head_loss import HeadSums  # noqa: E402
from trainsmith.engine.packing import as_datum, pack  # noqa: E402
from trainsmith.engine.passes import Passes  # noqa: E402
from trainsmith.engine.policy import Policy  # noqa: E402
from trainsmith.engine.records import PrimeLoss, Trajectory  # noqa: E402

pytestmark = pytest.mark.component


def batches(limit):
    trajectories = [
        Trajectory(
            (257, *range(40, 60), 60 + index, *range(90, 93 + sample)),
            (False,) * 22 + (True,) * (3 + sample),
            (0.0,) * 22 + (-2.0,) * (3 + sample),
            1.0 - sample,
            0.9,
        )
        for index in range(3)
        for sample in range(3)
    ]
    return pack([as_datum(trajectory) for trajectory in trajectories], limit)


@pytest.mark.parametrize("kind", ["llama-biases", "qwen3"])
def test_gradients_and_sums_equal_the_ordinary_passes(tiny, kind):
    """Guards against padding that trains, an earlier step's gradients, batches that overwrite each other."""
    outcomes = []
    for captured in (False, True):
        policy = Policy.load(tiny(kind)[0], device=DEVICE if captured else "cpu", dtype="float32")
        training, sums = FullTraining(policy), HeadSums(policy.device)
        passes = CapturedPasses(training.network, policy.architecture, policy.rotary)
        for _ in range(2):
            training.start_gradients()
            for batch in batches(35):
                if captured:
                    assert passes.serves(batch)
                    passes.backward(batch, PrimeLoss(), 0.1, sums)
                else:
                    Passes(policy).backward(training.network, batch, PrimeLoss(), 0.1, sums)
        outcomes.append(([tensor.grad.cpu() for tensor in training.tensors], sums.read()))
    (plain, plain_sums), (ours, our_sums) = outcomes
    assert len(batches(35)) > 1
    for theirs, mine in zip(plain, ours, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)
    for name in ("loss", "entropy", "mismatch_kl", "masked"):
        assert getattr(our_sums, name) == pytest.approx(getattr(plain_sums, name), rel=1e-4)
