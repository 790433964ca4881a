"""A packed update must equal the plain one: transformers' model, a sequence at a time, torch's optimiser."""

import random

import pytest
import torch
from safetensors.torch import load_file

from trainsmith.engine.learner import Learner
from trainsmith.engine.policy import Policy
from trainsmith.engine.records import LoraSpec, OptimSpec, PrimeLoss, SampleRequest, SchedulerSpec, Trajectory
from trainsmith.errors import UserError

pytestmark = pytest.mark.component
PLAIN_SGD = OptimSpec("sgd", lr=1.0, weight_decay=0.0, max_norm=None, momentum=0.0, nesterov=False)
LOSS = PrimeLoss(dppo_mask_low=0.02, dppo_mask_high=0.02, adv_tau=0.7, kl_tau=0.05)


def batch_of(seed=0, groups=3, samples=4, header=9, vocabulary=250):
    """Single- and multi-turn trajectories under one header, with repeated samples and stale logprobs."""
    draw = random.Random(seed)
    token = lambda count: tuple(draw.randrange(vocabulary) for _ in range(count))  # noqa: E731
    shared, batch = token(header), []
    for group in range(groups):
        prompt = shared + token(draw.randint(1, 8))
        for sample in range(samples):
            runs = [token(draw.randint(1, 5)) for _ in range(1 + group % 3)]
            tokens, mask = prompt, [False] * len(prompt)
            for turn, run in enumerate(runs):
                answer = token(draw.randint(1, 4)) if turn + 1 < len(runs) else ()
                tokens, mask = tokens + run + answer, mask + [True] * len(run) + [False] * len(answer)
            logprobs = tuple(-draw.uniform(2, 8) if on else 0.0 for on in mask)
            batch.append(Trajectory(tokens, tuple(mask), logprobs, draw.choice([-1.0, 0.0, 0.5, 1.5]), 1.0))
            if sample == 0:  # the same sample again, with another advantage and other logprobs
                again = tuple(x - 0.3 if x else 0.0 for x in logprobs)
                batch.append(Trajectory(tokens, tuple(mask), again, -0.5, 1.0))
    return batch


def plain_loss(model, batch, spec, temperature=1.0):
    """(loss, entropy, mismatch, masked share), written from prime-rl's definition, one sequence at a time."""
    total, entropy, kl, masked, count = 0.0, 0.0, 0.0, 0.0, sum(sum(t.mask) for t in batch)
    for t in batch:
        at = torch.tensor([index for index, on in enumerate(t.mask) if on])
        logits = model(torch.tensor([t.tokens])).logits[0, at - 1] / temperature
        logs = logits.log_softmax(dim=-1)
        new, old = logs.gather(1, torch.tensor(t.tokens)[at][:, None])[:, 0], torch.tensor(t.logprobs)[at]
        moved, advantage = new.exp() - old.exp(), t.advantage
        drop = moved > spec.dppo_mask_high if advantage > 0 else moved < -spec.dppo_mask_low
        gain = torch.where(drop, 0.0, spec.adv_tau * advantage * (new - old).exp())
        total = total + (-gain + spec.kl_tau * (new - old) ** 2).sum()
        entropy += float(-(logs.exp() * logs).detach().sum())
        kl += float(((new - old).exp() - (new - old) - 1).detach().sum())
        masked += float(drop.sum())
    return total / count, entropy / count, kl / count, masked / count


def named(policy):
    from trainsmith.engine.weights import named_tensors

    return {n: t.detach().clone() for n, t in named_tensors(policy.weights, policy.architecture).items()}


def relative_gap(left, right):
    return float((left - right).norm() / right.norm().clamp_min(1e-12))


