"""What OpenAI's client gets when it asks for what is not there: an error of the right kind, never silence."""

import httpx
import openai
import pytest

pytestmark = pytest.mark.component

MALFORMED = {
    "empty": b"",
    "cut": b"{",
    "list": b"[]",
    "null": b"null",
    "no list": b'{"model": "parrot", "messages": "hi"}',
    "no UTF-8": b"\xff\xfe",
    "deep": b"[" * 100_000,
    "half a character": b'{"model": "parrot", "prompt": "\\ud800", "messages": [], "token_ids": []}',
}
PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.mark.parametrize(
    ("param", "options"),
    [
        ("frequency_penalty", {"frequency_penalty": 0.5}),
        ("logit_bias", {"logit_bias": {"5": 100}}),
        ("max_tokens", {"max_tokens": 0}),
        ("messages", {"messages": []}),
        ("messages.0.content", {"messages": [{"role": "user", "content": [PNG]}]}),
        ("messages.0.role", {"messages": [{"role": "function", "name": "f", "content": "x"}]}),
        ("min_p", {"extra_body": {"min_p": 0.1}}),
        ("n", {"n": 1000}),
        ("response_format", {"response_format": {"type": "json_object"}}),
        ("stop", {"stop": [f"{n}" for n in range(100)]}),
        ("stop.0", {"stop": ""}),
        ("temperature", {"temperature": -1}),
        ("temperature", {"extra_body": {"temperature": "nan"}}),
        ("tool_choice", {"tool_choice": "required"}),
        ("top_logprobs", {"logprobs": True, "top_logprobs": 2}),
        ("top_p", {"top_p": 0}),
    ],
)
def test_what_is_not_served_is_refused_by_name(client, param, options):
    """Guards against parameters that are ignored in silence, and errors that do not say which one."""
    request = {"model": "parrot", "messages": [{"role": "user", "content": "hi"}], **options}
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**request)
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"
    assert param.split(".")[-1] in str(caught.value) or "text" in str(caught.value)


def test_what_asks_for_nothing_is_served(ask):
    """Guards against clients that send every default, and fields of other servers."""
    answer = ask(
        "text",
        max_tokens=3,
        frequency_penalty=0,
        logit_bias={},
        parallel_tool_calls=True,
        response_format={"type": "text"},
        user="somebody",
        extra_body={"repetition_penalty": 1.0, "some_field_of_tomorrow": {"a": 1}},
    )
    assert answer.choices[0].finish_reason == "length"


@pytest.mark.parametrize("options", [{"max_tokens": 2040}, {"content": "long " * 1000}])
def test_a_context_that_is_exceeded_is_told_as_such(client, options):
    """Guards against an error that agents cannot tell from others, and prompts that are cut in silence."""
    messages = [{"role": "user", "content": options.pop("content", "hello there")}]
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="parrot", messages=messages, **options)
    assert caught.value.code == "context_length_exceeded"
    assert "2048" in str(caught.value)


def test_unknown_models_are_not_found(client):
    """Guards against any name that samples the base."""
    for name in ("gpt-4", "tinker://0123456789abcdef:train:0/weights/none"):
        with pytest.raises(openai.NotFoundError) as caught:
            client.chat.completions.create(model=name, messages=[{"role": "user", "content": "hi"}])
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-4")


def test_a_wrong_token_is_refused(spoken):
    """Guards against a server that anybody may use, and an error that the client cannot read."""
    for key in ("tml-wrong-token-0000", "x"):
        client = openai.OpenAI(base_url=f"{spoken.url}/v1", api_key=key, max_retries=0)
        with pytest.raises(openai.AuthenticationError):
            client.models.list()


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/inference/v1/generate"])
def test_malformed_bodies_are_refused(spoken, path, body):
    """Guards against a body that ends in an internal error."""
    answer = httpx.post(
        spoken.url + path, content=body, headers={"Authorization": f"Bearer {spoken.token}"}, timeout=60
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_unknown_routes_and_methods_are_refused_in_form(spoken):
    """Guards against HTML or another protocol's error under /v1."""
    headers = {"Authorization": f"Bearer {spoken.token}"}
    for method, path, status in (("GET", "/v1/none", 404), ("GET", "/v1/chat/completions", 405)):
        answer = httpx.request(method, spoken.url + path, headers=headers, timeout=60)
        assert answer.status_code == status
        assert answer.json()["error"]["message"]
