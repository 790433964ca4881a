"""Author text in evidence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trainsmith.probe.text import LINE, QUOTE, number, plural, quote, short

ANY_TEXT = st.text(max_size=2000)


@given(ANY_TEXT)
def test_short_is_one_printable_line(text: str) -> None:
    """Guards against author text that breaks lines, terminals or an agent's prompt."""
    line = short(text)
    assert line.isprintable() and len(line) <= LINE


@given(ANY_TEXT)
def test_quote_is_bounded_and_printable(text: str) -> None:
    """Guards against a quotation that ends early, or runs over the line."""
    quoted = quote(text)
    assert quoted.isprintable() and len(quoted) <= QUOTE + 2
    assert quoted[0] == quoted[-1] == '"'


def test_hostile_characters_are_escaped() -> None:
    """Guards against terminal escapes, direction overrides and lone surrogates in a report."""
    assert quote("a\x1b[31m\u202e\ud800") == '"a\\x1b[31m\\u202e\\ud800"'
    assert quote('say "hi"\n') == '"say \\"hi\\"\\n"'


def test_long_text_is_cut_without_reading_all_of_it() -> None:
    """Guards against megabytes of author text in a report."""
    assert len(short("x" * 10_000_000)) == LINE
    assert quote("x" * 10_000_000, 10) == '"xxxxxxxxx…"'


def test_small_words() -> None:
    """Guards against `1 tasks` and rewards of seventeen digits."""
    assert plural(1, "task") == "1 task" and plural(1200, "task") == "1,200 tasks"
    assert number(1 / 3) == "0.333" and number(1e308) == "1e+308"
