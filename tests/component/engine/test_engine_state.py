"""A learner's saved state: training goes on bit for bit in a fresh process, and a broken state is refused."""

import json
import resource
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from trainsmith.engine.learner import Learner
from trainsmith.engine.learner_state import MANIFEST, load_network, read_manifest
from trainsmith.engine.policy import Policy
from trainsmith.engine.records import AdamSpec, Datum, LoraSpec, Ppo
from trainsmith.errors import MachineError, UserError

pytestmark = pytest.mark.component

TRAIN = """
import random, sys
from pathlib import Path
from trainsmith.engine.learner import Learner
from trainsmith.engine.policy import Policy
from trainsmith.engine.records import (
    AdamSpec, Cispo, Datum, LoraSpec, OptimSpec, SchedulerSpec, Trajectory,
)
model, dtype, kind, first, last, load, save, weights = sys.argv[1:]
lora = {"full": None, "sgd": None}.get(kind, LoraSpec(4, 8.0, 0.2))
policy = Policy.load(Path(model), device="cpu", dtype=dtype)
optim = OptimSpec(
    "sgd" if kind == "sgd" else "adamw", lr=1e-2, scheduler=SchedulerSpec("linear", 2, 3, max_steps=6)
)
learner = Learner(policy, optim, None, lora, seed=5, shared=kind == "apart")
if load:
    learner.load_state(Path(load))
for step in range(int(first), int(last)):
    draw = random.Random(step)
    lines = [tuple(draw.randrange(250) for _ in range(9)) for _ in range(4)]
    logprobs = (0.0,) * 4 + (-5.0,) * 5
    batch = [
        Trajectory(line, (False,) * 4 + (True,) * 5, logprobs, draw.choice([-1.0, 1.0])) for line in lines
    ]
    data = [
        Datum(line[:-1], line[1:], (1.0,) * 8, logprobs[1:], (0.0,) * 3 + (draw.choice([-1.0, 1.0]),) * 5)
        for line in lines
    ]
    if step % 2 or kind == "sgd":
        learner.update(batch)
    else:
        learner.forward_backward(data[:2], Cispo())
        learner.forward_backward(data[2:], Cispo())
        learner.optim_step(AdamSpec(1e-2, weight_decay=0.1))
if save:
    learner.save_state(Path(save))
learner.save(Path(weights))
"""


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        ("float32", "full"),
        pytest.param("bfloat16", "full", marks=pytest.mark.slow),
        pytest.param("float32", "sgd", marks=pytest.mark.slow),
        pytest.param("float32", "apart", marks=pytest.mark.slow),
        ("bfloat16", "own"),
    ],
)
def test_three_steps_then_three_in_a_fresh_process_equal_six(tiny, tmp_path, dtype, kind):
    """Guards against a moment, a step number, a dropout seed or a bit of the masters lost on the way."""
    directory, _ = tiny("qwen3", False)

    def run(*rest):
        command = [sys.executable, "-c", TRAIN, str(directory), dtype, kind, *map(str, rest)]
        subprocess.run(command, check=True)

    state = tmp_path / "state"
    run(0, 6, "", "", tmp_path / "whole.safetensors")
    run(0, 3, "", state, tmp_path / "half.safetensors")
    run(3, 6, state, "", tmp_path / "resumed.safetensors")
    whole, half, resumed = (
        (tmp_path / f"{n}.safetensors").read_bytes() for n in ("whole", "half", "resumed")
    )
    assert whole == resumed != half
    assert {file.suffix for file in state.iterdir()} == {".json", ".safetensors"}


def datum(seed=0):
    draw = torch.Generator().manual_seed(seed)
    tokens = tuple(torch.randint(0, 250, (9,), generator=draw).tolist())
    return Datum(tokens[:-1], tokens[1:], (1.0,) * 8, (-5.0,) * 8, (1.0,) * 8)


def step(learner, seed=0, lr=1e-2):
    learner.forward_backward([datum(seed)], Ppo())
    return learner.optim_step(AdamSpec(lr))


def test_weights_alone_start_a_fresh_optimiser(tiny, tmp_path):
    """Guards against moments that survive a load of weights, or moments taken from a state without any."""
    policy = Policy.load(tiny()[0], device="cpu", dtype="float32")
    learner = Learner(policy, lora=LoraSpec(4), shared=True)
    step(learner)
    learner.save_state(tmp_path / "state", optimiser=False)
    for other in (Learner(policy, lora=LoraSpec(4), shared=True, seed=9), learner):
        other.load_state(tmp_path / "state", optimiser=False)
        assert other.step == 0
        step(other, 1)
    for name, tensor in other._trainable.named().items():
        assert torch.equal(tensor, learner._trainable.named()[name])
    with pytest.raises(UserError, match="weights alone"):
        learner.load_state(tmp_path / "state")


