"""Passes over data must equal plain ones: transformers' model, one by one, losses as Tinker has them."""

import random
from dataclasses import replace

import pytest
import torch
from peft import LoraConfig, get_peft_model

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
)
from trainsmith.engine.weights import Layer, Weights, named_tensors
from trainsmith.errors import UserError

pytestmark = pytest.mark.component
LOSSES = (
    PrimeLoss(dppo_mask_low=0.02, dppo_mask_high=0.02, adv_tau=0.7, kl_tau=0.05),
    ImportanceSampling(),
    Ppo(0.5, 1.5),
    Cispo(0.5, 1.5),
    CrossEntropy(),
)
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def data_of(seed=0, groups=3, samples=4, vocabulary=250):
    """Groups under one header; some targets are not the next token; one datum twice; two temperatures."""
    draw = random.Random(seed)
    token = lambda count: tuple(draw.randrange(vocabulary) for _ in range(count))  # noqa: E731
    shared, data = token(7), []
    for group in range(groups):
        prompt = shared + token(draw.randint(1, 8))
        for _ in range(samples):
            full = prompt + token(draw.randint(2, 9))
            reply, size = len(prompt) - 1, len(full) - 1
            targets = list(full[1:])
            if group == 1:
                targets[-1], targets[2] = draw.randrange(vocabulary), draw.randrange(vocabulary)
            trained = [at >= reply and at % 5 != 3 for at in range(size)]
            data.append(
                Datum(
                    tokens=full[:-1],
                    targets=tuple(targets),
                    weights=tuple(float(on) for on in trained),
                    logprobs=tuple(-draw.uniform(3, 8) if on else 0.0 for on in trained),
                    advantages=tuple(draw.choice([-1.0, 0.0, 0.5, 1.5]) if on else 0.0 for on in trained),
                    temperature=0.7 if group == 2 else 1.0,
                )
            )
    return [*data, data[0]]


def weighted(data, seed=1):
    """The data with weights of both signs, also on prompts: what the SDK sends for a loss of the user's."""
    draw = random.Random(seed)
    weight = lambda: draw.choice([0.0, 1.0, 0.3, -2.0])  # noqa: E731
    return [replace(datum, weights=tuple(weight() for _ in datum.tokens)) for datum in data]


def plain(model, data, spec):
    """(summed loss, logprobs of each datum), one sequence at a time."""
    total, lines = 0.0, []
    for datum in data:
        logits = model(torch.tensor([datum.tokens])).logits[0] / datum.temperature
        ours = logits.log_softmax(dim=-1).gather(1, torch.tensor(datum.targets)[:, None])[:, 0]
        weights, advantages = torch.tensor(datum.weights), torch.tensor(datum.advantages)
        total = (
            total + (weights * plain_token_losses(ours, torch.tensor(datum.logprobs), advantages, spec)).sum()
        )
        lines.append(ours.detach().tolist())
    return total, lines


def plain_token_losses(target_logprobs, sampling_logprobs, advantages, spec):
    prob_ratio = torch.exp(target_logprobs - sampling_logprobs)
    match spec:
        case CrossEntropy():
            return -target_logprobs
        case ImportanceSampling():
            return -(prob_ratio * advantages)
        case Ppo(low, high):
            return -torch.min(prob_ratio * advantages, torch.clamp(prob_ratio, low, high) * advantages)
        case Cispo(low, high):
            return -(torch.clamp(prob_ratio, low, high).detach() * target_logprobs * advantages)
        case PrimeLoss(low, high, adv_tau, kl_tau):
            moved = target_logprobs.exp() - sampling_logprobs.exp()
            drop = torch.where(advantages > 0, moved > high, moved < -low)
            gain = torch.where(drop, 0.0, adv_tau * advantages * prob_ratio)
            return -gain + kl_tau * (target_logprobs - sampling_logprobs) ** 2


