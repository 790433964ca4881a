"""From the bytes of rl.toml to plain values: syntax, size, depth, and values that no key may have."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from typing import Any

from trainsmith.jobs.limits import MAX_TOML_BYTES, MAX_TOML_DEPTH
from trainsmith.jobs.paths import CONFIG
from trainsmith.jobs.problems import JobError, Problem, at, quote

_MAX_INTEGER = 2**63 - 1


def read_toml(content: bytes) -> dict[str, Any]:
    """The document. JobError with the line and column of a syntax error, or with every unusable value."""
    document = _parse(_text(content))
    problems = tuple(_unusable(document, ""))
    if problems:
        raise JobError(problems)
    return document


def _text(content: bytes) -> str:
    if len(content) > MAX_TOML_BYTES:
        raise _broken(
            f"has {len(content)} bytes; the limit is {MAX_TOML_BYTES}", "put data into environment/"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise _broken(f"is not UTF-8 (line {line})", "save it as UTF-8 text") from error


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _broken(f"is not TOML: {error}", "mend the syntax there") from error
    except RecursionError as error:
        raise _broken("nests arrays or tables too deeply", f"use at most {MAX_TOML_DEPTH} levels") from error
    except ValueError as error:  # an integer of thousands of digits
        raise _broken(f"has a number that cannot be read: {error}", "use a smaller number") from error


def _broken(what: str, fix: str) -> JobError:
    return JobError([Problem(where=CONFIG, what=what, fix=fix)])


def _unusable(value: Any, path: str, depth: int = 0) -> Iterator[Problem]:
    if depth > MAX_TOML_DEPTH:
        yield at(path, "is nested too deeply", f"use at most {MAX_TOML_DEPTH} levels")
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _unusable(inner, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _unusable(inner, path if isinstance(inner, dict) else f"{path}[{index}]", depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        yield at(path, f"{value} is not a finite number", "give a finite number")
    elif isinstance(value, int) and abs(value) > _MAX_INTEGER:
        yield at(path, "is an integer of more than 64 bits", "use a smaller number")
    elif not isinstance(value, str | int | float):
        yield at(path, f"{quote(str(value))} is a date or time", "write it as a string")
