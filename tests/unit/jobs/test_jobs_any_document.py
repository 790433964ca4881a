"""Documents of every kind: each is a job or a list of lines, never a traceback."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from trainsmith.jobs import Job, JobError, keys, load
from trainsmith.jobs.toml_text import to_toml
from trainsmith.records import Task

_NAMES = sorted({part for key in keys() for part in key.path.split(".") if part != "*"})
_KEYS = st.sampled_from([*_NAMES, "source", "lora", "ports", "a b", ""])
_TYPES = st.sampled_from(
    ["adamw", "sgd", "muon", "linear", "cosine", "grpo", "max_rl", "difficulty_pool", "ipo"]
)
_VALUES = st.recursive(
    st.booleans() | st.integers(-2, 4096) | st.floats(-2, 2) | st.text(max_size=3) | _TYPES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


def _places(value: Any, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(inner for key, part in items for inner in _places(part, (*place, key)))]


def _outcome(folder: Path, task: Task) -> Job | None:
    try:
        return load(folder, task, trainer="embedded")
    except JobError as error:
        lines = str(error).splitlines()
        assert len(lines) == (1 if len(error.problems) == 1 else len(error.problems) + 1)
        assert all(problem.what and problem.fix for problem in error.problems)
        return None


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_valid_file_with_anything_in_one_place(
    data: st.DataObject, make_job: Callable[..., Path], task: Task, rl_toml: str
) -> None:
    """Fault: a value of the wrong kind somewhere ends in a traceback of pydantic or of ours."""
    document = tomllib.loads(rl_toml)
    place = data.draw(st.sampled_from(_places(document)[1:]))
    inside: Any = document
    for key in place[:-1]:
        inside = inside[key]
    if isinstance(inside, dict) and data.draw(st.booleans()):
        inside[data.draw(_KEYS)] = data.draw(_VALUES)
    else:
        inside[place[-1]] = data.draw(_VALUES)
    _outcome(make_job({"rl.toml": to_toml(document)}), task)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=st.dictionaries(_KEYS, _VALUES, max_size=6))
@example(document={})
@example(document={"orchestrator": {"train": {"source": [[]]}}})
@example(
    document={"orchestrator": {"train": {"source": [{"env": 3}]}}, "model": [], "trainer": {"optim": []}}
)
def test_any_document(document: dict[str, Any], make_job: Callable[..., Path], task: Task) -> None:
    """Fault: an arbitrary document raises anything but JobError, or passes without its required keys."""
    assert _outcome(make_job({"rl.toml": to_toml(document)}), task) is None
