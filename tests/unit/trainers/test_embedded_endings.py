"""How a training that ran out of signal is called."""

from types import SimpleNamespace
from typing import Any

import pytest

from trainsmith.config.trainer import EmbeddedTrainerConfig
from trainsmith.records import Status
from trainsmith.trainers.embedded import _Run


@pytest.mark.parametrize(
    ("updates", "last", "status", "said"),
    [
        (0, 0.0, Status.NO_SIGNAL, "no group had rewards that differ in the last 6 steps"),
        (1, 1.0, Status.OK, "ended early after 7 of 40 steps for lack of signal"),
        (1, 0.0, Status.NO_SIGNAL, "mean reward fell from 0.500 to 0.000"),
    ],
)
def test_a_collapse_is_no_success(updates: int, last: float, status: Status, said: str) -> None:
    """Fault: a run that a huge learning rate made useless ends as plain ok."""
    order: Any = SimpleNamespace(job=SimpleNamespace(config=SimpleNamespace(max_steps=40)))
    none: Any = None
    run = _Run(
        order, EmbeddedTrainerConfig(), none, none, none, none, none,
        steps=7, updates=updates, silent_steps=6, first_reward=0.5, last_reward=last,
    )  # fmt: skip
    ended = run._no_signal()
    assert ended[0] is status
    assert said in ended[1]