@pytest.mark.parametrize(
    ("kind", "tied"),
    [
        ("llama", True),
        ("llama", False),
        ("llama-biases", True),
        ("qwen2", True),
        ("qwen3", False),
        ("qwen3", True),
    ],
)
@pytest.mark.parametrize("limit", [10_000, 60])
def test_packed_loss_and_every_gradient_equal_the_plain_ones(tiny, kind, tied, limit):
    """Guards against leaks between samples, terms lost in packing, gradients lost between micro-batches."""
    directory, model = tiny(kind, tied)
    policy = Policy.load(directory, device="cpu", dtype="float32")
    before, batch = named(policy), batch_of()
    stats = Learner(policy, PLAIN_SGD, LOSS, micro_batch_tokens=limit).update(batch)
    loss, entropy, kl, masked = plain_loss(model, batch, LOSS)
    loss.backward()
    assert stats.loss == pytest.approx(float(loss.detach()), rel=1e-5, abs=1e-6)
    assert (stats.entropy, stats.mismatch_kl) == pytest.approx((entropy, kl), rel=1e-4)
    assert stats.masked_fraction == pytest.approx(masked)
    assert 0 < masked < 1, "the test needs tokens on both sides of the mask"
    gradients = {name: p.grad for name, p in model.named_parameters()}
    norm = torch.stack([g.norm() for g in gradients.values()]).norm()
    assert stats.grad_norm == pytest.approx(float(norm), rel=1e-4)
    for name, tensor in named(policy).items():
        assert relative_gap(before[name] - tensor, gradients[name]) < 1e-4, name
    assert stats.trained_tokens == sum(sum(t.mask) for t in batch)
    assert stats.packed_tokens < sum(len(t.tokens) for t in batch)


def test_recomputed_activations_change_nothing(tiny, monkeypatch):
    """Guards against a gradient that differs for rows long enough to be recomputed."""
    directory, _ = tiny()
    results = []
    for limit in (1536, 1):
        monkeypatch.setattr("trainsmith.engine.decoder.RECOMPUTE_TOKENS", limit)
        policy = Policy.load(directory, device="cpu", dtype="float32")
        Learner(policy, PLAIN_SGD, LOSS).update(batch_of())
        results.append(named(policy))
    for name, tensor in results[0].items():
        assert torch.allclose(tensor, results[1][name], atol=1e-6), name


def test_temperature_divides_the_learners_logits(tiny):
    """Guards against a learner that compares logprobs at temperature 1 with samples at another."""
    directory, model = tiny()
    policy = Policy.load(directory, device="cpu", dtype="float32")
    batch = [Trajectory(t.tokens, t.mask, t.logprobs, t.advantage, 0.7) for t in batch_of()]
    stats = Learner(policy, PLAIN_SGD, LOSS).update(batch)
    loss, entropy, kl, _ = plain_loss(model, batch, LOSS, 0.7)
    assert stats.loss == pytest.approx(float(loss.detach()), rel=1e-5, abs=1e-6)
    assert (stats.entropy, stats.mismatch_kl) == pytest.approx((entropy, kl), rel=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("lora", [None, LoraSpec(rank=4, alpha=8.0)])
def test_sampled_logprobs_are_the_learners(tiny, dtype, lora):
    """Guards against sampler and learner drifting apart, also after a step (merged adapters, masters)."""
    policy = Policy.load(tiny("qwen3")[0], device="cpu", dtype=dtype)
    learner = Learner(policy, OptimSpec(lr=1e-3, weight_decay=0.0), PrimeLoss(), lora)
    prompts = [(1, 2, 3, 4, 5 + index) for index in range(4)]
    tolerance = 1e-3 if dtype == "float32" else 5e-2
    for step in range(3):
        requests = [
            SampleRequest(p, 8, 1.0, step * 100 + i * 10 + j) for i, p in enumerate(prompts) for j in range(4)
        ]
        batch = [
            grown(r, c, 0.5 if n % 2 else -0.5)
            for n, (r, c) in enumerate(zip(requests, policy.sample(requests), strict=True))
        ]
        for trajectory, ours in zip(batch, learner.logprobs(batch), strict=True):
            theirs = [x for x, on in zip(trajectory.logprobs, trajectory.mask, strict=True) if on]
            assert ours == pytest.approx(theirs, abs=tolerance)
        stats = learner.update(batch)
        assert abs(stats.mismatch_kl) < tolerance**2
        assert stats.masked_fraction == 0


def grown(request, completion, advantage):
    n = len(request.prompt)
    mask = (False,) * n + (True,) * len(completion.tokens)
    return Trajectory(request.prompt + completion.tokens, mask, (0.0,) * n + completion.logprobs, advantage)


def test_full_steps_equal_torchs_adamw_on_transformers(tiny):
    """Guards against an optimiser over the wrong tensors, or a learning rate a step late."""
    directory, model = tiny()
    policy = Policy.load(directory, device="cpu", dtype="float32")
    schedule = SchedulerSpec("linear", warmup_steps=2, decay_steps=0, min_lr=1e-4)
    spec = OptimSpec(lr=1e-3, weight_decay=0.1, max_norm=0.5, betas1=0.8, betas2=0.9, scheduler=schedule)
    learner = Learner(policy, spec, LOSS)
    plain = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, betas=(0.8, 0.9), foreach=False)
    for step, rate in enumerate([1e-4, 5.5e-4, 1e-3]):
        batch = batch_of(step)
        assert learner.update(batch).lr == pytest.approx(rate)
        plain.param_groups[0]["lr"] = rate
        plain.zero_grad()
        plain_loss(model, batch, LOSS)[0].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        plain.step()
    ours = named(policy)
    for name, parameter in model.named_parameters():
        assert torch.allclose(ours[name], parameter, atol=2e-5), name


