"""The unmodified SDK against a real server: train, sample, save, load."""

import asyncio

import numpy as np
import pytest
import tinker
import torch
from tinker import types

pytestmark = [pytest.mark.component, pytest.mark.filterwarnings("ignore::FutureWarning")]

TEXT = "the quick brown fox jumps over the lazy dog"


def datum(tokens, **inputs):
    targets = {"target_tokens": np.asarray(tokens[1:])}
    arrays = {name: np.asarray(value, dtype=np.float32) for name, value in inputs.items()}
    return types.Datum(model_input=types.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs=targets | arrays)


def supervised(text=TEXT):
    tokens = list(text.encode())
    return datum(tokens, weights=[1.0] * (len(tokens) - 1))


def reply(prompt, sequence):
    """A prompt with its sampled reply, every token weighted."""
    tokens = prompt + list(sequence.tokens)
    return datum(tokens, weights=[1.0] * (len(tokens) - 1))


def step(run, data, lr=1e-2, loss="cross_entropy"):
    done = run.forward_backward(data, loss)
    moved = run.optim_step(types.AdamParams(learning_rate=lr))
    return done.result(), moved.result()


def logprobs(run, data):
    outputs = run.forward(data, "cross_entropy").result().loss_fn_outputs
    return [np.asarray(each["logprobs"].data) for each in outputs]


def test_training_lowers_the_loss_and_the_sampler_follows(client, server):
    """Guards against a gradient that goes nowhere, and against a sampler of stale or base weights."""
    run = client.create_lora_training_client(server.model, rank=4, seed=1)
    prompt, params = types.ModelInput.from_ints(list(TEXT[:10].encode())), types.SamplingParams(max_tokens=1)
    before = run.save_weights_and_get_sampling_client()
    losses = [step(run, [supervised()])[0].metrics["loss:sum"] for _ in range(12)]
    after = run.save_weights_and_get_sampling_client()
    assert losses[-1] < 0.5 * losses[0]
    old, new = (each.compute_logprobs(prompt).result() for each in (before, after))
    assert sum(new[1:]) > sum(old[1:]) + 1
    assert old[0] is None and new[0] is None
    assert before.sample(prompt, 1, params).result().sequences[0].sequence_id


@pytest.mark.parametrize("temperature", [1.0])
def test_sampled_logprobs_are_the_learners(client, server, temperature):
    """Guards against a sampler and a learner that compute different models: every ratio would be off."""
    run = client.create_lora_training_client(server.model, rank=8, seed=2)
    for _ in range(3):
        step(run, [supervised()])
    sampler = run.save_weights_and_get_sampling_client()
    prompt = list(TEXT[:7].encode())
    params = types.SamplingParams(max_tokens=24, temperature=temperature, seed=5)
    sequences = sampler.sample(types.ModelInput.from_ints(prompt), 8, params).result().sequences
    assert len({tuple(each.tokens) for each in sequences}) > 1
    read = logprobs(
        run,
        [reply(prompt, each) for each in sequences],
    )
    for sequence, line in zip(sequences, read, strict=True):
        assert np.abs(line[len(prompt) - 1 :] - np.asarray(sequence.logprobs)).max() < 1e-4
        whole = sampler.compute_logprobs(types.ModelInput.from_ints(prompt + list(sequence.tokens))).result()
        assert np.abs(line - np.asarray(whole[1:])).max() < 1e-4


@pytest.mark.parametrize("loss", ["importance_sampling", "ppo", "cispo"])
def test_policy_gradients_raise_what_was_rewarded(client, server, loss):
    """Guards against a wrong sign, or advantages that go to the wrong tokens."""
    run = client.create_lora_training_client(server.model, rank=4, seed=3)
    sampler = run.save_weights_and_get_sampling_client()
    prompt = list(TEXT[:6].encode())
    params = types.SamplingParams(max_tokens=6, seed=7)
    good, bad = sampler.sample(types.ModelInput.from_ints(prompt), 2, params).result().sequences
    lead = [0.0] * (len(prompt) - 1)
    data = [
        datum(
            prompt + list(each.tokens),
            logprobs=lead + list(each.logprobs),
            advantages=lead + [advantage] * len(each.tokens),
        )
        for each, advantage in ((good, 1.0), (bad, -1.0))
    ]
    before = logprobs(
        run,
        [reply(prompt, each) for each in (good, bad)],
    )
    step(run, data, loss=loss, lr=1e-2)
    after = logprobs(
        run,
        [reply(prompt, each) for each in (good, bad)],
    )
    gained = [float((new - old)[len(lead) :].sum()) for new, old in zip(after, before, strict=True)]
    assert gained[0] > 0 > gained[1]


def test_gradients_of_several_requests_add_up(clients, server):
    """Guards against a request that replaces the gradient before it, or averages instead of sums."""
    data = [supervised(), supervised("pack my box with five dozen liquor jugs")]
    results = []
    for parts in ([data], [data[:1], data[1:]]):
        run = clients().create_lora_training_client(server.model, rank=4, seed=4)
        for part in parts:
            run.forward_backward(part, "cross_entropy")
        run.optim_step(types.AdamParams(learning_rate=1e-2)).result()
        results.append(np.concatenate(logprobs(run, data)))
    assert np.abs(results[0] - results[1]).max() < 1e-4


