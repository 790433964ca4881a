"""The grader on the real 135M model: reproducible, batch-independent, and fair to its own weights."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from trainsmith import bases, families
from trainsmith.config.grading import GradingConfig
from trainsmith.grading.grader import compare, grade
from trainsmith.grading.weights import Reason, WeightsRejected, check_weights

pytestmark = [pytest.mark.component, pytest.mark.slow]
SECRET = bytes(range(32))
BASE = "smollm2-135m"


@pytest.fixture(scope="module")
def directory() -> Path:
    return bases.fetch(BASE)


def test_untrained_weights_change_nothing(directory: Path, tmp_path: Path) -> None:
    """Guards against a difference between a base and its own weights, loaded through the allow-list."""
    from trainsmith.engine.policy import Policy

    task = families.task(families.task_ids()[0])
    items = families.hidden_items(task, SECRET)[:48]
    policy = Policy.load(directory)
    before = grade(policy, task, items, model=BASE, config=GradingConfig())
    assert grade(policy, task, items, model=BASE, config=GradingConfig()).scores == before.scores

    weights = tmp_path / "weights.safetensors"
    shutil.copy(directory / "model.safetensors", weights)
    check_weights(weights, directory)
    policy.load_weights(weights)
    after = grade(policy, task, items, model="copy", config=GradingConfig())
    assert compare(before, after, GradingConfig()).mean == 0.0
    assert before.generated_tokens == after.generated_tokens > 0


def test_another_bases_weights_are_refused(directory: Path) -> None:
    """Guards against swapping in another model: the smaller base's weights are not this base's."""
    other = bases.fetch("smollm2-135m-28l") / "model.safetensors"
    with pytest.raises(WeightsRejected) as caught:
        check_weights(other, directory)
    assert caught.value.reason is Reason.NAMES