def test_lora_steps_equal_pefts(tiny):
    """Guards against a wrong scale, an adapter on the wrong matrix, or frozen weights that move."""
    from peft import LoraConfig, get_peft_model

    directory, model = tiny("qwen2", False)
    policy = Policy.load(directory, device="cpu", dtype="float32")
    learner = Learner(
        policy, OptimSpec(lr=1e-2, weight_decay=0.0, max_norm=None), LOSS, LoraSpec(4, 8.0), seed=3
    )
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    wrapped = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules=targets, lora_dropout=0.0))
    layers = zip(learner._trainable._adapted, wrapped.base_model.model.model.layers, strict=True)
    with torch.no_grad():
        for adapted, layer in layers:
            modules = {
                "qkv": [layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj],
                "output": [layer.self_attn.o_proj],
                "gate_up": [layer.mlp.gate_proj, layer.mlp.up_proj],
                "down": [layer.mlp.down_proj],
            }
            for key, parts in modules.items():
                for part, adapter in zip(parts, adapted[key].adapters, strict=True):
                    part.lora_A["default"].weight.copy_(adapter.down)
                    assert not adapter.up.any() and not part.lora_B["default"].weight.any()
    plain = torch.optim.AdamW([p for p in wrapped.parameters() if p.requires_grad], lr=1e-2, weight_decay=0.0)
    for step in range(3):
        batch = batch_of(step)
        learner.update(batch)
        plain.zero_grad()
        plain_loss(wrapped, batch, LOSS)[0].backward()
        plain.step()
    expected, ours = wrapped.merge_and_unload().state_dict(), named(policy)
    for name, tensor in ours.items():
        assert torch.allclose(tensor, expected[name], atol=2e-5), name


def test_lora_starts_at_kaimings_bound_and_follows_its_seed(tiny):
    """Guards against adapters that start too large, or the same for every seed."""
    directory, _ = tiny()

    def first_down(seed):
        policy = Policy.load(directory, device="cpu", dtype="float32")
        return (
            Learner(policy, OptimSpec(), None, LoraSpec(8), seed=seed)
            ._trainable._adapted[0]["qkv"]
            .adapters[0]
            .down
        )

    down = first_down(0)
    assert float(down.detach().abs().max()) <= 64**-0.5
    assert float(down.detach().std()) == pytest.approx(64**-0.5 / 3**0.5, rel=0.15)
    assert torch.equal(down, first_down(0)) and not torch.equal(down, first_down(1))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_learners_can_follow_each_other_on_one_policy(tiny, dtype):
    """Guards against a policy that a full learner leaves unfit for LoRA, or a learner that starts over."""
    policy = Policy.load(tiny("qwen3")[0], device="cpu", dtype=dtype)
    for lora in (None, LoraSpec(4), None, LoraSpec(4, dropout=0.2)):
        learner = Learner(policy, OptimSpec(lr=1e-3), LOSS, lora)
        before = named(policy)
        assert all(torch.equal(t.to(before[n].dtype), before[n]) for n, t in named_masters(learner).items())
        learner.update(batch_of(0))
        learner.update(batch_of(1))
        changed = {name for name, tensor in named(policy).items() if not torch.equal(tensor, before[name])}
        assert ("model.embed_tokens.weight" in changed) == (lora is None)
        assert "model.layers.2.mlp.down_proj.weight" in changed


