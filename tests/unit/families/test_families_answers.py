"""How replies are read, and what makes two questions the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsmith.families.answers import clean, exact
from trainsmith.families.normal import normalise


@pytest.mark.parametrize("reply", ["wolf", " wolf\n", "wolf.", "wolf .", "\twolf.\n"])
def test_white_space_and_a_full_stop_do_not_matter(reply: str) -> None:
    """Fault: a right answer is marked wrong for how it is set."""
    assert exact(reply, "wolf") == 1.0


@pytest.mark.parametrize(
    "reply", ["", ".", "Wolf", "the wolf", "wolf tiger", "wolf..", "<answer>wolf</answer>"]
)
def test_anything_else_is_wrong(reply: str) -> None:
    """Fault: a reply with more than the answer, or with other letters, scores."""
    assert exact(reply, "wolf") == 0.0


@given(st.text())
def test_clean_is_idempotent_up_to_a_second_full_stop(text: str) -> None:
    """Fault: an answer read twice is another answer, or keeps outer white space."""
    once = clean(text)
    assert once == once.strip()
    assert once.endswith(".") or clean(once) == once


@given(st.text())
def test_normalise_is_idempotent(text: str) -> None:
    """Fault: the disjointness of items depends on how often a question was normalised."""
    assert normalise(normalise(text)) == normalise(text)


def test_normalise_ignores_what_does_not_change_a_question() -> None:
    """Fault: a hidden question is public with another full stop, and counts as new."""
    assert normalise("What is  3 + 4?") == normalise(" what IS 3 + 4 ?".replace(" ?", "?"))
    assert normalise("word: cat, dog") != normalise("word: dog, cat")
