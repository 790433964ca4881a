"""Numbers and untrusted strings on the page."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsmith.records import Difference, Interval
from trainsmith.report import text


@given(st.text(st.characters(codec=None)))
def test_nothing_invisible_is_left(given_text: str) -> None:
    """Guards against text that reads otherwise than it is: direction marks, zero width, surrogates."""
    shown = text.visible(given_text)
    shown.encode("utf-8")
    assert not any(
        unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co"}
        for character in shown
        if character not in "\n\t"
    )


def test_plain_text_stays() -> None:
    """Guards against mangling what people wrote."""
    for plain in ("def f(x):\n\treturn x", "Größe, 数, émoji 🙂", ""):
        assert text.visible(plain) == plain
    assert text.visible("a\u202eb\x00") == "a⟨U+202E⟩b␀"


def test_long_text_is_cut() -> None:
    """Guards against a page of a gigabyte."""
    assert text.visible("x" * 100, limit=10) == "xxxxxxxxxx\n[90 more characters]"


@pytest.mark.parametrize(
    "source", ["<script>alert(1)</script>", "[x](javascript:alert(1))", "![x](http://h/x.png)", "<http://h>"]
)
def test_markdown_makes_no_html_links_or_images(source: str) -> None:
    """Guards against a user's data set that smuggles markup through its brief."""
    made = text.markdown(source)
    assert not any(tag in made for tag in ("<script", "<a ", "<img"))


def test_numbers() -> None:
    """Guards against figures that mislead by their form."""
    assert text.signed(-0.4) == "−0.40"
    assert text.bounds(Interval(mean=0.5, low=0.4, high=0.6, n=9)) == "[0.40, 0.60]"
    assert text.bounds(Difference(mean=0.1, low=-0.1, high=0.3, p=0.2, n=9)) == "[−0.10, +0.30]"
    assert [text.p_value(p) for p in (0.0, 0.00009, 0.04321, 1.0)] == [
        "p < 0.0001", "p < 0.0001", "p = 0.043", "p = 1",
    ]  # fmt: skip
    assert [text.seconds(value) for value in (0.02, 9.84, 141)] == ["20 ms", "9.8 s", "2.4 min"]
    assert text.number(18431) == "18\u202f431"
