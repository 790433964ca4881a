"""From OpenAI's and vLLM's requests to the engine's."""

import pytest

from trainsmith.engine.server.openai.body import parsed, refuse_unserved
from trainsmith.engine.server.openai.chat_request import ChatRequest, offered, turns
from trainsmith.engine.server.openai.options import DEFAULT_MAX_TOKENS, Options, sample_requests
from trainsmith.engine.server.openai.refusal import CONTEXT, Refused

PROMPT = (1, 2, 3)
OWN = frozenset({9})


def requests(context=100, **options):
    return sample_requests(parsed(options, Options), PROMPT, OWN, context)


def chat(**fields):
    return parsed({"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}, ChatRequest)


def test_defaults_are_openais():
    """Guards against a default of vLLM's or ours that changes what a plain request samples."""
    (request,) = requests()
    assert (request.temperature, request.top_p, request.top_k) == (1.0, 1.0, 0)
    assert (request.stop_tokens, request.stop_strings, request.prompt_logprobs) == (None, (), False)


def test_the_reply_may_take_what_the_context_leaves():
    """Guards against a default of 16 tokens, and one that exceeds the context or never ends."""
    assert requests(100)[0].max_tokens == 97
    assert requests(10**6)[0].max_tokens == DEFAULT_MAX_TOKENS
    assert requests(10**6, max_tokens=10**5)[0].max_tokens == 10**5
    assert requests(100, max_tokens=97)[0].max_tokens == 97


@pytest.mark.parametrize(("context", "options"), [(100, {"max_tokens": 98}), (3, {}), (2, {"max_tokens": 1})])
def test_what_exceeds_the_context_is_refused(context, options):
    """Guards against prompts that are cut, and replies that end early without a word."""
    with pytest.raises(Refused) as caught:
        requests(context, **options)
    assert caught.value.code == CONTEXT


def test_seeds_of_choices_differ_and_repeat():
    """Guards against choices that are copies, and a first choice that depends on their number."""
    three = [request.seed for request in requests(n=3, seed=5)]
    assert three[0] == requests(seed=5)[0].seed == 5
    assert len(set(three)) == 3
    assert three == [request.seed for request in requests(n=3, seed=5)]
    assert requests()[0].seed != requests()[0].seed


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, None),
        ({"ignore_eos": True}, ()),
        ({"stop_token_ids": [4]}, (4, 9)),
        ({"stop_token_ids": [4], "ignore_eos": True}, (4,)),
        ({"stop_token_ids": []}, None),
    ],
)
def test_stop_tokens_are_beside_the_models_own(options, expected):
    """Guards against named stop tokens that let a reply run past its end of turn."""
    assert requests(**options)[0].stop_tokens == expected


def test_stop_is_one_or_many():
    """Guards against a string taken for its letters."""
    assert requests(stop="END")[0].stop_strings == ("END",)
    assert requests(stop=["a", "b"])[0].stop_strings == ("a", "b")


@pytest.mark.parametrize("top_k", [0, -1, None])
def test_no_top_k_in_all_spellings(top_k):
    """Guards against vLLM's -1 taken for one token."""
    assert requests(top_k=top_k)[0].top_k == 0


def test_the_newer_name_of_the_limit_wins():
    """Guards against the limit of clients that send both."""
    assert chat(max_tokens=5, max_completion_tokens=7).limit == 7
    assert chat(max_tokens=5).limit == 5


@pytest.mark.parametrize("value", [None, 0, 0.0, False])
def test_what_asks_for_nothing_is_no_refusal(value):
    """Guards against clients that send every default."""
    refuse_unserved({"frequency_penalty": value, "unknown": 5})


@pytest.mark.parametrize(
    ("field", "value"), [("frequency_penalty", 0.1), ("logit_bias", {"1": 1}), ("echo", 1)]
)
def test_what_is_not_served_is_refused(field, value):
    """Guards against a parameter that is ignored in silence."""
    with pytest.raises(Refused) as caught:
        refuse_unserved({field: value})
    assert caught.value.param == field


def test_messages_of_all_roles():
    """Guards against contents, calls and names that get lost between the protocol and the template."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    system, user, assistant, tool = turns(
        chat(
            messages=[
                {"role": "developer", "content": "x"},
                {"role": "user", "content": parts},
                {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None},
                {"role": "tool", "tool_call_id": "c1", "content": "y"},
            ]
        ).messages
    )
    assert (system.role, system.content, user.content) == ("system", "x", "ab")
    assert (assistant.content, assistant.calls[0].name, assistant.calls[0].arguments) == ("", "f", {"a": 1})
    assert (tool.role, tool.content, tool.call_id, tool.name) == ("tool", "y", "c1", "f")


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": None},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{"}}]},
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "[]"}}]},
    ],
)
def test_messages_that_cannot_be_rendered_are_refused(message):
    """Guards against an image that is left out in silence, and arguments that fail in the template."""
    with pytest.raises(Refused) as caught:
        turns(chat(messages=[message]).messages)
    assert caught.value.param.startswith("messages.0")


def test_forced_calls_are_refused_and_none_offers_nothing():
    """Guards against a `required` that is a mere wish, and calls of clients that said `none`."""
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert [tool.name for tool in offered(chat(tools=tools))] == ["f"]
    assert offered(chat(tools=tools, tool_choice="none")) == ()
    for choice in ("required", {"type": "function", "function": {"name": "f"}}):
        with pytest.raises(Refused) as caught:
            offered(chat(tools=tools, tool_choice=choice))
        assert caught.value.param == "tool_choice"
