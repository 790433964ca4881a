"""Turns what the schema refuses into problems that an author can act on, and keeps what is left to check.

Unknown keys get the nearest known one, forbidden keys the reason, wrong values the bounds and the default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from trainsmith.jobs import forbidden, likely
from trainsmith.jobs.keys import find, keys
from trainsmith.jobs.problems import Problem, at, quote
from trainsmith.jobs.schema import AuthorConfig

_CHOICES = frozenset(
    {
        "orchestrator.algo",
        "orchestrator.train.source.curriculum.sampler",
        "trainer.optim",
        "trainer.scheduler",
    }
)
"""Tables of several variants: pydantic puts the variant's name behind theirs into the place of an error."""

Place = tuple[str | int, ...]
"""Keys and list indices from the top of the document."""


class Validated(NamedTuple):
    """What became of a document."""

    config: AuthorConfig | None
    """With problems: what remains without the refused keys, with placeholders for missing ones; None if that
    is no config either."""
    problems: tuple[Problem, ...]
    bad: frozenset[str]
    """Dotted paths of the keys that have problems."""


class _Fault(NamedTuple):
    kind: str
    value: Any
    place: Place
    variant: str
    """The variant of the table around it, where that table has several."""

    @property
    def path(self) -> str:
        return _dotted(self.place)


def validate(document: dict[str, Any], hints: Mapping[str, str]) -> Validated:
    """Checks a document against the schema. `hints` say, by dotted path, what to set a missing key to."""
    try:
        return Validated(AuthorConfig.model_validate(document), (), frozenset())
    except ValidationError as error:
        faults = [_fault(detail) for detail in error.errors(include_url=False)]
    problems = [problem for fault in faults for problem in _tell(fault, hints)]
    remaining = _without(document, [fault.place for fault in faults])
    return Validated(
        _second_try(remaining), tuple(dict.fromkeys(problems)), frozenset(fault.path for fault in faults)
    )


def _second_try(document: dict[str, Any]) -> AuthorConfig | None:
    try:
        _fill(document)
        return AuthorConfig.model_validate(document)
    except (ValidationError, AttributeError, TypeError):
        return None  # a table is no table: that is told, and nothing under it can be checked


def _fill(document: dict[str, Any]) -> None:
    document.setdefault("max_steps", 1)
    document.setdefault("model", {}).setdefault("name", "")
    sources = document.setdefault("orchestrator", {}).setdefault("train", {}).setdefault("source", [{}])
    for source in sources:
        source.setdefault("env", {}).setdefault("taskset", {}).setdefault("id", "")


def _without(document: dict[str, Any], places: Sequence[Place]) -> dict[str, Any]:
    """A copy without the refused entries; list entries stay, since their places would move."""
    refused = set(places)

    def copy(value: Any, place: Place) -> Any:
        if isinstance(value, dict):
            kept = ((key, inner) for key, inner in value.items() if (*place, key) not in refused)
            return {key: copy(inner, (*place, key)) for key, inner in kept}
        if isinstance(value, list):
            return [copy(inner, (*place, index)) for index, inner in enumerate(value)]
        return value

    remaining: dict[str, Any] = copy(document, ())
    return remaining


def _fault(detail: ErrorDetails) -> _Fault:
    place: Place = ()
    variant = ""
    for part in detail["loc"]:
        if not variant and _dotted(place) in _CHOICES:
            variant = str(part)
        else:
            place = (*place, part)
    return _Fault(detail["type"], detail["input"], place, variant)


def _dotted(place: Place) -> str:
    return ".".join(part for part in place if isinstance(part, str))


def _tell(fault: _Fault, hints: Mapping[str, str]) -> Iterator[Problem]:
    path, value = fault.path, fault.value
    match fault.kind:
        case "extra_forbidden":
            yield _unknown(path, fault.variant)
        case "missing":
            yield from _missing(path, hints)
        case "union_tag_invalid":
            yield _wrong_choice(f"{path}.type", value["type"])
        case "literal_error":
            yield _wrong_choice(path, value)
        case "model_type" | "dict_type" | "union_tag_not_found":
            yield at(path, f"{quote(value)} is not a table", f"write it as the table [{path}]")
        case "tuple_type":
            yield at(path, "is not a list of tables", f"write [[{path}]] with two brackets on each side")
        case "too_short":
            yield at(path, "is empty", "name at least one, or leave the table out")
        case "string_pattern_mismatch":
            yield at(path, f"{quote(value)} is not a plain name", "use up to 64 letters, digits and _.-")
        case _:
            yield _wrong_value(path, value, fault.variant)


def _missing(path: str, hints: Mapping[str, str]) -> Iterator[Problem]:
    """The missing key, or the keys that must be set in a missing table."""
    found = find(path)
    inside = [
        key for key in keys() if key.required and key.path.startswith(f"{path}.") and "*" not in key.path
    ]
    for where, key in [(path, found)] if found else [(key.path, key) for key in inside]:
        meaning = f"{key.meaning[0].lower()}{key.meaning[1:].rstrip('.')}"
        yield at(where, "is missing", hints.get(where, f"set it: {meaning}"))


def _wrong_choice(path: str, value: object) -> Problem:
    key = find(path)
    expects = key.expects if key else "a known type"
    if isinstance(value, str) and (refused := forbidden.VALUES.get((path, value))):
        return at(path, f"{quote(value)} is refused: {refused.why}", refused.fix)
    return at(path, f"{quote(value)} is not one of its values", f"use {expects}")


def _wrong_value(path: str, value: object, variant: str) -> Problem:
    key = find(path, variant)
    if key is None:
        return at(path, f"{quote(value)} cannot be used", "use a plain value")
    default = f" (default {key.default})" if key.default else ""
    return at(path, f"{quote(value)} is not {key.expects}", f"give {key.expects}{default}")


def _unknown(path: str, variant: str) -> Problem:
    if refused := forbidden.reason(path):
        return at(path, f"may not be set: {refused.why}", refused.fix)
    if fix := likely.fix(path, variant):
        return at(path, "is not a known key", fix)
    if refused := forbidden.table_reason(path):
        return at(path, f"may not be set: {refused.why}", refused.fix)
    return at(path, "is not a known key", likely.remove(path))
