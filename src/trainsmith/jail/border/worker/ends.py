"""A finished trace of verifiers as the message that crosses the border."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import where
from .messages import MAX_ERROR, MAX_NAME, MAX_SIGNALS, Signal, TraceEnd


def trace_end(number: int, trace: Any) -> TraceEnd:
    """One trace. Values that are no numbers become None with an error of their own."""
    errors = [error_text(error) for error in trace.errors[:20]]
    rewards = tuple(
        Signal(_name(name), None if reward is None else number_of(reward.score), _weight(reward))
        for name, reward in list(trace.rewards.items())[:MAX_SIGNALS]
    )
    metrics = tuple(
        Signal(_name(name), number_of(value), 0.0)
        for name, value in list(trace.metrics.items())[:MAX_SIGNALS]
    )
    return TraceEnd(
        number=number,
        agent=None if trace.agent is None or trace.agent.name is None else _name(trace.agent.name),
        trainable=bool(trace.agent is not None and trace.agent.trainable),
        ok=bool(trace.ok),
        stop=None if trace.stop_condition is None else _name(trace.stop_condition),
        timed_out=bool(trace.is_timeout),
        turns=min(trace.num_turns, 100_000),
        rewards=rewards,
        metrics=metrics,
        errors=tuple(errors),
    )


def error_text(error: Any) -> str:
    """A recorded error in one line, with the author's line that raised it."""
    place = where.of_text(error.traceback)
    text = f"{error.type}: {error.message}".replace("\n", " ")
    return _cut(text, place)


def exception_text(error: BaseException) -> str:
    """The same for an exception that reached the worker."""
    return _cut(f"{type(error).__name__}: {error}".replace("\n", " "), where.of_error(error))


def number_of(value: object) -> float | None:
    """A number as a float; None for what is no number."""
    if not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def short(errors: Iterable[str]) -> tuple[str, ...]:
    """At most 20 errors of legal length."""
    return tuple(error[:MAX_ERROR] for error in list(errors)[:20])


def _weight(reward: Any) -> float:
    weight = None if reward is None else number_of(reward.weight)
    return 1.0 if weight is None else weight


def _name(name: object) -> str:
    return str(name)[:MAX_NAME]


def _cut(text: str, place: str) -> str:
    tail = f" ({place[:300]})" if place else ""
    return text[: MAX_ERROR - len(tail)] + tail
