"""Requests that come and go while others decode must get what they would get alone."""

import random
from dataclasses import replace

import pytest
import torch

from trainsmith.engine.batching import BatchLimits
from trainsmith.engine.policy import Policy
from trainsmith.engine.records import Completion, SampleRequest

pytestmark = pytest.mark.component


class Heard:
    """What a listener was told."""

    def __init__(self):
        self.tokens, self.logprobs, self.done = [], [], None

    def on_token(self, token, logprob):
        assert self.done is None
        self.tokens.append(token)
        self.logprobs.append(logprob)

    def on_done(self, completion):
        assert self.done is None
        self.done = completion


def requests_of(count, seed=0, groups=5, vocabulary=250):
    """Prompts with several headers, some equal, of all kinds of parameters."""
    draw = random.Random(seed)
    headers = [tuple(draw.randrange(vocabulary) for _ in range(length)) for length in (0, 9, 30)]
    prompts = [
        draw.choice(headers) + tuple(draw.randrange(vocabulary) for _ in range(draw.randint(1, 25)))
        for _ in range(groups)
    ]
    return [
        SampleRequest(
            draw.choice(prompts),
            draw.randint(1, 40),
            draw.choice([0.0, 0.7, 1.0]),
            seed=index,
            top_p=draw.choice([1.0, 0.8]),
            top_k=draw.choice([0, 20]),
            stop_tokens=(),
        )
        for index in range(count)
    ]


def play(policy, requests, arrivals, cancelled=()):
    """Submit each request before its step, cancel some after theirs, and run until all is over."""
    heard = [Heard() for _ in requests]
    rows, step, busy = {}, 0, True
    while busy or len(rows) < len(requests):
        for index, arrival in enumerate(arrivals):
            if arrival == step:
                rows[index] = policy.sampler.submit(requests[index], heard[index])
        for index, at in cancelled:
            if at == step:
                policy.sampler.cancel(rows[index])
        busy = policy.sampler.step()
        step += 1
    return heard


@pytest.mark.parametrize("kind", ["llama", "llama-biases", "qwen2", "qwen3"])
def test_late_comers_get_what_they_would_get_alone(tiny, kind):
    """Guards against caches that shift when rows join, leave, or share a prompt that is decoding."""
    policy = Policy.load(tiny(kind)[0], device="cpu", dtype="float32")
    requests = requests_of(30)
    alone = [policy.sample([request])[0] for request in requests]
    draw = random.Random(1)
    heard = play(policy, requests, [draw.choice([0, 0, 1, 2, 5, 9, 20, 33]) for _ in requests])
    for one, expected in zip(heard, alone, strict=True):
        assert one.done.tokens == expected.tokens == tuple(one.tokens)
        assert one.done.logprobs == pytest.approx(expected.logprobs, abs=1e-4)
        assert one.done.logprobs == tuple(one.logprobs)
        assert one.done.finish == "length"


def test_one_at_a_time_for_long(tiny):
    """Guards against own tokens of rows long gone that fill the cache, and against their being seen."""
    policy = Policy.load(tiny()[0], device="cpu", dtype="float32")
    requests = [replace(request, max_tokens=12) for request in requests_of(60, seed=2)]
    alone = [policy.sample([request])[0].tokens for request in requests]
    heard = play(policy, requests, [3 * index for index in range(60)])
    assert [one.done.tokens for one in heard] == alone


