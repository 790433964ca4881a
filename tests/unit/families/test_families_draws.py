"""Items: distinct, disjoint, repeatable, and hidden behind the secret."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainsmith import families
from trainsmith.errors import MachineError
from trainsmith.families import draws
from trainsmith.families.kind import Kind
from trainsmith.families.normal import normalise
from trainsmith.families.recipe import Recipe
from trainsmith.families.tasks import source_of

IDS = families.task_ids()
SECRET = bytes(range(32))


@pytest.mark.parametrize("task_id", IDS)
@pytest.mark.parametrize("seed", [0, 1, 2, 12345])
def test_hidden_items_are_new_and_distinct(task_id: str, seed: int) -> None:
    """Fault: the evaluation asks what is public, trained on, or asked already."""
    task = families.task(task_id.replace("@0", f"@{seed}"))
    hidden = [normalise(item.question) for item in families.hidden_items(task, SECRET)]
    public = {normalise(item.question) for item in task.examples}
    training = {normalise(item.question) for item in families.training_items(task)}
    assert len(hidden) == len(set(hidden)) == task.evaluation.items >= 200
    assert len(public) == len(task.examples) == 8
    assert len(training) >= 400
    assert not set(hidden) & (public | training)


@pytest.mark.parametrize("task_id", IDS)
def test_everything_repeats(task_id: str) -> None:
    """Fault: the same id or secret gives other items in another call."""
    task = families.task(task_id)
    source_of.cache_clear()
    assert families.task(task_id) == task
    first, second = families.hidden_items(task, SECRET), families.hidden_items(task, SECRET)
    assert first == second
    assert families.items_key(first) == families.items_key(second)
    assert families.training_items(task) == families.training_items(task)


@pytest.mark.parametrize("task_id", IDS)
def test_the_secret_decides(task_id: str) -> None:
    """Fault: hidden items can be drawn without the secret."""
    task = families.task(task_id)
    one, other = families.hidden_items(task, SECRET), families.hidden_items(task, SECRET[::-1])
    shared = {item.question for item in one} & {item.question for item in other}
    assert len(shared) < 0.8 * len(one)
    assert families.items_key(one) != families.items_key(other)


@pytest.mark.parametrize("task_id", IDS)
def test_another_seed_is_another_task(task_id: str) -> None:
    """Fault: a seed changes nothing, so that tasks of one kind are one task."""
    briefs = {families.task(task_id.replace("@0", f"@{seed}")).brief for seed in range(6)}
    assert len(briefs) == 6


@pytest.mark.parametrize("task_id", IDS)
def test_solved_examples_have_different_answers(task_id: str) -> None:
    """Fault: the prompt itself suggests one constant answer."""
    for seed in range(5):
        first, second, *_ = families.task(task_id.replace("@0", f"@{seed}")).examples
        assert first.answer != second.answer


@dataclass(frozen=True)
class Rule:
    """What the test's kind fixes."""

    highest: int


def _question(rng: random.Random, rule: Rule) -> tuple[str, str]:
    number = rng.randint(1, rule.highest)
    return f"Say {number}.", str(number)


TOY: Kind[Rule] = Kind(
    name="toy",
    skill="Say a number.",
    answer="The number.",
    rule=lambda rng: Rule(700),
    describe=lambda rule: "Say it.",
    question=_question,
    reward=lambda reply, answer: float(reply == answer),
    recipe=Recipe(lr=1e-5, steps=2, num_tasks=100),
    max_tokens=4,
    train_seconds=10,
)


@settings(max_examples=20, deadline=None)
@given(secret=st.binary(min_size=1, max_size=40), count=st.integers(1, 300))
def test_disjoint_for_any_secret(secret: bytes, count: int) -> None:
    """Fault: disjointness holds by luck of one secret."""
    source = draws.Source.of("toy/toy@0", TOY)
    hidden = {item.question for item in draws.hidden_items(source, secret, count)}
    known = {item.question for item in (*draws.public_items(source), *draws.training_items(source))}
    assert len(hidden) == count
    assert not hidden & known


def test_too_few_questions_is_an_error_not_an_overlap() -> None:
    """Fault: a small kind silently repeats or overlaps, or draws for ever."""
    small = replace(TOY, rule=lambda rng: Rule(150))
    source = draws.Source.of("toy/toy@0", small)
    with pytest.raises(MachineError, match="too few distinct questions"):
        draws.hidden_items(source, SECRET, 100)
    tiny = replace(TOY, rule=lambda rng: Rule(50))
    with pytest.raises(MachineError, match="too few distinct questions"):
        draws.training_items(draws.Source.of("toy/toy@0", tiny))


def test_items_key_sees_order_and_content() -> None:
    """Fault: scores on other items, or in another order, are paired."""
    items = families.hidden_items(families.task(IDS[0]), SECRET)
    changed = (items[0].model_copy(update={"answer": "x"}), *items[1:])
    keys = {families.items_key(found) for found in (items, items[::-1], items[:-1], changed)}
    assert len(keys) == 4
    assert all(item.question not in key for key in keys for item in items)