def gradients(learner):
    """The gradients of a full learner under Hugging Face's names."""
    weights = learner._trainable.merged()
    layers = [
        Layer(
            **{n: None if t is None else t.grad for n, t in ((n, getattr(layer, n)) for n in Layer.__slots__)}
        )
        for layer in weights.layers
    ]
    embedding = weights.embedding.grad
    head = embedding if weights.head is weights.embedding else weights.head.grad
    grads = Weights(embedding, layers, weights.norm.grad, head)
    return {n: t.clone() for n, t in named_tensors(grads, learner._policy.architecture).items()}


def gap(left, right):
    return float((left - right).norm() / right.norm().clamp_min(1e-12))


def learner_of(directory, **options):
    return Learner(Policy.load(directory, device="cpu", dtype="float32"), **options)


@pytest.mark.parametrize("spec", LOSSES, ids=lambda spec: type(spec).__name__)
@pytest.mark.parametrize(("kind", "tied", "limit"), [("llama", True, 10_000), ("qwen3", False, 40)])
def test_loss_logprobs_and_every_gradient_equal_the_plain_ones(tiny, kind, tied, limit, spec):
    """Guards against a mean for the sum, terms at the wrong token, clipped terms that keep a gradient."""
    directory, model = tiny(kind, tied)
    data = weighted(data_of()) if isinstance(spec, CrossEntropy) else data_of()
    learner = learner_of(directory, micro_batch_tokens=limit)
    done = learner.forward_backward(data, spec)
    loss, lines = plain(model, data, spec)
    loss.backward()
    assert done.loss == pytest.approx(float(loss.detach()), rel=1e-4)
    assert len(done.logprobs) == len(data)
    for ours, theirs in zip(done.logprobs, lines, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)
    theirs = {name: parameter.grad for name, parameter in model.named_parameters()}
    for name, gradient in gradients(learner).items():
        assert gap(gradient, theirs[name]) < 1e-4, name
    if not isinstance(spec, ImportanceSampling | CrossEntropy):
        assert 0 < done.metrics.masked_fraction < 1, "the test needs tokens on both sides of the clipping"
    assert done.metrics.packed_tokens < sum(len(datum.tokens) for datum in data)


def test_a_prompt_needs_no_mask(tiny):
    """Guards against prompts without a mask that change the gradient of a policy loss."""
    directory, _ = tiny()
    masked = data_of()
    bare = [
        Datum(d.tokens, d.targets, (1.0,) * len(d.tokens), d.logprobs, d.advantages, d.temperature)
        for d in masked
    ]
    grads, losses = [], []
    for data in (masked, bare):
        learner = learner_of(directory)
        losses.append(learner.forward_backward(data, Ppo()))
        grads.append(gradients(learner))
    assert losses[0].loss == pytest.approx(losses[1].loss, rel=1e-6)
    assert losses[0].logprobs == losses[1].logprobs
    assert losses[0].metrics == losses[1].metrics
    for name, gradient in grads[0].items():
        assert torch.equal(gradient, grads[1][name]), name


def test_forward_says_the_same_and_leaves_no_gradient(tiny):
    """Guards against a forward that trains, or that scores another model than the backward pass."""
    directory, _ = tiny("qwen2")
    learner = learner_of(directory, micro_batch_tokens=60)
    for spec in LOSSES:
        before = learner.forward(data_of(), spec)
        assert all(tensor.grad is None or not tensor.grad.any() for tensor in learner._trainable.tensors)
        after = learner.forward_backward(data_of(), spec)
        assert before.loss == pytest.approx(after.loss, rel=1e-5)
        assert before.metrics.mismatch_kl == pytest.approx(after.metrics.mismatch_kl, rel=1e-5)
        for left, right in zip(before.logprobs, after.logprobs, strict=True):
            assert left == pytest.approx(right, abs=1e-6)
        learner = learner_of(directory, micro_batch_tokens=60)


