"""The engine on a CUDA GPU against itself on the CPU. Skipped where there is none."""

import pytest
import torch

from trainsmith.engine.cuda.graphs import shared_graphs
from trainsmith.engine.learner import Learner
from trainsmith.engine.policy import Policy
from trainsmith.engine.records import (
    AdamSpec,
    Cispo,
    CrossEntropy,
    Datum,
    ImportanceSampling,
    LoraSpec,
    OptimSpec,
    Ppo,
    PrimeLoss,
    SampleRequest,
    Trajectory,
)

pytestmark = [
    pytest.mark.component,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU"),
]


def requests(temperature):
    return [
        SampleRequest((257, *range(40, 60), 60 + index), 12, temperature, 100 * index + sample)
        for index in range(4)
        for sample in range(4)
    ]


def trajectories(policy, temperature=1.0):
    return [
        Trajectory(
            (*request.prompt, *done.tokens),
            (False,) * len(request.prompt) + (True,) * len(done.tokens),
            (0.0,) * len(request.prompt) + done.logprobs,
            1.0 if request.seed % 2 else -1.0,
            temperature,
        )
        for request, done in zip(requests(temperature), policy.sample(requests(temperature)), strict=True)
    ]


@pytest.mark.parametrize("kind", ["llama", "llama-biases", "qwen2", "qwen3"])
def test_greedy_tokens_and_logprobs_equal_the_cpus(tiny, kind):
    """Guards against a device path that computes something else."""
    directory, _ = tiny(kind)
    cpu = Policy.load(directory, device="cpu", dtype="float32").sample(requests(0.0))
    gpu = Policy.load(directory, device="cuda", dtype="float32").sample(requests(0.0))
    for left, right in zip(cpu, gpu, strict=True):
        assert left.tokens == right.tokens
        assert left.logprobs == pytest.approx(right.logprobs, abs=1e-3)


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_an_update_equals_the_cpus(tiny, kind):
    """Guards against a gradient or an optimiser that differs on the GPU."""
    directory, _ = tiny(kind)
    results = []
    for device in ("cpu", "cuda"):
        policy = Policy.load(directory, device=device, dtype="float32")
        batch = trajectories(Policy.load(directory, device="cpu", dtype="float32"))
        results.append(Learner(policy, OptimSpec("sgd", lr=0.1), PrimeLoss()).update(batch))
    assert results[0].loss == pytest.approx(results[1].loss, rel=1e-3, abs=1e-5)
    assert results[0].grad_norm == pytest.approx(results[1].grad_norm, rel=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sampler_and_learner_agree_after_steps(tiny, dtype):
    """Guards against sampler and learner drifting apart on the GPU."""
    policy = Policy.load(tiny("qwen3")[0], device="cuda", dtype=dtype)
    learner = Learner(policy, OptimSpec(lr=1e-3), PrimeLoss())
    for _ in range(5):
        stats = learner.update(trajectories(policy))
    assert stats.mismatch_kl < (1e-5 if dtype == "float32" else 1e-2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_same_seeds_give_the_same_weights(tiny, tmp_path, dtype):
    """Guards against a training run that does not repeat on one GPU."""
    directory, _ = tiny("llama")
    files = []
    for number in range(2):
        policy = Policy.load(directory, device="cuda", dtype=dtype)
        learner = Learner(policy, OptimSpec(lr=1e-3), PrimeLoss())
        for _ in range(5):
            learner.update(trajectories(policy))
        files.append(tmp_path / f"{number}.safetensors")
        learner.save(files[-1])
    assert files[0].read_bytes() == files[1].read_bytes()


def data_of(policy):
    """Groups of replies as data, with both signs of advantage."""
    data = []
    for number, (request, done) in enumerate(zip(requests(1.0), policy.sample(requests(1.0)), strict=True)):
        full, given = (*request.prompt, *done.tokens), len(request.prompt) - 1
        data.append(
            Datum(
                tokens=full[:-1],
                targets=full[1:],
                weights=(0.0,) * given + (1.0,) * len(done.tokens),
                logprobs=(0.0,) * given + tuple(done.logprobs),
                advantages=(0.0,) * given + (1.0 if number % 2 else -0.5,) * len(done.tokens),
            )
        )
    return data


@pytest.mark.parametrize("rank", [None, 4])
@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_passes_over_data_equal_the_cpus(tiny, kind, rank):
    """Guards against losses, logprobs, adapters or steps that differ on the GPU, full or LoRA."""
    directory, _ = tiny(kind)
    data = data_of(Policy.load(directory, device="cpu", dtype="float32"))
    told, sampled = [], []
    for device in ("cpu", "cuda"):
        policy = Policy.load(directory, device=device, dtype="float32")
        lora = LoraSpec(rank, 8.0) if rank else None
        learner = Learner(policy, lora=lora, seed=1, shared=lora is not None)
        lines = []
        for spec in (PrimeLoss(), ImportanceSampling(), Ppo(), Cispo(), CrossEntropy()):
            done = learner.forward_backward(data, spec)
            lines.append((done.loss, done.metrics.entropy, *done.logprobs[3]))
            lines.append((learner.optim_step(AdamSpec(1e-3, eps=1e-6)).grad_norm,))
        told.append(lines)
        sampled.append(policy.sampler_for(learner.snapshot()).sample(requests(0.0)))
    for left, right in zip(*told, strict=True):
        assert left == pytest.approx(right, rel=2e-3, abs=2e-4)
    for left, right in zip(*sampled, strict=True):
        assert left.tokens == right.tokens
        assert left.logprobs == pytest.approx(right.logprobs, abs=2e-3)


def test_adapters_train_repeatably_in_bfloat16(tiny):
    """Guards against LoRA on a GPU whose samples come from other weights, or that does not repeat."""
    directory, _ = tiny("qwen3")
    outcomes = []
    for _ in range(2):
        policy = Policy.load(directory, device="cuda", dtype="bfloat16")
        learner = Learner(policy, OptimSpec(lr=3e-3), PrimeLoss(), LoraSpec(4, 8.0), seed=2)
        for _ in range(4):
            stats = learner.update(trajectories(policy))
        assert stats.mismatch_kl < 1e-3
        outcomes.append([tensor.detach().cpu() for tensor in learner._trainable.tensors])
    assert all(torch.equal(left, right) for left, right in zip(*outcomes, strict=True))


def test_one_cache_of_graphs_serves_a_job_after_another(tiny):
    """Guards against graphs that read an earlier job's tensors, and a warm worker that differs."""
    directory, _ = tiny("llama")
    policy = Policy.load(directory, device="cuda", dtype="bfloat16")
    outcomes = []
    for _ in range(3):
        policy.reset()
        learner = Learner(policy, OptimSpec(lr=1e-3), PrimeLoss())
        for _ in range(3):
            learner.update(trajectories(policy))
        outcomes.append([tensor.detach().float().cpu() for tensor in policy.weights.tensors()])
        count = len(shared_graphs())
    assert len(shared_graphs()) == count
    for other in outcomes[1:]:
        assert all(torch.equal(left, right) for left, right in zip(outcomes[0], other, strict=True))


def test_graphs_are_bounded(tiny, monkeypatch):
    """Guards against memory that grows with every batch shape."""
    monkeypatch.setattr(shared_graphs(), "_most", 4)
    policy = Policy.load(tiny("qwen3")[0], device="cuda", dtype="bfloat16")
    for rows in (1, 2, 3, 5, 9, 17, 33, 65):
        policy.sample([SampleRequest((257, 40 + row), 6, 1.0, row) for row in range(rows)])
    assert len(shared_graphs()) <= 4