def test_cancelled_rows_leave_the_others_alone(tiny):
    """Guards against a cancelled row that goes on, or takes its neighbours' places along."""
    policy = Policy.load(tiny("qwen3")[0], device="cpu", dtype="float32")
    requests = [replace(request, max_tokens=20) for request in requests_of(20, seed=3)]
    alone = [policy.sample([request])[0] for request in requests]
    heard = play(
        policy, requests, [index // 4 for index in range(20)], [(index, 6) for index in range(0, 20, 3)]
    )
    for index, (one, expected) in enumerate(zip(heard, alone, strict=True)):
        if index % 3 == 0:
            assert one.done is None and 0 < len(one.tokens) < 20
            assert tuple(one.tokens) == expected.tokens[: len(one.tokens)]
        else:
            assert one.done.tokens == expected.tokens
    assert not policy.sampler.step()


def test_rows_can_be_cancelled_at_any_moment(tiny):
    """Guards against a cancelled row that is played after all, or whose second cancelling breaks another."""
    policy = Policy.load(tiny()[0], device="cpu", dtype="float32")
    requests = [replace(request, max_tokens=5) for request in requests_of(3, seed=8)]
    heard = [Heard() for _ in requests]
    waiting, stays, done = (policy.sampler.submit(*pair) for pair in zip(requests, heard, strict=True))
    policy.sampler.cancel(waiting)
    while policy.sampler.step():
        pass
    for row in (waiting, done, stays):
        policy.sampler.cancel(row)
    assert [one.done is None for one in heard] == [True, False, False]


def test_short_requests_do_not_wait_for_a_long_one(tiny, monkeypatch):
    """Guards against a batch that nothing joins until its longest row is done."""
    token = 3 * 2 * 2 * 16 * 4
    limits = BatchLimits(rows=64, cache_bytes=token * 500, prefill_tokens=64)
    monkeypatch.setattr("trainsmith.engine.policy.CPU_LIMITS", limits)
    policy = Policy.load(tiny()[0], device="cpu", dtype="float32")
    longs = [SampleRequest(tuple(range(n, n + 20)), 200, 1.0, n, stop_tokens=()) for n in range(2)]
    shorts = [SampleRequest((n, 1), 4, 1.0, n, stop_tokens=()) for n in range(40)]
    heard = [Heard() for _ in (*longs, *shorts)]
    for request, one in zip((*longs, *shorts), heard, strict=True):
        policy.sampler.submit(request, one)
    while any(one.done is None for one in heard[2:]):
        policy.sampler.step()
    assert all(one.done is None for one in heard[:2])


def test_the_same_arrivals_give_the_same_bits(tiny):
    """Guards against results that depend on a set's or a dictionary's order."""
    requests = requests_of(25, seed=4)
    arrivals = [index % 7 for index in range(25)]
    runs = []
    for _ in range(2):
        policy = Policy.load(tiny("qwen2")[0], device="cpu", dtype="float32")
        runs.append([one.done for one in play(policy, requests, arrivals)])
    assert runs[0] == runs[1]


def test_what_is_shared_is_read_once(tiny):
    """Guards against a header or a prompt that is read again for each row or each arrival."""
    policy = Policy.load(tiny()[0], device="cpu", dtype="float32")
    header = tuple(range(40))
    prompts = [(*header, 50 + n, 60 + n) for n in range(6)]
    requests = [SampleRequest(prompts[n % 6], 30, 1.0, n, stop_tokens=()) for n in range(24)]
    loop = policy.sampler.loop
    play(policy, requests[:12], [0] * 12)
    assert loop.read_tokens == 40 + 6 * 2
    before = loop.read_tokens
    play(policy, requests, [n // 3 for n in range(24)])
    assert loop.read_tokens - before == 40 + 6 * 2 + 0


def test_memory_is_bounded_and_order_is_kept(tiny, monkeypatch):
    """Guards against a batch beyond its bound, a request that starves, and one too large that never runs."""
    limits = BatchLimits(rows=6, cache_bytes=3 * 2 * 2 * 16 * 4 * 300, prefill_tokens=64)
    monkeypatch.setattr("trainsmith.engine.policy.CPU_LIMITS", limits)
    policy = Policy.load(tiny()[0], device="cpu", dtype="float32")
    requests = [*requests_of(40, seed=5), SampleRequest(tuple(range(100)), 120, 1.0, 1)]
    heard = [Heard() for _ in requests]
    for request, one in zip(requests, heard, strict=True):
        policy.sampler.submit(request, one)
    most, first = 0, []
    while policy.sampler.step():
        loop = policy.sampler.loop
        most = max(most, loop.rows)
        assert loop.rows == 1 or loop.cached_tokens <= 2 * 300
        first += [index for index, one in enumerate(heard) if one.tokens and index not in first]
    assert most == 6 and first == sorted(first)
    assert all(one.done for one in heard)


@pytest.mark.parametrize(
    ("kind", "tied"), [("llama", True), ("llama-biases", False), ("qwen2", False), ("qwen3", True)]
)
def test_prompt_logprobs_equal_transformers(tiny, kind, tied):
    """Guards against logprobs of another position, and against a shared prefix that hides some."""
    directory, model = tiny(kind, tied)
    policy = Policy.load(directory, device="cpu", dtype="float32")
    requests = [replace(r, prompt_logprobs=i % 2 == 0) for i, r in enumerate(requests_of(16, seed=6))]
    heard = play(policy, requests, [index // 5 for index in range(16)])
    for request, one in zip(requests, heard, strict=True):
        if not request.prompt_logprobs:
            assert one.done.prompt_logprobs is None
            continue
        with torch.no_grad():
            logits = model(torch.tensor([request.prompt])).logits[0, :-1].log_softmax(dim=-1)
        expected = logits.gather(1, torch.tensor(request.prompt[1:])[:, None])[:, 0].tolist()
        assert one.done.prompt_logprobs[0] is None
        assert one.done.prompt_logprobs[1:] == pytest.approx(expected, abs=1e-4)


def test_late_comers_in_bfloat16_say_what_the_model_says(tiny):
    """Guards against caches that shift in bfloat16 alone, where no two runs need give equal tokens."""
    directory, model = tiny("qwen3", False)
    policy = Policy.load(directory, device="cpu", dtype="bfloat16")
    requests = [replace(r, temperature=1.0, top_p=1.0, top_k=0) for r in requests_of(20, seed=8)]
    gaps = []
    for request, one in zip(requests, play(policy, requests, [n // 3 for n in range(20)]), strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([[*request.prompt, *one.tokens]])).logits[
                0, len(request.prompt) - 1 : -1
            ]
        exact = logits.log_softmax(dim=-1).gather(1, torch.tensor(one.tokens)[:, None])[:, 0].tolist()
        gaps += [abs(ours - theirs) for ours, theirs in zip(one.logprobs, exact, strict=True)]
    assert sum(gaps) / len(gaps) < 0.03 and max(gaps) < 0.3


def test_stop_strings_end_a_reply(tiny):
    """Guards against stop strings that are not looked for, or that end a neighbour's reply."""
    policy = Policy.load(tiny()[0], device="cpu", dtype="float32")
    free = SampleRequest(tuple(range(65, 90)), 60, 1.0, 3, stop_tokens=())
    whole: Completion = policy.sample([free])[0]
    text = policy.tokenizer.decode(whole.tokens)
    string = next(text[at : at + 3] for at in range(20, len(text)) if "\ufffd" not in text[at : at + 3])
    stopped, other = policy.sample([replace(free, stop_strings=("no such", string)), free])
    assert other.tokens == whole.tokens
    assert stopped.finish == "stop" and stopped.tokens == whole.tokens[: len(stopped.tokens)]
    assert string in policy.tokenizer.decode(stopped.tokens)
    assert string not in policy.tokenizer.decode(stopped.tokens[:-1])


def test_a_failure_forgets_the_rows_and_no_more(tiny, monkeypatch):
    """Guards against a sampler that is stuck with half-read rows for ever."""
    policy = Policy.load(tiny()[0], device="cpu", dtype="float32")
    request = requests_of(1)[0]
    expected = policy.sample([request])[0]
    with monkeypatch.context() as patch:
        patch.setattr(policy.rotary, "at", lambda *_: (_ for _ in ()).throw(MemoryError("none left")))
        with pytest.raises(MemoryError):
            policy.sample([request])
    assert not policy.sampler.step()
    assert policy.sample([request])[0] == expected
