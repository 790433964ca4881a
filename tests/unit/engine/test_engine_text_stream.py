"""Text that is told while its tokens come must be the text of all tokens, up to a stop string."""

from hypothesis import given
from hypothesis import strategies as st

from trainsmith.engine.text_stream import StopCutter, TextStream


def decode(tokens):
    """Bytes as tokens."""
    return bytes(tokens).decode("utf-8", errors="replace")


def streamed(tokens, decode=decode):
    stream = TextStream(decode)
    return [*(stream.push(token) for token in tokens), stream.finish()]


@given(st.text(max_size=30))
def test_whole_characters_only(text):
    """Guards against a delta that ends within a character."""
    parts = streamed(text.encode())
    assert "".join(parts) == text
    assert all("\ufffd" not in part for part in parts) or "\ufffd" in text


@given(st.binary(max_size=40))
def test_any_bytes_are_told_as_they_decode_at_once(raw):
    """Guards against broken characters that are lost, doubled, or hold up the rest of the stream."""
    assert "".join(streamed(raw)) == decode(raw)


def test_a_decoder_that_strips_the_beginning():
    """Guards against spaces between words that vanish, where a text's first space is not told."""
    words = ["▁one", "▁two", "▁three"]

    def metaspace(tokens):
        return "".join(words[token] for token in tokens).replace("▁", " ").lstrip()

    assert streamed([0, 1, 2], metaspace) == ["one", " two", " three", ""]


@given(st.text("ab", max_size=20), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3), st.data())
def test_the_text_is_cut_at_the_first_stop_string(text, stops, data):
    """Guards against a stop string, or a part of one, that is told; and text that is held back for ever."""
    cutter = StopCutter(stops)
    parts, at = [], 0
    while at < len(text):
        size = data.draw(st.integers(1, 4))
        parts.append(cutter.push(text[at : at + size]))
        at += size
    told = "".join(parts) + cutter.finish()
    # Which of several overlapping stop strings cuts the text depends on what comes together.
    ends = [text.find(stop) for stop in stops if stop in text]
    assert cutter.hit == bool(ends)
    assert text.startswith(told)
    if not ends:
        assert told == text
    else:
        assert len(told) in ends
