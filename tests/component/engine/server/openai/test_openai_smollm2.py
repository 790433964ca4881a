"""The embedded base through OpenAI's client and vLLM's endpoint."""

import openai
import pytest
import torch
from transformers import AutoModelForCausalLM

from trainsmith import bases

pytestmark = [pytest.mark.component, pytest.mark.model, pytest.mark.slow]
QUESTION = [{"role": "user", "content": "Tell me about Zürich in two sentences. Use an emoji."}]


@pytest.fixture(scope="module")
def client(launch, tmp_path_factory):
    running = launch("smollm2-135m", tmp_path_factory.mktemp("state"))
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key=running.token, timeout=300) as made:
        yield made
    running.end()


def test_a_stream_is_the_whole_reply(client):
    """Guards against a real tokenizer's spaces and characters that are lost between two deltas."""
    asked = {"model": "smollm2-135m", "messages": QUESTION, "max_tokens": 48, "seed": 3}
    whole = client.chat.completions.create(**asked).choices[0].message.content
    stream = client.chat.completions.create(**asked, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == whole
    assert len(whole) > 20


def test_logprobs_are_those_of_transformers(client):
    """Guards against logprobs of the real model that a learner cannot use."""
    answer = client.chat.completions.create(
        model="smollm2-135m",
        messages=QUESTION,
        max_tokens=32,
        temperature=0.8,
        seed=1,
        logprobs=True,
        extra_body={"return_token_ids": True},
    )
    choice, prompt = answer.choices[0], answer.prompt_token_ids
    model = AutoModelForCausalLM.from_pretrained(bases.fetch("smollm2-135m"), dtype=torch.float32)
    with torch.no_grad():
        logits = model(torch.tensor([prompt + choice.token_ids])).logits[0, len(prompt) - 1 : -1]
    expected = (logits / 0.8).log_softmax(-1)[range(len(choice.token_ids)), choice.token_ids]
    found = [each.logprob for each in choice.logprobs.content]
    assert found == pytest.approx(expected.tolist(), abs=1e-3)


def test_tools_may_be_offered(client):
    """Guards against a template without tools, as this model's, that fails when they are offered."""
    tool = {"type": "function", "function": {"name": "now", "description": "The time."}}
    answer = client.chat.completions.create(
        model="smollm2-135m", messages=QUESTION, tools=[tool], max_tokens=16, temperature=0
    )
    assert answer.usage.prompt_tokens > 100
    assert answer.choices[0].finish_reason in {"stop", "length", "tool_calls"}
