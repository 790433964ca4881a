"""Plays the canned replies: one after another first, to time and to blame; then many at once.

The border ends a rollout that takes too long. One that does so among others is played again alone, so that no
reply is blamed for its neighbour's endless loop. The second process gets the same replies in reverse order.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence

from trainsmith.config.probe import ProbeConfig
from trainsmith.jail.border import (
    Environment,
    EnvironmentFailed,
    GenerateCall,
    GenerateReply,
    TaskView,
)
from trainsmith.probe import fields, replies
from trainsmith.probe.averages import mean
from trainsmith.probe.observations import Canned, CannedScores, Fault, ReplyKind, Scored, fault_of, question
from trainsmith.probe.outcome import outcome
from trainsmith.probe.standing import best_forms

AT_ONCE = 32
"""Rollouts played at the same time in one process."""
FORMS_KEPT = 2
"""Forms of fields tried on all tasks."""

Play = tuple[TaskView, Canned]


class CannedPlayer:
    """Plays canned replies in one environment until its time is up or the environment fails."""

    def __init__(self, environment: Environment, limits: ProbeConfig) -> None:
        self._environment = environment
        self._limits = limits
        self._ends = time.monotonic() + limits.canned_seconds
        self._mean_seconds = 0.0
        self.fault: Fault | None = None

    async def one_by_one(self, plays: Sequence[Play]) -> list[Scored]:
        """Play one after another; ends with the first that hangs or dies."""
        scores: list[Scored] = []
        for play in plays:
            scored = None if self._stopped() else await self._play(play)
            if scored is None:
                break
            scores.append(scored)
            if scored.lost:
                break
            self._mean_seconds = mean(s.seconds for s in scores)
        return scores

    async def at_once(self, plays: Sequence[Play]) -> list[Scored]:
        """Play many at a time; ends with the first batch in which one hangs or dies."""
        scores: list[Scored] = []
        width = self._width()
        for batch in (plays[start : start + width] for start in range(0, len(plays), width)):
            if self._stopped():
                break
            played = await asyncio.gather(*map(self._play, batch))
            pairs = [(play, scored) for play, scored in zip(batch, played, strict=True) if scored is not None]
            scores += [scored for _, scored in pairs if not scored.lost]
            lost = [play for play, scored in pairs if scored.lost]
            if lost:
                alone = await self.one_by_one(lost)
                scores += alone
                if any(scored.lost for scored in alone):
                    break
        return scores

    def _stopped(self) -> bool:
        return self.fault is not None or time.monotonic() >= self._ends

    def _width(self) -> int:
        """No more than what could end within the time limit of one, should each block the others."""
        room = self._limits.reply_seconds / (4 * self._mean_seconds) if self._mean_seconds else AT_ONCE
        return max(1, min(AT_ONCE, int(room)))

    async def _play(self, play: Play) -> Scored | None:
        """The scored reply, or None when the environment failed as a whole."""
        task, reply = play
        shown = question(task.messages)

        async def generate(call: GenerateCall) -> GenerateReply:
            nonlocal shown
            shown = question(call.messages)
            return GenerateReply(text=reply.say(shown), finish="stop", prompt_tokens=1, completion_tokens=1)

        try:
            return outcome(
                await self._environment.rollout(task.index, generate, seconds=self._limits.reply_seconds),
                reply,
                shown,
            )
        except EnvironmentFailed as error:
            self.fault = fault_of(error)
            return None


async def play_all(
    first: Environment,
    second: Environment | None,
    tasks: Sequence[TaskView],
    length: int,
    limits: ProbeConfig,
) -> CannedScores:
    """Score all canned replies in the first process, then again in the second.

    `length`: characters that a reply may have at most.
    """
    began = time.monotonic()
    player = CannedPlayer(first, limits)
    scores: list[Scored] = []
    planned = 0
    for alone, plays in _rounds(tasks, length, limits, scores):
        if len(scores) < planned or any(s.lost or s.turns > limits.max_turns for s in scores):
            break
        planned += len(plays)
        scores += await (player.one_by_one(plays) if alone else player.at_once(plays))
    times = [scored.seconds for scored in scores[: limits.canned_tasks] if not scored.lost]
    whole = len(scores) == planned and not any(scored.lost for scored in scores)
    again = await _again(second, tasks, scores, limits) if second and whole else []
    return CannedScores(
        first=tuple(scores),
        second=tuple(again),
        planned=planned,
        mean_seconds=mean(times),
        seconds=time.monotonic() - began,
        fault=player.fault,
    )


async def _again(
    second: Environment, tasks: Sequence[TaskView], scores: Sequence[Scored], limits: ProbeConfig
) -> list[Scored]:
    by_index = {task.index: task for task in tasks}
    return await CannedPlayer(second, limits).at_once([(by_index[s.task], s.reply) for s in reversed(scores)])


def _rounds(
    tasks: Sequence[TaskView], length: int, limits: ProbeConfig, scores: Sequence[Scored]
) -> Iterator[tuple[bool, list[Play]]]:
    """What is played in turn, and whether alone: what may hang alone, the rest at once.

    Empty replies everywhere; stress on one task; no content everywhere, and all fields in all forms on the
    scouts; then all that can be made of the fields and forms that did best.
    """
    chosen = tasks[: limits.canned_tasks]
    scouts, others = chosen[: limits.scout_tasks], chosen[limits.scout_tasks :]
    empty, *hollow = replies.hollow(length)
    yield True, _each(chosen, [empty])
    yield True, _each(scouts[:1], replies.stress(length))
    yield False, _each(chosen, hollow) + [(task, r) for task in scouts for r in replies.references(task)]
    kept = best_forms(scores, FORMS_KEPT)
    best = [w for w in fields.writings(_names(scouts)) if w.label in kept]
    shared = list(replies.shared(tasks, best, length))
    constant = [reply for reply in shared if reply.kind is ReplyKind.CONSTANT]
    every = [reply for reply in shared if reply.kind is ReplyKind.EVERY]
    yield (
        False,
        [
            *((task, reply) for task in others for reply in replies.references(task, best)),
            *((task, reply) for task in chosen for reply in replies.swapped(task, chosen, best)),
            *_each(chosen, [*every, *replies.echoes(best)]),
            *_each(tasks[: limits.constant_tasks], constant),
        ],
    )


def _each(tasks: Iterable[TaskView], given: Sequence[Canned]) -> list[Play]:
    return [(task, reply) for task in tasks for reply in given]


def _names(tasks: Iterable[TaskView]) -> list[str]:
    """The fields of these tasks, without repeats."""
    return list(dict.fromkeys(name for task in tasks for name in fields.values(task)))