def test_several_passes_and_steps_equal_torchs_adamw_on_transformers(tiny):
    """Guards against a pass that forgets the last, a step that keeps gradients, AdamParams mixed up."""
    directory, model = tiny("qwen2", False)
    learner = learner_of(directory, micro_batch_tokens=50)
    adams = [
        AdamSpec(1e-3, 0.8, 0.9, 1e-8, 0.1, 0.5),
        AdamSpec(3e-3, 0.8, 0.9, 1e-8, 0.0, 0.0),
        AdamSpec(1e-3, 0.8, 0.9, 1e-6, 0.2, 50.0),
    ]
    theirs = torch.optim.AdamW(model.parameters(), foreach=False)
    for step, adam in enumerate(adams):
        theirs.param_groups[0] |= {
            "lr": adam.lr,
            "betas": (adam.beta1, adam.beta2),
            "eps": adam.eps,
            "weight_decay": adam.weight_decay,
        }
        theirs.zero_grad()
        for part in range(3 if step != 1 else 0):  # the second step has no pass: its gradient is zero
            data, spec = data_of(10 * step + part), LOSSES[(step + part) % 5]
            learner.forward_backward(data, spec)
            plain(model, data, spec)[0].backward()
        if step == 1:
            for parameter in model.parameters():
                parameter.grad = torch.zeros_like(parameter)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), adam.grad_clip_norm or 1e9)
        theirs.step()
        done = learner.optim_step(adam)
        assert done.taken and done.lr == adam.lr
        assert done.grad_norm == pytest.approx(float(norm), rel=1e-4)
    ours = named_tensors(learner._policy.weights, learner._policy.architecture)
    for name, parameter in model.named_parameters():
        assert torch.allclose(ours[name], parameter, atol=5e-5), name


def test_several_adapters_train_side_by_side_as_pefts_do_alone(tiny):
    """Guards against adapters that touch the base or each other, and against a copy of the base for each."""
    directory, model = tiny("qwen2", False)
    policy = Policy.load(directory, device="cpu", dtype="float32")
    base = {n: t.clone() for n, t in named_tensors(policy.weights, policy.architecture).items()}
    specs = (LoraSpec(4, 8.0), LoraSpec(2, 4.0))
    learners = [Learner(policy, lora=spec, seed=3 + at, shared=True) for at, spec in enumerate(specs)]
    for learner in learners:
        frozen = learner.network.layers[0].qkv.frozen.matrix
        assert frozen.data_ptr() == policy.weights.layers[0].qkv.data_ptr(), "the base is copied"
    first = [{n: t.detach().clone() for n, t in learner._trainable.named().items()} for learner in learners]
    for step in range(3):
        for at, learner in enumerate(learners):
            learner.forward_backward(data_of(step), LOSSES[step + at])
            learner.forward_backward(data_of(step + 50), LOSSES[step + at])
        for learner in learners:
            assert learner.optim_step(AdamSpec(1e-2, eps=1e-8)).taken
    for name, tensor in named_tensors(policy.weights, policy.architecture).items():
        assert torch.equal(tensor, base[name]), name
    plain_state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for at, (learner, spec) in enumerate(zip(learners, specs, strict=True)):
        expected = peft_training(model, plain_state, spec, first[at], at)
        for name, tensor in learner._trainable.named().items():
            assert torch.allclose(tensor, expected[name], atol=2e-4), name


def peft_training(model, state, spec, first, at):
    """The adapters after the same three steps by PEFT and torch."""
    model.load_state_dict(state)
    config = LoraConfig(r=spec.rank, lora_alpha=spec.alpha, target_modules=TARGETS, lora_dropout=0.0)
    wrapped = get_peft_model(model, config)
    adapters = {n.replace(".default", ""): p for n, p in wrapped.named_parameters() if p.requires_grad}
    assert set(adapters) == set(first), "the names in files are PEFT's"
    with torch.no_grad():
        for name, parameter in adapters.items():
            parameter.copy_(first[name])
    optimiser = torch.optim.AdamW(adapters.values(), lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)
    for step in range(3):
        optimiser.zero_grad()
        for seed in (step, step + 50):
            plain(wrapped, data_of(seed), LOSSES[step + at])[0].backward()
        optimiser.step()
    trained = {name: parameter.detach().clone() for name, parameter in adapters.items()}
    wrapped.unload()
    return trained


