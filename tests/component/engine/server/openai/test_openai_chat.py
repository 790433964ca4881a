"""`/v1/chat/completions` as OpenAI's own client sees it."""

import asyncio
import json

import openai
import pytest

pytestmark = pytest.mark.component


def told(stream):
    """The chunks of a stream, its text and its finish reason."""
    chunks = list(stream)
    choices = [choice for chunk in chunks for choice in chunk.choices]
    text = "".join(choice.delta.content or "" for choice in choices)
    return chunks, text, [choice.finish_reason for choice in choices if choice.finish_reason]


def test_a_reply_is_the_models(ask, replies):
    """Guards against a prompt rendered wrongly, a stop token in the text, and wrong counts."""
    answer = ask("text", max_tokens=200)
    choice = answer.choices[0]
    assert (choice.message.role, choice.message.content) == ("assistant", replies["text"])
    assert (choice.finish_reason, choice.message.tool_calls) == ("stop", None)
    assert answer.usage.completion_tokens == len(replies["text"].encode()) + 1
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert (answer.object, answer.model) == ("chat.completion", "parrot")


def test_a_stream_says_the_same_in_whole_characters(ask, replies):
    """Guards against halves of characters in deltas, and a stream that differs from the whole reply."""
    chunks, text, finish = told(ask("text", stream=True, stream_options={"include_usage": True}))
    assert (text, finish) == (replies["text"], ["stop"])
    assert "\ufffd" not in text
    assert len(chunks) > 20
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == len(replies["text"].encode()) + 1
    assert len({chunk.id for chunk in chunks}) == 1


def test_usage_comes_only_when_asked_for(ask):
    """Guards against a last chunk without choices for clients that index the first."""
    chunks, _, _ = told(ask("text", stream=True))
    assert all(len(chunk.choices) == 1 for chunk in chunks)


@pytest.mark.parametrize("stop", [" END", [" END", "never"], ["🙂"], ["ï"]])
@pytest.mark.parametrize("stream", [False, True])
def test_nothing_of_a_stop_string_is_told(ask, replies, stop, stream):
    """Guards against a stop string, or its beginning, that leaks into the text, and one cut too early."""
    first = [stop] if isinstance(stop, str) else stop
    expected = replies["text"].partition(first[0])[0]
    answer = ask("text", stop=stop, stream=stream)
    if stream:
        _, text, finish = told(answer)
        assert (text, finish) == (expected, ["stop"])
    else:
        assert answer.choices[0].message.content == expected
        assert answer.choices[0].finish_reason == "stop"


def test_a_limit_ends_a_reply_within_a_character(ask, replies):
    """Guards against a cut reply that is told as whole, and streams that drop the last bytes."""
    size = len("It’s naïve: ".encode()) + 1
    whole = ask("text", max_completion_tokens=size).choices[0]
    assert (whole.message.content, whole.finish_reason) == ("It’s naïve: \ufffd", "length")
    _, text, finish = told(ask("text", max_tokens=size, stream=True))
    assert (text, finish) == (whole.message.content, ["length"])


def test_calls_are_read(ask, tools):
    """Guards against calls left in the text, and arguments that are no JSON text."""
    choice = ask("calls", tools=tools).choices[0]
    calls = choice.message.tool_calls
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "I look.")
    assert [(call.type, call.function.name) for call in calls] == [("function", "read_file")] * 2
    assert [json.loads(call.function.arguments) for call in calls] == [{"path": "rl.toml"}] * 2
    assert len({call.id for call in calls}) == 2


def test_calls_are_streamed_whole(client, tools):
    """Guards against tags in streamed text, and calls that the client's own assembly cannot put together."""
    messages = [{"role": "user", "content": "calls"}]
    with client.chat.completions.stream(
        model="parrot", messages=messages, tools=tools, temperature=0
    ) as stream:
        final = stream.get_final_completion().choices[0]
    calls = final.message.tool_calls
    assert [json.loads(call.function.arguments) for call in calls] == [{"path": "rl.toml"}] * 2
    assert len({call.id for call in calls}) == 2
    assert (final.finish_reason, final.message.content) == ("tool_calls", "I look.")


@pytest.mark.parametrize("stream", [False, True])
def test_one_call_at_a_time(ask, tools, stream):
    """Guards against `parallel_tool_calls=false` taken and ignored."""
    answer = ask("calls", tools=tools, parallel_tool_calls=False, stream=stream)
    if stream:
        chunks, _, finish = told(answer)
        calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
        assert (len(calls), finish) == (1, ["tool_calls"])
    else:
        assert len(answer.choices[0].message.tool_calls) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_malformed_call_is_text(ask, tools, replies, stream):
    """Guards against a broken call that is dropped, mended, or ends the request."""
    answer = ask("broken call", tools=tools, stream=stream)
    if stream:
        _, text, finish = told(answer)
        assert (text, finish) == (replies["broken call"], ["stop"])
    else:
        choice = answer.choices[0]
        assert (choice.message.content, choice.finish_reason) == (replies["broken call"], "stop")
        assert choice.message.tool_calls is None


