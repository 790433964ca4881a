"""Checks that turn a decoded field into a typed value or raise `BadFrame`. Shared by both sides; pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .frames import BadFrame

T = TypeVar("T")
Check = Callable[[object], T]


def integer(low: int, high: int) -> Check[int]:
    """An integer in [low, high]; True and False are not integers."""

    def check(value: object) -> int:
        if type(value) is not int or not low <= value <= high:
            raise BadFrame(f"not an integer from {low} to {high}")
        return value

    return check


def real(value: object) -> float:
    """Any float, NaN and infinities included, or an integer that fits one."""
    if type(value) is int and abs(value) < 1 << 63:
        return float(value)
    if type(value) is not float:
        raise BadFrame("not a number")
    return value


def flag(value: object) -> bool:
    """True or False."""
    if type(value) is not bool:
        raise BadFrame("not a boolean")
    return value


def text(limit: int) -> Check[str]:
    """A string of at most `limit` characters."""

    def check(value: object) -> str:
        if type(value) is not str or len(value) > limit:
            raise BadFrame(f"not a text of at most {limit} characters")
        return value

    return check


def one_of(*allowed: str) -> Check[str]:
    """One of a few words."""

    def check(value: object) -> str:
        if type(value) is not str or value not in allowed:
            raise BadFrame(f"not one of {', '.join(allowed)}")
        return value

    return check


def maybe(inner: Check[T]) -> Check[T | None]:
    """None, or what `inner` takes."""
    return lambda value: None if value is None else inner(value)


def many(inner: Check[T], limit: int) -> Check[tuple[T, ...]]:
    """A list of at most `limit` items."""

    def check(value: object) -> tuple[T, ...]:
        if type(value) is not list or len(value) > limit:
            raise BadFrame(f"not a list of at most {limit} items")
        return tuple(map(inner, value))

    return check


def struct(build: Callable[..., T], *fields: Check[Any]) -> Check[T]:
    """A list with exactly these fields, made into a value."""

    def check(value: object) -> T:
        if type(value) is not list or len(value) != len(fields):
            raise BadFrame(f"not a list of {len(fields)} fields")
        return build(*(field(item) for field, item in zip(fields, value, strict=True)))

    return check