def test_lora_dropout_drops_in_training_only_and_repeats_with_its_seed(tiny):
    """Guards against dropout at sampling time, or a run that does not repeat."""
    directory, _ = tiny()

    def trained(dropout):
        policy = Policy.load(directory, device="cpu", dtype="float32")
        learner = Learner(policy, OptimSpec(lr=1e-2), LOSS, LoraSpec(4, 8.0, dropout), seed=1)
        learner.update(batch_of(0))
        learner.update(batch_of(1))
        return named(policy)["model.layers.1.mlp.down_proj.weight"]

    assert torch.equal(trained(0.5), trained(0.5))
    assert not torch.allclose(trained(0.5), trained(0.0), atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("lora", [None, LoraSpec(4)])
def test_saved_weights_are_the_trained_ones(tiny, tmp_path, dtype, lora):
    """Guards against a save that loses the adapters, the masters, a name, or half the file."""
    directory, model = tiny("qwen3", False)
    policy = Policy.load(directory, device="cpu", dtype=dtype)
    learner = Learner(policy, OptimSpec(lr=1e-2), LOSS, lora)
    learner.update(batch_of())
    learner.save(tmp_path / "out" / "model.safetensors")
    saved = load_file(tmp_path / "out" / "model.safetensors")
    assert set(saved) == set(model.state_dict())
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model.safetensors"]
    request = SampleRequest((5, 6, 7), 12, 0.0, 0)
    trained = policy.sample([request])
    policy.reset()
    assert policy.sample([request]) != trained
    policy.load_weights(tmp_path / "out" / "model.safetensors")
    assert policy.sample([request]) == trained


def test_bfloat16_keeps_steps_below_its_own_resolution(tiny, tmp_path):
    """Guards against training the rounded copies: steps of 1e-5 must add up in the float32 masters."""
    directory, _ = tiny()
    policy = Policy.load(directory, device="cpu", dtype="bfloat16")
    learner = Learner(policy, OptimSpec("sign_sgd", lr=1e-5, weight_decay=0.0), LOSS)
    before = named(Policy.load(directory, device="cpu", dtype="float32"))
    for _ in range(5):
        learner.update(batch_of())
    learner.save(tmp_path / "model.safetensors")
    name = "model.layers.0.mlp.up_proj.weight"
    moved = (load_file(tmp_path / "model.safetensors")[name] - before[name]).abs()
    assert float(moved.median()) == pytest.approx(5e-5, rel=0.05)


def test_bfloat16_gradients_are_near_float32s(tiny):
    """Guards against a master that gets a transposed or half-summed gradient."""
    directory, _ = tiny("qwen2", False)
    moves = []
    for dtype in ("float32", "bfloat16"):
        policy = Policy.load(directory, device="cpu", dtype=dtype)
        learner = Learner(policy, PLAIN_SGD, PrimeLoss(kl_tau=0.05), micro_batch_tokens=60)
        before = {n: t.clone() for n, t in named_masters(learner).items()}
        learner.update(batch_of())
        moves.append({n: (before[n] - t).flatten() for n, t in named_masters(learner).items()})
    for name, exact in moves[0].items():
        assert float(torch.cosine_similarity(exact, moves[1][name], dim=0)) > 0.97, name


def named_masters(learner):
    from trainsmith.engine.weights import named_tensors

    weights = learner._trainable.merged()
    return {n: t.detach().clone() for n, t in named_tensors(weights, learner._policy.architecture).items()}


def test_a_step_that_cannot_be_taken_takes_none(tiny):
    """Guards against weight decay on an empty batch, and against NaN weights after an overflow."""
    policy = Policy.load(tiny()[0], device="cpu", dtype="float32")
    learner = Learner(policy, OptimSpec(lr=1e-2), LOSS)
    before = named(policy)
    assert learner.update([]).trained_tokens == 0
    assert learner.update([Trajectory((1, 2), (False, False), (0.0, 0.0), 1.0)]).trained_tokens == 0
    wild = Trajectory((1, 2, 3), (False, True, True), (0.0, -300.0, -300.0), -1.0)
    assert learner.update([wild]).loss == pytest.approx(float("inf"))
    assert learner.step == 0
    for name, tensor in named(policy).items():
        assert torch.equal(tensor, before[name])
    with pytest.raises(UserError, match="token 300"):
        learner.update([Trajectory((1, 300, 4), (False, False, True), (0.0, 0.0, -1.0), 1.0)])
    with pytest.raises(UserError, match="context"):
        learner.update([Trajectory((1,) * 300, (False,) * 299 + (True,), (0.0,) * 300, 1.0)])
