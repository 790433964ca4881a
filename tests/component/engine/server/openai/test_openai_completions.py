"""`/v1/completions` as OpenAI's own client sees it."""

import pytest

pytestmark = pytest.mark.component


def test_prompts_of_all_kinds_are_continued(client):
    """Guards against choices in the wrong order, and tokens taken for texts."""
    texts = ["one", "two"]
    asked = {"model": "parrot", "max_tokens": 5, "temperature": 0, "extra_body": {"return_token_ids": True}}
    one, two = client.completions.create(prompt=texts, **asked).choices
    tokens = [one.prompt_token_ids, two.prompt_token_ids]
    again = client.completions.create(prompt=tokens, **asked)
    assert [choice.text for choice in again.choices] == [one.text, two.text]
    assert client.completions.create(prompt=tokens[1], **asked).choices[0].text == two.text
    assert again.usage.prompt_tokens == sum(map(len, tokens))
    assert again.usage.completion_tokens == sum(len(choice.token_ids) for choice in again.choices)


def test_a_stream_says_the_same(client):
    """Guards against deltas that differ from the whole text, and offsets that begin anew."""
    asked = {"model": "parrot", "prompt": "x", "max_tokens": 12, "seed": 3, "logprobs": 0}
    whole = client.completions.create(**asked).choices[0]
    chunks = [chunk.choices[0] for chunk in client.completions.create(**asked, stream=True)]
    assert "".join(chunk.text for chunk in chunks) == whole.text
    assert chunks[-1].finish_reason == whole.finish_reason == "length"
    streamed = [value for chunk in chunks for value in chunk.logprobs.token_logprobs]
    assert streamed == pytest.approx(whole.logprobs.token_logprobs, abs=1e-4)
