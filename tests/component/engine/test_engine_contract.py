"""What sampler and learner promise each other: rows that come and go, weights that move."""

import pytest

from trainsmith.engine.learner import Learner
from trainsmith.engine.policy import Policy
from trainsmith.engine.records import (
    AdamSpec,
    CrossEntropy,
    Datum,
    ImportanceSampling,
    LoraSpec,
    SampleRequest,
)

pytestmark = pytest.mark.component
HEAD = tuple(range(10, 40))


class Kept:
    """A listener that keeps what it hears."""

    def __init__(self):
        self.tokens, self.logprobs, self.done = [], [], []

    def on_token(self, token, logprob):
        self.tokens.append(token)
        self.logprobs.append(logprob)

    def on_done(self, completion):
        self.done.append(completion)


@pytest.fixture
def policy(tiny):
    return Policy.load(tiny()[0], device="cpu", dtype="float32")


def requests():
    """Equal prompts, a common head, a prefix of another prompt, a stranger; every way to choose a token."""
    prompts = [(*HEAD, 1), (*HEAD, 1), (*HEAD, 2, 3), HEAD, HEAD[:5], (200, 7)]
    ways = [{}, {"top_p": 0.7}, {"top_k": 3}, {"temperature": 0.0}, {"stop_strings": ("a",)}, {"top_p": 0.5}]
    return [
        SampleRequest(prompt, 5 + 3 * n, way.pop("temperature", 0.8), seed=n, stop_tokens=(), **way)
        for n, (prompt, way) in enumerate(zip(prompts, ways, strict=True))
    ]


def close(some, others):
    return some == pytest.approx(others, abs=1e-4)


@pytest.mark.parametrize("apart", [1, 2, 7])
def test_rows_that_join_late_are_as_if_alone(policy, apart):
    """Guards against caches of rows that came earlier, or left, in what a row sees."""
    alone = [policy.sample([request])[0] for request in requests()]
    together = policy.sample(requests())
    heard = [Kept() for _ in alone]
    for request, listener in zip(requests(), heard, strict=True):
        policy.sampler.submit(request, listener)
        for _ in range(apart):
            policy.sampler.step()
    while policy.sampler.step():
        pass
    for one, other, listener in zip(alone, together, heard, strict=True):
        (late,) = listener.done
        assert one.tokens == other.tokens == late.tokens == tuple(listener.tokens)
        assert one.finish == other.finish == late.finish
        assert close(one.logprobs, late.logprobs) and close(one.logprobs, other.logprobs)


def test_a_cancelled_row_changes_no_other(policy):
    """Guards against a row that leaves in the middle and takes its neighbours' caches with it."""
    wanted = policy.sample(requests())
    heard = [Kept() for _ in wanted]
    rows = [policy.sampler.submit(*each) for each in zip(requests(), heard, strict=True)]
    waiting = policy.sampler.submit(requests()[0], heard[0])
    policy.sampler.cancel(waiting)
    for _ in range(2):
        policy.sampler.step()
    policy.sampler.cancel(rows[2])
    while policy.sampler.step():
        pass
    policy.sampler.cancel(rows[0])
    assert [len(listener.done) for listener in heard] == [1, 1, 0, 1, 1, 1]
    assert len(heard[2].tokens) == 2
    for number in (0, 1, 3, 4, 5):
        assert heard[number].done[0].tokens == wanted[number].tokens


def read(learner, request, completion):
    """The learner's logprobs of a completion."""
    line = request.prompt + completion.tokens
    count = len(line) - 1
    trained = [0.0] * (len(request.prompt) - 1) + [1.0] * len(completion.tokens)
    datum = Datum(line[:-1], line[1:], tuple(trained), (0.0,) * count, (1.0,) * count, request.temperature)
    (found,) = learner.forward([datum], ImportanceSampling()).logprobs
    return found[-len(completion.tokens) :]


def test_sampled_logprobs_are_the_learners_before_and_after_steps(policy):
    """Guards against top-p in the logprobs, another temperature, or a sampler of old weights."""
    learner = Learner(policy, lora=LoraSpec(4, 8.0), shared=True, seed=3)
    sampler = policy.sampler_for(learner.network)
    data = [Datum(HEAD[:-1], HEAD[1:], (1.0,) * 29, (0.0,) * 29, (0.0,) * 29)]
    base = policy.sample(requests())
    for _ in range(2):
        for request, done in zip(requests(), sampler.sample(requests()), strict=True):
            if request.temperature:
                assert close(done.logprobs, read(learner, request, done))
        learner.forward_backward(data, CrossEntropy())
        learner.optim_step(AdamSpec(lr=1e-2))
    assert policy.sample(requests()) == base
    assert sampler.sample(requests()) != base


def test_prompt_logprobs_are_the_learners(policy):
    """Guards against prompt logprobs that are off by one, or of another model."""
    learner = Learner(policy, lora=LoraSpec(4, 8.0), shared=True)
    request = SampleRequest(HEAD, 1, 1.0, seed=0, prompt_logprobs=True)
    first, *others = policy.sample([request, *requests()])[0].prompt_logprobs
    datum = Datum(HEAD[:-1], HEAD[1:], (1.0,) * 29, (0.0,) * 29, (0.0,) * 29)
    assert first is None
    assert close(tuple(others), learner.forward([datum], CrossEntropy()).logprobs[0])
