"""The TOML writer against the standard library's reader."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsmith.jobs.toml_text import to_toml

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_SCALARS = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=12,
)


def _same(a: Any, b: Any) -> bool:
    """Equal, and of the same types: 1 == 1.0 == True would hide a change."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return type(a) is type(b) and repr(a) == repr(b)


@given(st.dictionaries(_TEXT, _VALUES, max_size=6))
def test_what_is_written_reads_back(document: dict[str, Any]) -> None:
    """Fault: a string, key, number or table of an author changes on its way into the completed rl.toml."""
    assert _same(tomllib.loads(to_toml(document)), document)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, object()])
def test_what_toml_has_not_is_refused(value: object) -> None:
    """Fault: a value that TOML cannot hold is written as text that means something else."""
    with pytest.raises(ValueError, match="TOML cannot hold"):
        to_toml({"a": value})
