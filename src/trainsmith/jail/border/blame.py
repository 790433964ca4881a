"""Which rollout ended a worker: pure rules.

A worker plays hundreds of rollouts; when it dies, most of them are innocent. Named by the watchdog, or alone
in the worker and not waiting for tokens: guilty. Waiting for tokens (its code did not run), or lost for the
first time: again. Else it plays alone in a worker of its own, where the next death tells.
"""

from __future__ import annotations

from enum import StrEnum

_WAITING_LOSSES = 4
_LOSSES = 2


class Verdict(StrEnum):
    """What becomes of a rollout whose worker died."""

    GUILTY = "guilty"
    AGAIN = "again"
    SOLO = "solo"


def judge(*, suspected: bool, alone: bool, waiting: bool, losses: int) -> Verdict:
    """`losses` counts the workers that this rollout has lost, this one included."""
    if suspected or (alone and not waiting):
        return Verdict.GUILTY
    if losses < _LOSSES or (waiting and losses < _WAITING_LOSSES):
        return Verdict.AGAIN
    return Verdict.SOLO
