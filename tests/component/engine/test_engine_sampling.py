"""Sampling must give what transformers gives, whatever is shared, padded or dropped on the way."""

import random
from dataclasses import replace

import pytest
import torch

from trainsmith.engine.batching import BatchLimits
from trainsmith.engine.policy import Policy
from trainsmith.engine.records import SampleRequest
from trainsmith.errors import UserError

pytestmark = pytest.mark.component
FAMILIES = [
    ("llama", True),
    ("llama", False),
    ("llama-biases", False),
    ("qwen2", True),
    ("qwen2", False),
    ("qwen3", True),
]
FAMILIES += [("qwen3", False)]


def prompts_of(count, seed=0, header=12, longest=30, vocabulary=250):
    """Prompts of very different lengths under one header, two of them equal but for the last token."""
    draw = random.Random(seed)
    shared = tuple(draw.randrange(vocabulary) for _ in range(header))
    tails = [tuple(draw.randrange(vocabulary) for _ in range(draw.randint(1, longest))) for _ in range(count)]
    tails[-1] = (*tails[0][:-1], (tails[0][-1] + 1) % vocabulary)
    return [shared + tail for tail in tails]


def by_transformers(model, prompt, new):
    tokens = torch.tensor([prompt])
    out = model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=new, do_sample=False)
    return tuple(out[0, len(prompt) :].tolist())


def logprobs_by_transformers(model, prompt, tokens, temperature=1.0):
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1]
    return (logits / temperature).log_softmax(dim=-1).gather(1, torch.tensor(tokens)[:, None])[:, 0].tolist()


@pytest.mark.parametrize(("kind", "tied"), FAMILIES)
def test_greedy_equals_transformers(tiny, kind, tied):
    """Guards against any error of the forward pass, the caches, positions, masks or stopping."""
    directory, model = tiny(kind, tied)
    policy = Policy.load(directory, device="cpu", dtype="float32")
    prompts = prompts_of(7)
    done = policy.sample([SampleRequest(prompt, 20, 0.0, 0) for prompt in prompts])
    for prompt, completion in zip(prompts, done, strict=True):
        assert completion.tokens == by_transformers(model, prompt, 20)
        expected = logprobs_by_transformers(model, prompt, completion.tokens)
        assert completion.logprobs == pytest.approx(expected, abs=1e-4)
        assert completion.finish == ("stop" if completion.tokens[-1] == 258 else "length")


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_sampled_logprobs_are_exact_at_the_sampling_temperature(tiny, temperature):
    """Guards against logprobs of another token, another temperature, or a stale cache."""
    directory, model = tiny("qwen3", False)
    policy = Policy.load(directory, device="cpu", dtype="float32")
    requests = [
        SampleRequest(p, 16, temperature, i * 8 + j) for i, p in enumerate(prompts_of(4)) for j in range(5)
    ]
    for request, completion in zip(requests, policy.sample(requests), strict=True):
        expected = logprobs_by_transformers(model, request.prompt, completion.tokens, temperature)
        assert completion.logprobs == pytest.approx(expected, abs=1e-4)


def test_rows_do_not_depend_on_their_batch(tiny):
    """Guards against draws that change with batch size, order, or the company of other prompts."""
    policy = Policy.load(tiny()[0], device="cpu", dtype="float32")
    requests = [SampleRequest(p, 12, 1.0, i * 100 + j) for i, p in enumerate(prompts_of(5)) for j in range(4)]
    together = policy.sample(requests)
    shuffled = list(range(len(requests)))
    random.Random(1).shuffle(shuffled)
    apart = policy.sample([requests[index] for index in shuffled])
    assert [apart[shuffled.index(index)].tokens for index in range(len(requests))] == [
        c.tokens for c in together
    ]
    assert [policy.sample([request])[0].tokens for request in requests] == [c.tokens for c in together]
    assert len({completion.tokens for completion in together}) > 15


def test_requests_of_every_kind_at_once(tiny):
    """Guards against one row's temperature, limit or end deciding for another; prompts that are prefixes."""
    policy = Policy.load(tiny()[0], device="cpu", dtype="float32")
    base = prompts_of(3)
    prompts = [*base, base[0] + base[1], base[0][:1], base[0][:13]]
    requests = [SampleRequest(p, 1 + 3 * i, 0.0 if i % 2 else 0.9, i) for i, p in enumerate(prompts)]
    together = policy.sample(requests)
    for request, completion in zip(requests, together, strict=True):
        assert policy.sample([request])[0].tokens == completion.tokens
        assert len(completion.tokens) <= request.max_tokens