def test_a_custom_loss_runs_on_the_client(client, server):
    """Guards against weights of any sign that cross_entropy refuses: the SDK's custom losses need them."""
    run = client.create_lora_training_client(server.model, rank=4, seed=5)

    def loss(data, lines):
        total = sum((line.float() ** 2).sum() for line in lines)
        return total, {"square": float(total.detach())}

    squares = []
    for _ in range(4):
        done = run.forward_backward_custom([supervised()], loss)
        run.optim_step(types.AdamParams(learning_rate=1e-2))
        squares.append(done.result().metrics["square"])
    assert squares[-1] < squares[0]


async def test_the_async_client_pipelines_requests(clients, server):
    """Guards against answers that are mixed up when many requests of one run are under way."""
    client = await asyncio.to_thread(clients)
    run = await client.create_lora_training_client_async(server.model, rank=4, seed=6)
    futures = []
    for _ in range(6):
        futures.append(run.forward_backward([supervised()], "cross_entropy"))
        futures.append(run.optim_step(types.AdamParams(learning_rate=1e-2)))
    done = [await each for each in futures]
    losses = [each.metrics["loss:sum"] for each in done[::2]]
    assert losses == sorted(losses, reverse=True)
    sampler = await run.save_weights_and_get_sampling_client_async()
    prompt = types.ModelInput.from_ints(list(TEXT[:5].encode()))
    replies = await asyncio.gather(
        *(sampler.sample_async(prompt, 2, types.SamplingParams(max_tokens=4 + n)) for n in range(8))
    )
    assert [max(len(s.tokens) for s in each.sequences) for each in replies] == [4 + n for n in range(8)]


def test_many_data_are_sent_in_parallel_chunks(client, server):
    """Guards against an order of arrival: the SDK sends the first chunk of a request last."""
    run = client.create_lora_training_client(server.model, rank=2, seed=8)
    texts = [f"{n:04d}" for n in range(2500)]
    outputs = run.forward_backward([supervised(text) for text in texts], "cross_entropy")
    moved = run.optim_step(types.AdamParams(learning_rate=1e-3))
    done = outputs.result()
    assert moved.result().metrics["step_taken"] == 1
    assert len(done.loss_fn_outputs) == len(texts)
    # The first byte's logprob depends on the text alone: equal texts, equal values, in the order of the data.
    lines = [np.asarray(each["logprobs"].data) for each in done.loss_fn_outputs]
    assert all(len(line) == 3 for line in lines)
    assert (
        abs(-sum(line.sum() for line in lines) - done.metrics["loss:sum"]) < 1e-2 * done.metrics["loss:sum"]
    )


def test_sampling_takes_its_seed_and_its_stops(client, server):
    """Guards against seeds, stops, top-k or top-p that are swallowed."""
    sampler = client.create_sampling_client(base_model=server.model)
    prompt = types.ModelInput.from_ints(list(b"stop at "))

    def sample(**params):
        asked = types.SamplingParams(**({"max_tokens": 12, "seed": 3, "stop": []} | params))
        return sampler.sample(prompt, 2, asked).result().sequences

    first, again, other = sample(), sample(), sample(seed=4)
    assert [each.tokens for each in first] == [each.tokens for each in again]
    assert first[0].tokens != first[1].tokens and first[0].tokens != other[0].tokens
    stop = first[0].tokens[4]
    ended = sample(stop=[stop])[0]
    assert ended.stop_reason == "stop" and ended.tokens == first[0].tokens[: first[0].tokens.index(stop) + 1]
    assert {each.stop_reason for each in first} == {"length"}
    greedy = sample(temperature=0.0)
    assert greedy[0].tokens == greedy[1].tokens == sample(top_k=1)[1].tokens == sample(top_p=1e-6)[0].tokens


def test_a_stop_string_ends_a_reply(client, server):
    """Guards against stop strings that are taken for tokens, or that end a reply too late."""
    run = client.create_lora_training_client(server.model, rank=2)
    tokenizer, sampler = run.get_tokenizer(), client.create_sampling_client(base_model=server.model)
    prompt = types.ModelInput.from_ints(list(b"say"))

    def sample(stop):
        params = types.SamplingParams(max_tokens=40, seed=1, stop=stop)
        return sampler.sample(prompt, 1, params).result().sequences[0]

    whole = sample([])
    letters = [tokenizer.decode([token]) for token in whole.tokens]
    letter = next(text for text in letters[3:] if text.isalnum())
    place = letters.index(letter)
    ended = sample([letter])
    assert (ended.stop_reason, ended.tokens) == ("stop", whole.tokens[: place + 1])
    assert sample(letter).tokens == ended.tokens