def test_without_tools_nothing_is_a_call(client, ask, tools):
    """Guards against calls read from replies to clients that offered none, or said `none`."""
    plain = client.chat.completions.create(
        model="parrot", messages=[{"role": "user", "content": "calls"}], temperature=0, max_tokens=30
    )
    refused = ask("calls", tools=tools, tool_choice="none", max_tokens=30)
    assert plain.choices[0].message.tool_calls is refused.choices[0].message.tool_calls is None
    assert plain.choices[0].message.content == refused.choices[0].message.content


def test_a_conversation_with_calls_goes_on(client, ask, tools):
    """Guards against an assistant's calls and a tool's answer that the next prompt lacks."""
    first = ask("calls", tools=tools).choices[0].message
    call = first.tool_calls[0]
    messages = [
        {"role": "user", "content": "calls"},
        first.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "lr = 1e-6"},
    ]
    answer = client.chat.completions.create(
        model="parrot", messages=messages, tools=tools, max_tokens=5, extra_body={"return_token_ids": True}
    )
    prompt = bytes(token_of(each) for each in answer.prompt_token_ids if each < 256).decode()
    written = '<tool_call>\n{"name": "read_file", "arguments": {"path": "rl.toml"}}\n</tool_call>'
    assert (
        f"assistant\nI look.\n{written}\n{written}\nuser\n<tool_response>\nlr = 1e-6\n</tool_response>"
        in prompt
    )


def token_of(token):
    """The byte of a token of the tiny tokenizer, whose letters are sorted."""
    from tokenizers import pre_tokenizers

    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in plain]
    byte_of = {chr(byte): byte for byte in plain} | {chr(256 + n): byte for n, byte in enumerate(rest)}
    return byte_of[sorted(pre_tokenizers.ByteLevel.alphabet())[token]]


def test_logprobs_are_of_the_sampled_tokens(ask):
    """Guards against logprobs that are missing, misplaced, or of other tokens than those in the text."""
    answer = ask("text", logprobs=True, extra_body={"return_token_ids": True})
    choice = answer.choices[0]
    content = choice.logprobs.content
    assert len(content) == len(choice.token_ids) == answer.usage.completion_tokens
    assert all(-0.1 < each.logprob <= 0 and each.top_logprobs == [] for each in content)
    assert bytes(byte for each in content[:-1] for byte in each.bytes).decode() == choice.message.content
    assert content[-1].token == "<|im_end|>"


def test_streamed_logprobs_are_the_same(ask):
    """Guards against tokens whose logprob is lost while their text is held back."""
    whole = ask("text", logprobs=True, stop=" END").choices[0].logprobs.content
    chunks, _, _ = told(ask("text", logprobs=True, stop=" END", stream=True))
    parts = [chunk.choices[0].logprobs for chunk in chunks]
    streamed = [each for part in parts if part for each in part.content]
    assert [each.bytes for each in streamed] == [each.bytes for each in whole]
    assert [each.logprob for each in streamed] == pytest.approx([each.logprob for each in whole], abs=1e-4)


def test_seeds_repeat(ask):
    """Guards against a seed that is ignored, choices that are copies, and unseeded requests that repeat."""
    options = {"temperature": 1.0, "max_tokens": 12, "n": 3}

    def texts(**more):
        return [choice.message.content for choice in ask("anything", **options, **more).choices]

    first, again, unseeded, other = texts(seed=7), texts(seed=7), texts(), texts()
    assert first == again
    assert len(set(first)) == 3
    assert unseeded != other
    alone = ask("anything", temperature=1.0, max_tokens=12, seed=7).choices[0].message.content
    assert alone == first[0]


def test_choices_are_streamed_side_by_side(ask):
    """Guards against choices whose parts are mixed up in one stream."""
    options = {"temperature": 1.0, "max_tokens": 12, "n": 3, "seed": 7}
    whole = [choice.message.content for choice in ask("anything", **options).choices]
    chunks = list(ask("anything", **options, stream=True))
    for index, expected in enumerate(whole):
        own = [choice for chunk in chunks for choice in chunk.choices if choice.index == index]
        assert "".join(choice.delta.content or "" for choice in own) == expected
        assert [bool(choice.finish_reason) for choice in own].count(True) == 1


def test_top_k_and_top_p_narrow_the_choice(ask):
    """Guards against sampling parameters that are taken and ignored."""
    greedy = ask("anything", max_tokens=12).choices[0].message.content
    for narrow in ({"extra_body": {"top_k": 1}}, {"top_p": 1e-6}):
        answer = ask("anything", temperature=1.0, max_tokens=12, **narrow)
        assert answer.choices[0].message.content == greedy


async def test_sixty_four_clients_at_once(spoken, replies):
    """Guards against replies that are mixed up, refused or lost under load."""
    async with openai.AsyncOpenAI(base_url=f"{spoken.url}/v1", api_key=spoken.token, max_retries=0) as client:

        async def one(index):
            stream = index % 2 == 0
            answer = await client.chat.completions.create(
                model="parrot",
                messages=[{"role": "user", "content": "text"}],
                temperature=0,
                stream=stream,
                max_tokens=20 + index,
            )
            if not stream:
                return answer.choices[0].message.content
            return "".join([chunk.choices[0].delta.content or "" async for chunk in answer])

        texts = await asyncio.gather(*(one(index) for index in range(64)))
    whole = replies["text"].encode()
    for index, text in enumerate(texts):
        assert text == whole[: 20 + index].decode("utf-8", errors="replace")
