"""What only whole processes show: runs that repeat bit by bit, and memory that stays flat."""

import hashlib
import os
import subprocess
import sys

import psutil
import pytest

from trainsmith.engine.learner import Learner
from trainsmith.engine.policy import Policy
from trainsmith.engine.records import (
    AdamSpec,
    Cispo,
    Datum,
    LoraSpec,
    OptimSpec,
    PrimeLoss,
    SampleRequest,
    Trajectory,
)

pytestmark = pytest.mark.component

TRAIN = """
import sys
from pathlib import Path
from trainsmith.engine.learner import Learner
from trainsmith.engine.policy import Policy
from trainsmith.engine.records import LoraSpec, OptimSpec, SampleRequest, Trajectory
policy = Policy.load(Path(sys.argv[1]), device="cpu", dtype=sys.argv[2])
lora = LoraSpec(4, 8.0, 0.1) if sys.argv[3] == "lora" else None
learner = Learner(policy, OptimSpec(lr=1e-3), None, lora, seed=5)
for step in range(3):
    rows = [(p, n) for p in range(4) for n in range(6)]
    requests = [SampleRequest((1, 2, 3, 4 + p), 9, 1.0, step * 100 + p * 10 + n) for p, n in rows]
    batch = []
    for number, (request, done) in enumerate(zip(requests, policy.sample(requests))):
        mask = (False,) * 4 + (True,) * len(done.tokens)
        logprobs = (0.0,) * 4 + done.logprobs
        batch.append(Trajectory(request.prompt + done.tokens, mask, logprobs, number % 3 - 1.0))
    learner.update(batch)
learner.save(Path(sys.argv[4]))
"""


@pytest.mark.parametrize(
    ("dtype", "mode", "threads"),
    [
        ("float32", "full", "2"),
        ("bfloat16", "full", "1"),
        ("float32", "lora", "1"),
        ("bfloat16", "lora", "2"),
    ],
)
def test_a_run_repeats_bit_by_bit_in_a_fresh_process(tiny, tmp_path, dtype, mode, threads):
    """Guards against hash order, uninitialised memory or thread order in sampling, packing or summation."""
    directory, _ = tiny()
    digests = set()
    for hash_seed in ("0", "7"):
        file = tmp_path / f"weights-{hash_seed}.safetensors"
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "PYTHONHASHSEED": hash_seed}
        subprocess.run(
            [sys.executable, "-c", TRAIN, str(directory), dtype, mode, str(file)], env=environment, check=True
        )
        digests.add(hashlib.sha256(file.read_bytes()).hexdigest())
    assert len(digests) == 1


@pytest.mark.parametrize("lora", [None, LoraSpec(4)])
def test_memory_is_flat_over_200_steps(tiny, lora):
    """Guards against graphs, caches or gradients that are kept from step to step."""
    policy = Policy.load(tiny(vocabulary=2000)[0], device="cpu", dtype="float32")
    learner = Learner(policy, OptimSpec(lr=1e-4), PrimeLoss(), lora)
    process, sizes = psutil.Process(), []
    for step in range(200):
        requests = [
            SampleRequest((1, 2, 3, p), 3 + step % 6, 1.0, step * 64 + n) for p in range(4) for n in range(4)
        ]
        batch = []
        for number, (request, done) in enumerate(zip(requests, policy.sample(requests), strict=True)):
            mask = (False,) * 4 + (True,) * len(done.tokens)
            logprobs = (0.0,) * 4 + done.logprobs
            batch.append(Trajectory(request.prompt + done.tokens, mask, logprobs, number % 2 - 0.5))
        learner.update(batch)
        sizes.append(process.memory_info().rss)
    assert max(sizes[150:]) - max(sizes[40:60]) < 8 * 2**20


def test_memory_is_flat_over_200_steps_of_several_adapters(tiny, tmp_path):
    """Guards against passes, snapshots or saved states that stay when adapters train side by side."""
    policy = Policy.load(tiny(vocabulary=2000)[0], device="cpu", dtype="float32")
    learners = [Learner(policy, lora=LoraSpec(4), seed=seed, shared=True) for seed in range(3)]
    process, sizes, network = psutil.Process(), [], None
    for step in range(200):
        learner = learners[step % 3]
        for part in range(2):
            tokens = tuple((7 * step + 3 * at + part) % 300 for at in range(20 + step % 9))
            size = len(tokens) - 1
            datum = Datum(tokens[:-1], tokens[1:], (1.0,) * size, (-5.0,) * size, (0.5,) * size)
            learner.forward_backward([datum] * 3, Cispo())
        learner.optim_step(AdamSpec())
        learner.forward([datum], Cispo())
        network = learner.snapshot()
        if step % 10 == 0:
            learner.save_state(tmp_path / "state")
            learner.load_state(tmp_path / "state")
        sizes.append(process.memory_info().rss)
    assert network is not None
    assert max(sizes[150:]) - max(sizes[40:60]) < 8 * 2**20
