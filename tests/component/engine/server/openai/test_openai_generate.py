"""`/inference/v1/generate`: tokens in, tokens and logprobs out, as vLLM's clients read it."""

import json

import httpx
import pytest
import torch
from transformers import AutoModelForCausalLM

pytestmark = pytest.mark.component
PROMPT = [10, 20, 30, 40, 50]


@pytest.fixture
def generate(spoken):
    """Call with sampling parameters and other fields: the answer's status and JSON."""

    def post(params, **more):
        body = {"model": "parrot", "token_ids": PROMPT, "sampling_params": params, **more}
        headers = {"Authorization": f"Bearer {spoken.token}"}
        return httpx.post(f"{spoken.url}/inference/v1/generate", json=body, headers=headers, timeout=120)

    return post


@pytest.fixture(scope="module")
def logprobs(parrot):
    """Call with tokens and a temperature: transformers' logprob of each token but the first."""
    model = AutoModelForCausalLM.from_pretrained(parrot, dtype=torch.float32).eval()

    @torch.no_grad()
    def of(tokens, temperature=1.0):
        logits = model(torch.tensor([tokens])).logits[0, :-1] / temperature
        targets = torch.tensor(tokens[1:])
        return logits.log_softmax(-1)[torch.arange(len(targets)), targets].tolist()

    return of


@pytest.mark.parametrize(
    "params", [{"temperature": 1.0}, {"temperature": 0.7}, {"temperature": 1.3, "top_p": 0.8, "top_k": 20}]
)
def test_logprobs_are_those_of_transformers(generate, logprobs, params):
    """Guards against logprobs a learner cannot use: shifted, at another temperature, or renormalised."""
    answer = generate({**params, "max_tokens": 20, "logprobs": 1, "seed": 5, "ignore_eos": True}).json()
    choice = answer["choices"][0]
    expected = logprobs(PROMPT + choice["token_ids"], params["temperature"])[len(PROMPT) - 1 :]
    content = choice["logprobs"]["content"]
    assert [each["logprob"] for each in content] == pytest.approx(expected, abs=1e-3)
    assert [each["token"] for each in content] == [f"token_id:{token}" for token in choice["token_ids"]]
    assert answer["usage"] == {"prompt_tokens": 5, "completion_tokens": 20, "total_tokens": 25}


def test_logprobs_of_the_prompt(generate, logprobs):
    """Guards against prompt logprobs in another place than vLLM's clients look for them."""
    answer = generate({"max_tokens": 1, "prompt_logprobs": 0}).json()
    first, *rest = answer["prompt_logprobs"]
    assert first is None
    found = [entry[str(token)]["logprob"] for entry, token in zip(rest, PROMPT[1:], strict=True)]
    assert found == pytest.approx(logprobs(PROMPT), abs=1e-3)


def test_stop_tokens_end_a_reply_and_are_part_of_it(generate):
    """Guards against a stop token that is swallowed, and named ones that replace the model's own."""
    free = generate({"max_tokens": 30, "temperature": 0, "ignore_eos": True}).json()["choices"][0]
    assert (len(free["token_ids"]), free["finish_reason"]) == (30, "length")
    stop = free["token_ids"][3]
    params = {"max_tokens": 30, "temperature": 0, "ignore_eos": True, "stop_token_ids": [stop]}
    ended = generate(params).json()["choices"][0]
    first = free["token_ids"].index(stop) + 1
    assert (ended["token_ids"], ended["finish_reason"]) == (free["token_ids"][:first], "stop")


def test_choices_and_seeds(generate):
    """Guards against choices that are copies, and seeds that do not repeat."""
    params = {"max_tokens": 8, "n": 4, "seed": 1}
    first, again = (generate(params).json()["choices"] for _ in range(2))
    tokens = [choice["token_ids"] for choice in first]
    assert tokens == [choice["token_ids"] for choice in again]
    assert len({*map(tuple, tokens)}) == 4
    assert [choice["index"] for choice in first] == [0, 1, 2, 3]


def test_a_stream_gives_the_same_tokens(generate):
    """Guards against tokens that are lost or doubled in a stream."""
    params = {"max_tokens": 8, "n": 2, "seed": 1, "logprobs": 0}
    whole = generate(params).json()["choices"]
    body = generate(params, stream=True, stream_options={"include_usage": True}).text
    events = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    assert events.pop() == "[DONE]"
    chunks = [json.loads(event) for event in events]
    assert chunks[-1]["usage"]["completion_tokens"] == sum(len(choice["token_ids"]) for choice in whole)
    for choice in whole:
        own = [each for chunk in chunks for each in chunk["choices"] if each["index"] == choice["index"]]
        assert [token for each in own for token in each["token_ids"]] == choice["token_ids"]
        assert own[-1]["finish_reason"] == choice["finish_reason"]


def test_the_fields_of_renderers_are_taken(generate):
    """Guards against parameters that verifiers and prime-rl always send."""
    params = {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "max_tokens": 4,
        "min_tokens": 0,
        "logprobs": 1,
        "stop_token_ids": [258],
        "skip_special_tokens": False,
        "routed_experts_prompt_start": 3,
    }
    answer = generate(params, cache_salt="1", priority=0, return_token_ids=True, request_id="mine").json()
    assert answer["request_id"] == "mine"
    assert answer["prompt_token_ids"] == PROMPT
    assert len(answer["choices"]) == 1


@pytest.mark.parametrize(
    ("param", "params", "more"),
    [
        ("logprobs", {"logprobs": 5}, {}),
        ("min_tokens", {"min_tokens": 3}, {}),
        ("presence_penalty", {"presence_penalty": 1.0}, {}),
        ("stop_token_ids", {"stop_token_ids": [300]}, {}),
        ("token_ids", {}, {"token_ids": []}),
        ("token_ids", {}, {"token_ids": [1, 300]}),
        ("token_ids", {}, {"token_ids": [-1]}),
        ("features", {}, {"features": {"mm_hashes": {}}}),
        (None, {"max_tokens": 5000}, {}),
        (None, {}, {"token_ids": [1] * 3000}),
    ],
)
def test_what_is_not_served_is_refused(generate, param, params, more):
    """Guards against a token that crashes the torch thread, and parameters that are ignored in silence."""
    answer = generate(params, **more)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
