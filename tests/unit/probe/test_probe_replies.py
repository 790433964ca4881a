"""The canned replies."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from trainsmith.jail.border import TaskView
from trainsmith.probe import fields, replies
from trainsmith.probe.observations import ReplyKind

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


TAGGED = next(w for w in fields.writings(["answer"]) if w.label == "answer, tagged")


def view(index: int, values: object) -> TaskView:
    return TaskView(index=index, key=str(index), messages=None, fields=json.dumps(values))


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=12))
def test_any_fields_can_be_read(values: dict[str, object]) -> None:
    """Guards against a probe that fails on odd task data."""
    written = fields.values(view(0, values))
    assert set(written) <= set(values) and len(written) <= fields.MOST_FIELDS
    assert all(text and len(text) <= fields.LONGEST_VALUE for text in written.values())


def test_fields_become_what_a_model_would_write() -> None:
    """Guards against references that no right reply looks like."""
    written = fields.values(view(0, {"n": 7, "x": 2.50, "ok": True, "words": ["a", "b"], "none": None}))
    assert written == {"n": "7", "x": "2.5", "ok": "yes", "words": "a b"}


def test_answers_come_before_other_fields() -> None:
    """Guards against an answer that is cut off behind many other fields."""
    many = {f"f{i}": "x" for i in range(20)} | {"gold_answer": "y"}
    assert next(iter(fields.values(view(0, many)))) == "gold_answer"


@given(st.integers(1, 4000), st.integers(64, 5000))
def test_hollow_replies_keep_the_cap(max_tokens: int, longest: int) -> None:
    """Guards against rewards judged on replies longer than the job's model could write."""
    length = replies.cap(max_tokens, longest)
    made = [*replies.hollow(length), *replies.stress(length)]
    assert all(len(reply.text) <= length for reply in made)
    assert len({(reply.kind, reply.form) for reply in made}) == len(made)


def test_every_holds_all_values_of_a_small_set() -> None:
    """Guards against a two-label reward that accepts a reply with both labels."""
    tasks = [view(i, {"answer": "yes" if i % 3 else "no"}) for i in range(9)]
    shared = {reply.kind: reply.text for reply in replies.shared(tasks, [TAGGED], 64)}
    assert shared == {ReplyKind.CONSTANT: "<answer>yes</answer>", ReplyKind.EVERY: "<answer>yes no</answer>"}


def test_swapped_replies_are_wrong_ones_of_the_same_form() -> None:
    """Guards against comparing the right answer with itself."""
    tasks = [view(i, {"answer": answer}) for i, answer in enumerate(["a", "a", "b"])]
    swapped = replies.swapped(tasks[0], tasks, [TAGGED])
    assert [reply.text for reply in swapped] == ["<answer>b</answer>"]
    assert list(replies.swapped(tasks[0], tasks[:2], [TAGGED])) == []


def test_echoes_take_the_form_of_an_answer() -> None:
    """Guards against a reward that looks for the answer anywhere between the marks."""
    assert [echo.say("Which?") for echo in replies.echoes([TAGGED, TAGGED])] == ["<answer>Which?</answer>"]


def test_packed_values_keep_the_length() -> None:
    """Guards against a reply that is longer than any of the model's."""
    tasks = [view(i, {"answer": str(10**i)}) for i in range(40)]
    texts = [reply.text for reply in replies.shared(tasks, [fields.Writing("answer", fields.FORMS[0])], 64)]
    assert all(len(text) <= 64 for text in texts) and texts[1].startswith("1 10 100 ")
