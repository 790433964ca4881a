"""Rewards and metrics must be numbers.

verifiers takes whatever `float()` takes, so that the text "1.0" would pass for a number.
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable
from typing import Any

from verifiers.v1.trace import Trace


def refuse_what_is_no_number() -> None:
    """Let verifiers' traces raise TypeError for a reward or metric of another type, and name it."""
    Trace.record_reward = _strict("reward", Trace.record_reward)
    Trace.record_metric = _strict("metric", Trace.record_metric)


def _strict(what: str, original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def record(self: Any, name: str, value: Any, *arguments: Any, **options: Any) -> None:
        if not _is_number(value):
            raise TypeError(f"the {what} {name!r} returned {_show(value)}, not a number")
        original(self, name, value, *arguments, **options)

    return record


def _is_number(value: Any) -> bool:
    """Python's and numpy's numbers, and arrays or tensors of no dimension."""
    return isinstance(value, numbers.Real) or (
        hasattr(value, "dtype") and getattr(value, "shape", None) == ()
    )


def _show(value: Any) -> str:
    return "None" if value is None else f"{type(value).__name__} {value!r:.60}"