def test_a_gradient_that_is_not_finite_is_dropped(tiny):
    """Guards against NaN weights after an overflow, and against a bad pass that spoils the next step."""
    learner = learner_of(tiny()[0])
    before = [tensor.detach().clone() for tensor in learner._trainable.tensors]
    wild = Datum((1, 2), (2, 3), (1.0, 1.0), (-300.0, -300.0), (-1.0, -1.0))
    assert learner.forward_backward([wild], ImportanceSampling()).loss == pytest.approx(float("inf"))
    assert not learner.optim_step(AdamSpec()).taken and learner.step == 0
    assert all(torch.equal(a, b) for a, b in zip(before, learner._trainable.tensors, strict=True))
    learner.forward_backward(data_of(), Ppo())
    assert learner.optim_step(AdamSpec()).taken and learner.step == 1


def test_what_cannot_be_trained_is_refused_and_changes_nothing(tiny):
    """Guards against an index error deep in torch, and half a pass that stays in the gradients."""
    learner = learner_of(tiny()[0])
    learner.forward_backward(data_of(), Ppo())
    before = gradients(learner)
    one = (1.0,)
    for datum in (
        Datum((300,), (1,), one, one, one),
        Datum((1,), (300,), one, one, one),
        Datum((1,) * 257, (1,) * 257, one * 257, one * 257, one * 257),
    ):
        with pytest.raises(UserError, match=r"datum 1: .*(vocabulary|context)"):
            learner.forward_backward([data_of()[0], datum], Ppo())
    for name, gradient in gradients(learner).items():
        assert torch.equal(gradient, before[name]), name
    assert learner.forward_backward([], Ppo()).logprobs == ()
    with pytest.raises(UserError, match="adamw"):
        Learner(learner._policy, OptimSpec("sgd")).optim_step(AdamSpec())
    with pytest.raises(UserError, match="share"):
        Learner(learner._policy, shared=True)


def test_dropout_differs_between_passes_and_repeats_with_the_seed(tiny):
    """Guards against the same units dropped in every pass of a step, and dropout in `forward`."""
    directory, _ = tiny()

    def losses(seed):
        learner = learner_of(directory, lora=LoraSpec(4, 8.0, 0.5), seed=seed)
        learner.forward_backward(data_of(), CrossEntropy())
        learner.optim_step(AdamSpec(1e-2))
        passes = [learner.forward_backward(data_of(), CrossEntropy()).loss for _ in range(2)]
        return [*passes, *(learner.forward(data_of(), CrossEntropy()).loss for _ in range(2))]

    first = losses(1)
    assert first == losses(1)
    assert first[0] != first[1] and first[2] == first[3] and first[2] not in first[:2]


def test_half_a_pass_is_never_stepped_on(tiny):
    """Guards against gradients of a cancelled pass that the next step takes for whole ones."""
    directory, _ = tiny()
    weights = []
    for cancelled in (True, False):
        learner = learner_of(directory, lora=LoraSpec(4), micro_batch_tokens=40)
        if cancelled:
            learner.forward_backward(data_of(1), Ppo())
            steps = learner.stepwise(data_of(2), Ppo(), backward=True)
            next(steps)
            steps.close()
        learner.forward_backward(data_of(3), Ppo())
        learner.optim_step(AdamSpec(1e-2))
        weights.append(learner._trainable.named())
    for name, tensor in weights[0].items():
        assert torch.equal(tensor, weights[1][name]), name