def test_prompt_logprobs_of_the_last_tokens(client, server):
    """Guards against a suffix that is cut at the wrong end, which the SDK takes for an old server."""
    sampler = client.create_sampling_client(base_model=server.model)
    prompt = types.ModelInput.from_ints(list(TEXT.encode()))
    whole = sampler.compute_logprobs(prompt).result()
    last = sampler.compute_logprobs(prompt, prompt_logprobs_last_n=5).result()
    assert last[-5:] == whole[-5:] and set(last[:-5]) == {None} and len(last) == len(whole)


def test_a_resumed_run_goes_on_exactly(clients, server):
    """Guards against an optimiser's state that is lost, rounded or bound to the wrong tensors."""
    run = clients().create_lora_training_client(server.model, rank=4, seed=9)
    for _ in range(4):
        step(run, [supervised()])
    path = run.save_state("middle").result().path
    for _ in range(3):
        step(run, [supervised()])
    straight = logprobs(run, [supervised()])[0]
    resumed = clients().create_training_client_from_state_with_optimizer(path)
    for _ in range(3):
        step(resumed, [supervised()])
    assert np.array_equal(logprobs(resumed, [supervised()])[0], straight)
    fresh = clients().create_training_client_from_state(path)
    for _ in range(3):
        step(fresh, [supervised()])
    assert not np.array_equal(logprobs(fresh, [supervised()])[0], straight)
    run.load_state_with_optimizer(path).result()
    for _ in range(3):
        step(run, [supervised()])
    assert np.array_equal(logprobs(run, [supervised()])[0], straight)


def test_two_clients_do_not_touch_each_other(clients, server):
    """Guards against adapters, gradients or optimisers that are shared between runs."""
    alone = clients().create_lora_training_client(server.model, rank=4, seed=10)
    for _ in range(5):
        step(alone, [supervised()])
    expected = logprobs(alone, [supervised()])[0]
    mine, theirs = (clients().create_lora_training_client(server.model, rank=4, seed=10) for _ in range(2))
    for _ in range(5):
        one = mine.forward_backward([supervised()], "cross_entropy")
        two = theirs.forward_backward([supervised("something else altogether")], "cross_entropy")
        moves = [each.optim_step(types.AdamParams(learning_rate=1e-2)) for each in (mine, theirs)]
        for future in (one, two, *moves):
            future.result()
    assert np.array_equal(logprobs(mine, [supervised()])[0], expected)
    assert not np.array_equal(logprobs(theirs, [supervised()])[0], expected)


def test_seeds_make_equal_adapters(clients, server):
    """Guards against adapters drawn from something else than the client's seed."""
    lines = []
    for seed in (11, 11, 12):
        run = clients().create_lora_training_client(server.model, rank=4, seed=seed)
        step(run, [supervised()])
        lines.append(logprobs(run, [supervised()])[0])
    assert np.array_equal(lines[0], lines[1])
    assert not np.array_equal(lines[0], lines[2])


def test_the_models_tokenizer_comes_from_the_server(client, server):
    """Guards against a client that cannot find the tokenizer of a local model."""
    run = client.create_lora_training_client(server.model, rank=2)
    tokens = run.get_tokenizer().encode("ab")
    assert len(tokens) == 2 and run.get_info().model_data.model_name == server.model


def test_what_is_wrong_is_said_and_the_run_goes_on(client, server):
    """Guards against a user's mistake that ends the run or the server, or is told as the server's fault."""
    run = client.create_lora_training_client(server.model, rank=2, seed=13)
    tokens = list(TEXT.encode())
    wrong = (
        ([datum([1, 2, 300, 4], weights=[1.0] * 3)], "cross_entropy", "300"),
        ([datum(tokens, weights=[1.0])], "cross_entropy", "length"),
        ([datum(tokens, weights=[1.0] * (len(tokens) - 1))], "ppo", "logprobs"),
        ([supervised()], "dro", "dro"),
        ([datum([65] * 600, weights=[1.0] * 599)], "cross_entropy", "context"),
    )
    for data, loss, word in wrong:
        with pytest.raises(tinker.RequestFailedError, match=word) as caught:
            run.forward_backward(data, loss).result()
        assert caught.value.category == types.RequestErrorCategory.User
    sampler = client.create_sampling_client(base_model=server.model)
    for prompt, params, word in (([300], {"max_tokens": 1}, "300"), ([1], {"max_tokens": 5000}, "context")):
        with pytest.raises(tinker.RequestFailedError, match=word) as caught:
            sampler.sample(types.ModelInput.from_ints(prompt), 1, types.SamplingParams(**params)).result()
        assert caught.value.category == types.RequestErrorCategory.User
    assert step(run, [supervised()])[1].metrics["step_taken"] == 1


def test_infinite_gradients_take_no_step(client, server):
    """Guards against one bad batch that poisons the weights for good."""
    run = client.create_lora_training_client(server.model, rank=2, seed=14)
    before = logprobs(run, [supervised()])[0]
    tokens = list(TEXT.encode())
    wild = datum(tokens, weights=[float(torch.finfo(torch.float32).max)] * (len(tokens) - 1))
    run.forward_backward([wild], "cross_entropy").result()
    assert run.optim_step(types.AdamParams(learning_rate=1.0)).result().metrics["step_taken"] == 0
    assert np.array_equal(logprobs(run, [supervised()])[0], before)
