"""The keys of rl.toml as a table, derived from the schema: for messages, the skeleton and the guide."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from trainsmith.jobs.problems import listed
from trainsmith.jobs.schema import AuthorConfig
from trainsmith.records import Record


class Key(Record):
    """One key that an author may set."""

    path: str
    """Dotted; the name of a pool or gate, which the author chooses, is `*`."""
    expects: str
    """What a value must be, in words."""
    default: str
    """As TOML; empty when the key must be set or is off."""
    meaning: str
    required: bool = False
    variants: tuple[str, ...] = ()
    """The values of the table's `type` that have this key; empty when all have it."""

    @property
    def table(self) -> str:
        """Dotted path of the table that holds the key; empty at the top."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """The key itself."""
        return self.path.rpartition(".")[2]


@cache
def keys() -> tuple[Key, ...]:
    """Every key, in the schema's order; a key of several variants stands once if it is the same in them."""
    merged: dict[tuple[str, str, str], Key] = {}
    for key in _of_table(AuthorConfig, "", ""):
        mark = (key.path, key.default, key.meaning)
        known = merged.get(mark)
        merged[mark] = key.model_copy(update={"variants": known.variants + key.variants}) if known else key
    return tuple(map(_of_all_variants, merged.values()))


def _of_all_variants(key: Key) -> Key:
    """Without the variants when they are all that the key's table has."""
    count = _variants_of(AuthorConfig, key.table.split("."))
    return key.model_copy(update={"variants": ()}) if len(key.variants) == count else key


def _variants_of(table: type[BaseModel], path: list[str]) -> int:
    """How many variants the table at `path` has; 0 if there is a choice further up, or none."""
    field = table.model_fields.get(path[0])
    tables = [inner for inner, _ in _tables(field.annotation)] if field else []
    if len(path) == 1 or len(tables) != 1:
        return len(tables) if len(path) == 1 else 0
    return _variants_of(tables[0], path[1:])


def find(path: str, variant: str = "") -> Key | None:
    """The key at a dotted path; of one variant of its table, if that matters."""
    found = [key for key in keys() if matches(key.path, path)]
    return next((key for key in found if variant in key.variants), found[0] if found else None)


def matches(pattern: str, path: str) -> bool:
    """Whether a key's path, with `*` for the author's names, fits a dotted path."""
    expected, given = pattern.split("."), path.split(".")
    return len(expected) == len(given) and all(a in ("*", b) for a, b in zip(expected, given, strict=True))


def _of_table(table: type[BaseModel], prefix: str, variant: str) -> Iterator[Key]:
    for name, field in table.model_fields.items():
        if not (variant and name == "type"):
            yield from _of_field(f"{prefix}{name}", field, variant)


def _of_field(path: str, field: FieldInfo, variant: str) -> Iterator[Key]:
    tables = tuple(_tables(field.annotation))
    if not tables:
        yield _leaf(path, field, variant)
    if len(tables) > 1:
        yield _choice(path, field, [_type_of(table) for table, _ in tables])
    for table, suffix in tables:
        yield from _of_table(table, f"{path}{suffix}.", _type_of(table) if len(tables) > 1 else variant)


def _tables(annotation: Any) -> Iterator[tuple[type[BaseModel], str]]:
    """The tables an annotation may hold; those of a dict are under a name of the author's choice."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, ""
        return
    named = ".*" if get_origin(annotation) is dict else ""
    for inner in get_args(annotation):
        for table, suffix in _tables(inner):
            yield table, named + suffix


def _type_of(table: type[BaseModel]) -> str:
    return str(table.model_fields["type"].default)


def _choice(path: str, field: FieldInfo, types: list[str]) -> Key:
    return Key(
        path=f"{path}.type",
        expects=listed(types),
        default=f'"{_type_of(type(field.default))}"',
        meaning=field.description or "",
    )


def _leaf(path: str, field: FieldInfo, variant: str) -> Key:
    return Key(
        path=path,
        expects=_expects(field),
        default=_as_toml(field.default),
        meaning=field.description or "The only kind.",
        required=field.is_required(),
        variants=(variant,) if variant else (),
    )


def _as_toml(value: object) -> str:
    if value is PydanticUndefined or value is None:
        return ""
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


_WORDS = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}


def _expects(field: FieldInfo) -> str:
    if get_origin(field.annotation) is Literal:
        return listed(get_args(field.annotation))
    kinds = [*get_args(field.annotation), field.annotation]
    word = next(word for kind, word in _WORDS.items() if kind in kinds)
    return " ".join([word, *_bounds(field.metadata)])


def _bounds(metadata: list[Any]) -> list[str]:
    parts = []
    for bound in metadata:
        if isinstance(bound, annotated_types.Ge):
            parts.append(f"of at least {bound.ge}")
        elif isinstance(bound, annotated_types.Gt):
            parts.append(f"above {bound.gt}")
        elif isinstance(bound, annotated_types.Le):
            parts.append(f"at most {bound.le}")
        elif isinstance(bound, annotated_types.Lt):
            parts.append(f"below {bound.lt}")
    return [" and ".join(parts)] if parts else []
