"""The tools' schemas and the reading of calls."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsmith.episode.calls import EditFile, ListFiles, Malformed, ReadFile, WriteFile
from trainsmith.episode.tools import TOOLS, parse


def test_there_are_the_seven_tools_of_the_design() -> None:
    """Fault: an adapter offers another set of tools than the design."""
    assert [tool.signature for tool in TOOLS] == [
        "list_files()",
        "read_file(path)",
        "write_file(path, content)",
        "edit_file(path, old, new)",
        "baseline_scores()",
        "validate_job()",
        "submit_job()",
    ]


def test_schemas_are_json_schemas_that_refuse_extras() -> None:
    """Fault: a chat API or an MCP client refuses the schema, or lets unknown arguments through."""
    for tool in TOOLS:
        schema = json.loads(json.dumps(tool.parameters))
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert set(schema["required"]) == set(schema["properties"])


@pytest.mark.parametrize(
    ("name", "arguments", "call"),
    [
        ("list_files", None, ListFiles()),
        ("list_files", "", ListFiles()),
        ("list_files", "{}", ListFiles()),
        ("read_file", {"path": "rl.toml"}, ReadFile(path="rl.toml")),
        ("write_file", '{"path": "a.md", "content": ""}', WriteFile(path="a.md", content="")),
        ("edit_file", {"path": "a", "old": "x", "new": ""}, EditFile(path="a", old="x", new="")),
    ],
)
def test_good_calls(name: str, arguments: object, call: object) -> None:
    """Fault: a right call in either form of the field (mapping, JSON text) is refused."""
    assert parse(name, arguments) == call


@pytest.mark.parametrize(
    ("name", "arguments", "error", "fix"),
    [
        ("run_job", {}, "no tool 'run_job'", "list_files()"),
        ("Validate_Job", {}, "nearest is validate_job", "validate_job()"),
        (None, {}, "name is null", "submit_job()"),
        ("read_file", {}, "argument 'path' is missing", "read_file(path)"),
        ("read_file", {"path": 3}, "argument 'path' is a number, not a string", "read_file(path)"),
        ("read_file", {"path": None}, "argument 'path' is null", "read_file(path)"),
        ("read_file", {"path": "a", "lines": 3}, "argument 'lines' is unknown", "read_file(path)"),
        (
            "write_file",
            {"path": "a", "text": "b"},
            "argument 'content' is missing; argument 'text' is unknown",
            "",
        ),
        ("write_file", '{"path": "a", "content": "b', "not JSON", "write_file(path, content)"),
        ("write_file", "[1]", "arguments are a list, not an object", "write_file(path, content)"),
        ("submit_job", {"force": True}, "argument 'force' is unknown", "submit_job without"),
        ("edit_file", "[" * 100_000, "not JSON", ""),
    ],
)
def test_bad_calls_say_what_to_change(name: object, arguments: object, error: str, fix: str) -> None:
    """Fault: an agent is told "bad call" and cannot mend it."""
    call = parse(name, arguments)
    assert isinstance(call, Malformed)
    assert error in call.error
    assert fix.replace(" without", "()") in call.fix
    assert len(call.raw) <= 2_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from([tool.name for tool in TOOLS]) | JSON, JSON | st.text(max_size=40))
def test_any_call_is_read_without_raising(name: object, arguments: object) -> None:
    """Fault: odd arguments of a model crash the run instead of costing it a turn."""
    call = parse(name, arguments)
    assert call.model_dump_json()
