"""The grader with an honest little model: a deterministic function that knows some of the answers."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

import pytest

from trainsmith import families
from trainsmith.config.grading import GradingConfig
from trainsmith.engine.records import Completion, SampleRequest
from trainsmith.grading import examples
from trainsmith.grading.answers import answer
from trainsmith.grading.baselines import ScoreKey, baselines, best, score_key
from trainsmith.grading.grader import compare, grade, summary
from trainsmith.ledger import Ledger
from trainsmith.records import HiddenScore, Item, Message, Task

SECRET = bytes(32)
TASK_IDS = families.task_ids()


class LetterTokens:
    """One token a character; turns are separated by 0."""

    def encode_chat(self, messages: Sequence[Message]) -> tuple[int, ...]:
        return tuple(number for message in messages for number in (*map(ord, message.content), 0))

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(map(chr, tokens))


class Oracle:
    """Knows the answers to `items`, but for a share of `errors` that depends on the question alone."""

    def __init__(self, items: Sequence[Item], errors: float = 0.0) -> None:
        self.tokenizer = LetterTokens()
        self.requests: list[SampleRequest] = []
        self._answers = {item.question: item.answer for item in items}
        self._errors = errors

    def sample(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        self.requests += requests
        return [self._reply(request) for request in requests]

    def knows(self, question: str) -> bool:
        return hashlib.sha256(question.encode()).digest()[0] / 256 >= self._errors

    def _reply(self, request: SampleRequest) -> Completion:
        question = self.tokenizer.decode(request.prompt).split("\0")[-2]
        text = self._answers[question] if self.knows(question) else "?"
        tokens = tuple(map(ord, text))
        return Completion(tokens, (0.0,) * len(tokens), "stop")


@pytest.fixture(params=TASK_IDS)
def task(request: pytest.FixtureRequest) -> Task:
    return families.task(request.param)


@pytest.fixture
def items(task: Task) -> tuple[Item, ...]:
    return families.hidden_items(task, SECRET)


def score(task: Task, items: tuple[Item, ...], errors: float, **settings: int) -> HiddenScore:
    return grade(Oracle(items, errors), task, items, model="oracle", config=GradingConfig(**settings))


def test_scores_are_those_of_the_answers(task: Task, items: tuple[Item, ...]) -> None:
    """Guards against scores in another order than the items, and against a scorer that pays for rubbish."""
    oracle = Oracle(items, errors=0.4)
    found = grade(oracle, task, items, model="oracle", config=GradingConfig())
    known = [oracle.knows(item.question) for item in items]
    assert found.scores == tuple(1.0 if knows else 0.0 for knows in known)
    assert 0.5 < summary(found, GradingConfig()).mean < 0.7
    assert len(found.scores) == task.evaluation.items
    assert found.items == families.items_key(items)
    assert found.generated_tokens > 0


def test_every_item_is_asked_alike(task: Task, items: tuple[Item, ...]) -> None:
    """Guards against other sampling, another budget or another prompt for some items or on one side."""
    before, after = Oracle(items), Oracle(items, 0.9)
    for oracle in (before, after):
        grade(oracle, task, items, model="oracle", config=GradingConfig())
    first_turn = before.requests[: len(items)]
    assert first_turn == after.requests[: len(items)]
    for request, item in zip(first_turn, items, strict=True):
        assert (request.max_tokens, request.temperature) == (
            task.evaluation.max_tokens,
            task.evaluation.temperature,
        )
        assert request.prompt == before.tokenizer.encode_chat(task.messages(item.question))
    assert len({request.seed for request in before.requests}) == len(before.requests)


def test_the_evaluations_seed_counts(task: Task, items: tuple[Item, ...]) -> None:
    """Guards against a fixed seed that ignores the configuration."""
    asked = []
    for seed in (0, 1):
        oracle = Oracle(items)
        grade(oracle, task, items, model="oracle", config=GradingConfig(seed=seed))
        asked.append({request.seed for request in oracle.requests})
    assert asked[0].isdisjoint(asked[1])


def test_an_improvement_is_seen(task: Task, items: tuple[Item, ...]) -> None:
    """Guards against a difference with the wrong sign, or one that misses a large effect."""
    worse, better = score(task, items, 0.6), score(task, items, 0.1)
    found = compare(worse, better, GradingConfig())
    assert found.low > 0.3
    assert found.p < 1e-6
    assert compare(worse, worse, GradingConfig()).p == 1.0
    wide = compare(worse, better, GradingConfig(level=0.99))
    assert wide.low < found.low < found.high < wide.high


def test_only_the_same_items_are_compared(task: Task, items: tuple[Item, ...]) -> None:
    """Guards against a 'paired' difference over other items."""
    other = families.hidden_items(task, bytes([1]) * 32)
    with pytest.raises(ValueError, match="other items"):
        compare(score(task, items, 0.5), score(task, other, 0.5), GradingConfig())


def test_no_hidden_text_in_a_score(task: Task, items: tuple[Item, ...]) -> None:
    """Guards against hidden questions leaking through records that are stored and shown."""
    stored = score(task, items, 0.5).model_dump_json()
    assert not any(item.question in stored for item in items)


def test_public_examples_side_by_side(task: Task) -> None:
    """Guards against replies that change places, and solved examples that pass for skill."""
    before = answer(Oracle(task.examples, 1.0), task, task.examples, seed=0)
    after = answer(Oracle(task.examples), task, task.examples, seed=0)
    found = examples.pair(task, task.bases[0], before, after)
    assert [pair.question for pair in found.pairs] == [item.question for item in task.examples]
    assert all(pair.before.score == 0.0 for pair in found.pairs)
    assert all(pair.after and pair.after.score == 1.0 for pair in found.pairs)
    assert [pair.shown for pair in found.pairs[:3]] == [True, True, False]
    untrained = examples.pair(task, task.bases[0], before)
    assert all(pair.after is None for pair in untrained.pairs)


def test_baselines_are_measured_once(ledger_task: Task, ledger: Ledger) -> None:
    """Guards against grading a base again, and against keeping its score under too few conditions."""
    items = families.hidden_items(ledger_task, SECRET)
    measured: list[str] = []

    async def measure(base: str) -> HiddenScore:
        measured.append(base)
        oracle = Oracle(items, errors=0.2 if base == ledger_task.bases[0] else 0.7)
        return grade(oracle, ledger_task, items, model=f"{base}@r", config=GradingConfig())

    def keys(**changes: int) -> list[ScoreKey]:
        config = GradingConfig(**changes)
        key = families.items_key(items)
        return [score_key(ledger_task, base, "r", key, config) for base in ledger_task.bases]

    first = asyncio.run(baselines(keys(), ledger.scores, measure))
    assert asyncio.run(baselines(keys(), ledger.scores, measure)) == first
    assert measured == list(ledger_task.bases)
    assert best(first).name == ledger_task.bases[0]
    asyncio.run(baselines(keys(seed=1), ledger.scores, measure))
    assert len(measured) == 2 * len(ledger_task.bases)
    assert [kept.is_base for kept in ledger.scores.of_items(ledger_task.id, first[0].score.items)]


@pytest.fixture
def ledger_task() -> Task:
    return families.task(TASK_IDS[0])


@pytest.fixture
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return Ledger.open(tmp_path_factory.mktemp("ledger"))