def test_a_snapshot_and_a_saved_network_stay_while_training_goes_on(tiny, tmp_path):
    """Guards against a sampler whose pinned weights move, or that samples without its adapters."""
    policy = Policy.load(tiny()[0], device="cpu", dtype="float32")
    for lora in (LoraSpec(4, dropout=0.3), None):
        learner = Learner(policy, lora=lora, shared=lora is not None)
        step(learner)
        learner.save_state(tmp_path / "state", optimiser=False)
        before = learner.forward([datum()], Ppo()).logprobs
        snapshot, saved = learner.snapshot(), load_network(policy, tmp_path / "state")
        step(learner)
        assert learner.forward([datum()], Ppo()).logprobs != before
        for network in (snapshot, saved):
            learner._trainable.sampling = network
            assert learner.forward([datum()], Ppo()).logprobs == before


def test_a_state_is_replaced_in_one_step(tiny, tmp_path):
    """Guards against a directory of mixed old and new files, and against files that pile up."""
    learner = Learner(Policy.load(tiny()[0], device="cpu", dtype="float32"), lora=LoraSpec(4))
    step(learner)
    learner.save_state(tmp_path / "state")
    first = {file.name for file in (tmp_path / "state").iterdir()}
    step(learner)
    learner.save_state(tmp_path / "state")
    second = {file.name for file in (tmp_path / "state").iterdir()}
    assert first & second == {MANIFEST} and len(second) == 3
    assert read_manifest(tmp_path / "state").state.step == 2


def spoiled(directory, fault):
    manifest = json.loads((directory / MANIFEST).read_text())
    weights = directory / manifest["weights"]
    match fault:
        case "missing":
            (directory / MANIFEST).unlink()
        case "torn":
            (directory / MANIFEST).write_text('{"version": 1, "st')
        case "version":
            (directory / MANIFEST).write_text(json.dumps(manifest | {"version": 99}))
        case "outside":
            (directory / MANIFEST).write_text(json.dumps(manifest | {"weights": "../weights.safetensors"}))
        case "rank":
            (directory / MANIFEST).write_text(
                json.dumps(manifest | {"state": manifest["state"] | {"lora": None}})
            )
        case "cut":
            weights.write_bytes(weights.read_bytes()[:-100])
        case "tensor":
            tensors = load_file(weights)
            tensors.pop(next(iter(tensors)))
            save_file(tensors, weights)
        case "moment":
            file = directory / manifest["moments"]
            save_file(load_file(file) | {"999.exp_avg": torch.zeros(3)}, file)


@pytest.mark.parametrize(
    "fault", ["missing", "torn", "version", "outside", "rank", "cut", "tensor", "moment"]
)
def test_a_broken_or_foreign_state_is_refused_and_changes_nothing(tiny, tmp_path, fault):
    """Guards against a learner half loaded, a path out of the directory, and anything but a UserError."""
    learner = Learner(Policy.load(tiny()[0], device="cpu", dtype="float32"), lora=LoraSpec(4), shared=True)
    step(learner)
    learner.save_state(tmp_path)
    step(learner)
    before = {name: tensor.detach().clone() for name, tensor in learner._trainable.named().items()}
    spoiled(tmp_path, fault)
    with pytest.raises(UserError):
        learner.load_state(tmp_path)
    assert learner.step == 2
    for name, tensor in learner._trainable.named().items():
        assert torch.equal(tensor, before[name])


def test_a_full_disk_leaves_the_old_state(tiny, tmp_path):
    """Guards against an old state that is lost, or drafts left behind, when a new one cannot be written."""
    policy = Policy.load(tiny()[0], device="cpu", dtype="float32")
    learner = Learner(policy, lora=LoraSpec(4), shared=True)
    step(learner)
    learner.save_state(tmp_path / "state")
    kept = {file.name: file.read_bytes() for file in (tmp_path / "state").iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(MachineError, match="cannot save"):
            learner.save_state(tmp_path / "state")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {file.name: file.read_bytes() for file in (tmp_path / "state").iterdir()} == kept
