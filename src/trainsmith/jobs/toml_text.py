"""Writes plain values as TOML: the mirror image of `tomllib`, which reads only.

Keys keep their order. Integers, finite floats, strings, booleans, lists and tables; no dates and no null.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def to_toml(document: Mapping[str, Any]) -> str:
    """TOML text that `tomllib.loads` reads back as an equal document. ValueError for what TOML has not."""
    return "\n".join(_table(document, ())).strip("\n") + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """The table's own values first, then the tables in it: what follows a header belongs to that header."""
    for key, value in table.items():
        if not _is_table(value) and not _is_tables(value):
            yield f"{_key(key)} = {_value(value)}"
    for key, value in table.items():
        inner = (*path, key)
        if _is_table(value):
            if not value or not all(map(_is_table, value.values())):
                yield from ("", f"[{_dotted(inner)}]")
            yield from _table(value, inner)
        elif _is_tables(value):
            for element in value:
                yield from ("", f"[[{_dotted(inner)}]]")
                yield from _table(element, inner)


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_tables(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(map(_is_table, value))


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(map(_key, path))


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float() if math.isfinite(value):
            return repr(value)
        case str():
            return _string(value)
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case Mapping():
            return f"{{{', '.join(f'{_key(key)} = {_value(inner)}' for key, inner in value.items())}}}"
    raise ValueError(f"TOML cannot hold {value!r}")


def _string(text: str) -> str:
    """A basic string: JSON's escapes are TOML's, except that TOML wants DEL escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