def test_rows_that_stop_keep_the_stop_token_and_leave_the_rest_alone(tiny):
    """Guards against dropped rows shifting their neighbours' caches."""
    directory, model = tiny("llama", False)
    with torch.no_grad():
        model.lm_head.weight[258] += model.lm_head.weight.abs().max() * 0.6
    model.save_pretrained(directory)
    policy = Policy.load(directory, device="cpu", dtype="float32")
    requests = [SampleRequest(p, 40, 1.0, i * 10 + j) for i, p in enumerate(prompts_of(6)) for j in range(6)]
    done = policy.sample(requests)
    lengths = {len(completion.tokens) for completion in done if completion.finish == "stop"}
    assert len(lengths) > 3, "the test needs rows that stop at different steps"
    for request, completion in zip(requests, done, strict=True):
        assert (completion.tokens[-1] == 258) == (completion.finish == "stop")
        assert 258 not in completion.tokens[:-1]
        expected = logprobs_by_transformers(model, request.prompt, completion.tokens)
        assert completion.logprobs == pytest.approx(expected, abs=1e-4)


def test_many_more_rows_than_one_batch(tiny, monkeypatch):
    """Guards against an order lost between batches, or prompts lost between prefill chunks."""
    limits = BatchLimits(rows=7, cache_bytes=2**30, prefill_tokens=40)
    monkeypatch.setattr("trainsmith.engine.policy.CPU_LIMITS", limits)
    directory, model = tiny()
    policy = Policy.load(directory, device="cpu", dtype="float32")
    prompts = prompts_of(12)
    done = policy.sample([SampleRequest(prompts[i % 12], 8, 0.0, 0) for i in range(30)])
    for index, completion in enumerate(done):
        assert completion.tokens == by_transformers(model, prompts[index % 12], 8)


def test_sharded_weights(tiny):
    """Guards against reading only the first file of a sharded model."""
    directory, model = tiny("qwen2", False, shards="60KB")
    assert len(list(directory.glob("*.safetensors"))) > 2
    policy = Policy.load(directory, device="cpu", dtype="float32")
    (prompt,) = prompts_of(2)[:1]
    (completion,) = policy.sample([SampleRequest(prompt, 10, 0.0, 0)])
    assert completion.tokens == by_transformers(model, prompt, 10)


def test_bfloat16_stays_near_float32(tiny):
    """Guards against a compute type that breaks the model instead of rounding it."""
    directory, _ = tiny("qwen3", False)
    prompts = prompts_of(6)
    exact = Policy.load(directory, device="cpu", dtype="float32")
    rounded = Policy.load(directory, device="cpu", dtype="bfloat16")
    requests = [SampleRequest(prompt, 1, 1.0, seed) for seed, prompt in enumerate(prompts)]
    pairs = zip(exact.sample(requests), rounded.sample(requests), strict=True)
    gaps = [abs(a.logprobs[0] - b.logprobs[0]) for a, b in pairs if a.tokens == b.tokens]
    assert len(gaps) >= 4 and max(gaps) < 0.2


def test_requests_that_cannot_be_served_are_refused(tiny):
    """Guards against an index error deep in the model for a prompt beyond its context."""
    policy = Policy.load(tiny()[0], device="cpu", dtype="float32")
    good = SampleRequest((1, 2, 3), 4, 1.0, 0)
    for bad in (
        replace(good, prompt=()),
        replace(good, max_tokens=0),
        replace(good, temperature=-1.0),
        replace(good, max_tokens=1000),
        replace(good, prompt=(1, 300)),
        replace(good, prompt=(1, -1)),
    ):
        with pytest.raises(UserError):
            policy.sample([good, bad])
    assert policy.sample([]) == []


def test_gpu_that_is_not_there_is_named(tiny):
    """Guards against a CUDA traceback on a machine without a GPU."""
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(UserError, match="GPU"):
        Policy.load(tiny()[0], device="cuda")
