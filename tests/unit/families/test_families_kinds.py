"""What every kind owes: right answers, an honest scorer, a brief that suffices."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainsmith import families
from trainsmith.families.tasks import source_of
from trainsmith.records import Task

IDS = families.task_ids()
SECRET = b"unit tests"
KINDS = pytest.mark.parametrize("task_id", IDS)


@KINDS
def test_the_answer_scores_one_and_others_do_not(task_id: str) -> None:
    """Fault: the scorer refuses the right answer, or takes a spoiled one."""
    task = families.task(task_id)
    for item in families.hidden_items(task, SECRET):
        assert families.score(task, item, (item.answer,)) == 1.0
        assert families.score(task, item, (f" {item.answer}.\n",)) == 1.0
        for spoiled in (
            item.answer + "x",
            item.answer[:-1],
            f"It is {item.answer}",
            item.answer.swapcase() + "!",
        ):
            assert families.score(task, item, (spoiled,)) < 1.0


@KINDS
def test_empty_and_echoed_replies_score_nothing(task_id: str) -> None:
    """Fault: a reply without an answer earns credit."""
    task = families.task(task_id)
    kind = source_of(task_id).kind
    for item in families.hidden_items(task, SECRET):
        everything = " ".join(example.answer for example in task.examples)
        for hollow in ("", " ", ".", "\n", item.question, task.prefix[0].content, everything, "I don't know"):
            assert families.score(task, item, (hollow,)) == 0.0
            assert kind.reward(hollow, item.answer) == 0.0
        assert families.score(task, item, ()) == 0.0


@KINDS
def test_no_constant_reply_pays(task_id: str) -> None:
    """Fault: always saying the most frequent answer scores about as much as the skill."""
    task = families.task(task_id)
    items = families.hidden_items(task, SECRET)
    kind = source_of(task_id).kind
    for constant in {item.answer for item in items}:
        assert sum(families.score(task, item, (constant,)) for item in items) / len(items) < 0.25
        assert sum(kind.reward(constant, item.answer) for item in items) / len(items) < 0.3


@KINDS
@settings(max_examples=150, deadline=None)
@given(reply=st.text())
def test_scores_take_any_text(task_id: str, reply: str) -> None:
    """Fault: a strange reply raises, or scores outside [0, 1]."""
    task = families.task(task_id)
    kind = source_of(task_id).kind
    for item in task.examples[:3]:
        assert 0.0 <= families.score(task, item, (reply,)) <= 1.0
        assert 0.0 <= kind.reward(reply, item.answer) <= 1.0


@KINDS
def test_the_reward_is_whole_only_for_the_answer(task_id: str) -> None:
    """Fault: shaping pays as much for a part as for the whole."""
    kind = source_of(task_id).kind
    items = families.task(task_id).examples
    for item in items:
        assert kind.reward(item.answer, item.answer) == 1.0
        for other in items:
            if other.answer != item.answer:
                assert kind.reward(other.answer, item.answer) <= 0.5


@KINDS
def test_the_brief_says_what_an_author_needs(task_id: str) -> None:
    """Fault: the brief leaves out the prompt, the budget or a base, or is too long to be read."""
    task = families.task(task_id)
    assert 300 <= len(task.brief.split()) <= 500
    for message in task.prefix:
        assert f"{message.role}: {message.content}" in task.brief
    for text in (
        *task.bases,
        str(task.budget.max_steps),
        f"{task.budget.max_tokens:,}",
        "256 hidden questions",
    ):
        assert text in task.brief
    assert "{" not in task.brief


@KINDS
def test_prompts_are_prefix_and_question(task_id: str) -> None:
    """Fault: the solved examples are not those that are public, or in another form."""
    task = families.task(task_id)
    system, *turns = task.prefix
    assert system.role == "system"
    assert [turn.role for turn in turns] == ["user", "assistant"] * 2
    assert [turn.content for turn in turns[::2]] == [item.question for item in task.examples[:2]]
    assert [turn.content for turn in turns[1::2]] == [item.answer for item in task.examples[:2]]
    assert task.messages("Q")[-1].content == "Q"
    assert families.next_message(task, task.examples[0], ("a",)) is None


def _answer(task: Task, question: str) -> str:
    """The answer by another way than the kind's own."""
    words = re.findall(r"[a-zA-Z]+", question.split(":")[-1])
    numbers = [int(text) for text in re.findall(r"\d+", question)]
    match task.kind:
        case "last-word":
            return words[-1]
        case "word-at":
            return (
                {"second": words[1], "third": words[2]}.get(question.split()[3], words[-2])
                if ("to last" not in question)
                else words[-2]
            )
        case "decode":
            code, asked = question.removeprefix("Code: ").split(". Decode: ")
            return dict(re.split(r" = | is ", entry) for entry in code.split(", "))[asked]
        case "next-word":
            asked = question.split('"')[1]
            return words[words.index(asked) + (1 if "after" in question else -1)]
        case "upper-case":
            return question.split('"')[1].upper()
        case "extreme":
            return str(sorted(numbers)[0 if "smallest" in question else -1])
        case "digit-at":
            place = {"last": 0, "second": -2, "second to last": 1}[
                question.split(" the ")[1].split(" digit")[0]
            ]
            digits = question.rstrip("?").split()[-1]
            return digits[1] if place == -2 else digits[::-1][place]
        case "sequence":
            return str(2 * numbers[-1] - numbers[-2])
        case "price":
            return re.findall(rf"\b{question.rstrip('?').split()[-2]} (\d+)", question)[0]
    raise AssertionError(f"no check for {task.kind}")


@KINDS
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_answers_are_right(task_id: str, seed: int) -> None:
    """Fault: a generator gives wrong answers, which no training can reach."""
    task = families.task(task_id.replace("@0", f"@{seed}"))
    for item in (*task.examples, *families.hidden_items(task, SECRET), *families.training_items(task)):
        assert item.answer == _answer(task, item.question), item.question
