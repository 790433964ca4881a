"""The seven tools: their schemas, the same through every adapter, and the strict reading of a call.

An adapter (chat API, MCP, one-line commands) only finds the tool's name and arguments; what is wrong with
them is told here, so that every agent reads the same errors. Never raises on an agent's input.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches

from pydantic import JsonValue

from trainsmith.episode.calls import (
    BaselineScores,
    EditFile,
    ListFiles,
    Malformed,
    ReadFile,
    SubmitJob,
    ToolCall,
    ValidateJob,
    WriteFile,
)
from trainsmith.records import Record

RAW_LIMIT = 2_000
"""Characters of a malformed call that are kept."""


class Argument(Record):
    """One argument of a tool; all are required strings."""

    name: str
    description: str


class Tool(Record):
    """One tool as an agent sees it."""

    name: str
    description: str
    arguments: tuple[Argument, ...] = ()

    @property
    def signature(self) -> str:
        """`name(argument, ...)`."""
        return f"{self.name}({', '.join(argument.name for argument in self.arguments)})"

    @property
    def parameters(self) -> dict[str, JsonValue]:
        """JSON schema of the arguments."""
        return {
            "type": "object",
            "properties": {
                argument.name: {"type": "string", "description": argument.description}
                for argument in self.arguments
            },
            "required": [argument.name for argument in self.arguments],
            "additionalProperties": False,
        }


_PATH = Argument(name="path", description="Path from the workspace, such as rl.toml.")

TOOLS = (
    Tool(name="list_files", description="Name all files of the workspace with their sizes."),
    Tool(name="read_file", description="Show one file. Read GUIDE.md first.", arguments=(_PATH,)),
    Tool(
        name="write_file",
        description="Create a file, or replace all of it.",
        arguments=(_PATH, Argument(name="content", description="The whole text of the file.")),
    ),
    Tool(
        name="edit_file",
        description="Replace one piece of text of a file by another.",
        arguments=(
            _PATH,
            Argument(name="old", description="Text that stands in the file exactly once."),
            Argument(name="new", description="Text to put in its place."),
        ),
    ),
    Tool(name="baseline_scores", description="Show the hidden scores of the untrained base models."),
    Tool(
        name="validate_job",
        description="Probe the job as it is. Costs one validation; the report says what to mend.",
    ),
    Tool(
        name="submit_job",
        description="Hand the job in, validated first unless these very files passed. The end if it passes.",
    ),
)

_CALLS: Mapping[str, type[ToolCall]] = {
    "list_files": ListFiles,
    "read_file": ReadFile,
    "write_file": WriteFile,
    "edit_file": EditFile,
    "baseline_scores": BaselineScores,
    "validate_job": ValidateJob,
    "submit_job": SubmitJob,
}


def parse(name: object, arguments: object = None) -> ToolCall | Malformed:
    """The typed call. `arguments` is a mapping, JSON text of an object, or None for no arguments."""
    raw = _raw(name, arguments)
    tool = next((tool for tool in TOOLS if tool.name == name), None)
    if tool is None:
        return Malformed(error=_unknown(name), fix=f"the tools are {_signatures()}", raw=raw)
    given = _arguments(arguments)
    if isinstance(given, str):
        return Malformed(error=f"{tool.name}: {given}", fix=_expected(tool), raw=raw)
    if fault := _fault(tool, given):
        return Malformed(error=f"{tool.name}: {fault}", fix=_expected(tool), raw=raw)
    return _CALLS[tool.name].model_validate(dict(given))


def _arguments(arguments: object) -> Mapping[object, object] | str:
    """The arguments as a mapping, or what is wrong with them."""
    if arguments is None or arguments == "":
        return {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            return f"the arguments are not JSON ({_first_line(str(error))})"
    if not isinstance(arguments, Mapping):
        return f"the arguments are {_kind(arguments)}, not an object"
    return arguments


def _fault(tool: Tool, given: Mapping[object, object]) -> str:
    """What is wrong with the arguments; empty when nothing is."""
    names = [argument.name for argument in tool.arguments]
    faults = [f"argument {name!r} is missing" for name in names if name not in given]
    faults += [f"argument {_cut(str(name))!r} is unknown" for name in given if name not in names]
    faults += [
        f"argument {name!r} is {_kind(given[name])}, not a string"
        for name in names
        if name in given and not isinstance(given[name], str)
    ]
    return "; ".join(faults[:5])


def _expected(tool: Tool) -> str:
    return (
        f"call {tool.signature}, all arguments strings"
        if tool.arguments
        else f"call {tool.signature} without arguments"
    )


def _unknown(name: object) -> str:
    if not isinstance(name, str):
        return f"the tool's name is {_kind(name)}, not a string"
    near = get_close_matches(name.lower(), [tool.name for tool in TOOLS], n=1, cutoff=0.5)
    return f"there is no tool {_cut(name)!r}" + (f"; the nearest is {near[0]}" if near else "")


def _signatures() -> str:
    return ", ".join(tool.signature for tool in TOOLS)


def _kind(value: object) -> str:
    """The JSON name of a value's type."""
    names = {
        dict: "an object",
        list: "a list",
        str: "a string",
        bool: "a boolean",
        int: "a number",
        float: "a number",
    }
    return "null" if value is None else names.get(type(value), "of an unknown type")


def _raw(name: object, arguments: object) -> str:
    return _cut(f"{name}({arguments})" if arguments is not None else f"{name}()", RAW_LIMIT)


def _cut(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""
