"""A reply must end exactly where its stop token or string is complete."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsmith.engine.records import SampleRequest
from trainsmith.engine.stopping import Stopping


def by_bytes(tokens):
    """A tokenizer whose tokens are bytes."""
    return bytes(tokens).decode(errors="replace")


def ends(text, strings=(), limit=1000, stop_tokens=None):
    """After how many tokens the reply ends, and why."""
    request = SampleRequest((1,), limit, 1.0, 0, stop_strings=strings, stop_tokens=stop_tokens)
    stopping = Stopping(request, frozenset([0]), by_bytes)
    tokens = list(text.encode())
    for count in range(1, len(tokens) + 1):
        finish = stopping.finish(tokens[:count])
        if finish:
            return count, finish
    return None


@given(
    st.text("abé\u4e16 ", max_size=60),
    st.lists(st.text("abé\u4e16 ", min_size=1, max_size=6), min_size=1, max_size=3),
)
def test_strings_end_a_reply_with_the_byte_that_completes_them(text, strings):
    """Guards against a match that is missed between tokens, or seen late, or inside a torn character."""
    whole = [text.index(string) + len(string) for string in strings if string in text]
    expected = (len(text[: min(whole)].encode()), "stop") if whole else None
    assert ends(text, tuple(strings)) == expected


@pytest.mark.parametrize(
    ("stop_tokens", "expected"), [(None, (2, "stop")), ((), (4, "length")), ((98,), (3, "stop"))]
)
def test_stop_tokens_are_the_models_own_unless_named(stop_tokens, expected):
    """Guards against an end token that counts where it must be ignored."""
    assert ends("a\0bcd", limit=4, stop_tokens=stop_tokens) == expected
