"""Tool calls as text, in the form that Hermes and Qwen models are trained on.

    <tool_call>
    {"name": "read_file", "arguments": {"path": "rl.toml"}}
    </tool_call>

Written into plain messages for a chat template that knows no tools, and read out of replies of all models.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from pydantic_core import from_json

from trainsmith.engine.conversation import Tool, ToolCall, Turn

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_UNFINISHED = "EOF while parsing a string"

_OFFER = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{declarations}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> \
XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""


class Malformed(ValueError):
    """What stands between the tags is no call."""

    def __init__(self, what: str, *, unfinished: bool = False) -> None:
        """`unfinished` when it ends within a string, which may hold the closing tag as text."""
        super().__init__(what)
        self.unfinished = unfinished


def written_out(turns: Sequence[Turn], tools: Sequence[Tool]) -> list[Turn]:
    """The same conversation in plain messages: tools in the system message, calls and results as text."""
    plain: list[Turn] = []
    for turn in turns:
        follows = bool(plain) and turn.role == "tool" and plain[-1].name == "tool"
        if follows:
            plain[-1] = replace(plain[-1], content=f"{plain[-1].content}\n{_result(turn.content)}")
        elif turn.role == "tool":
            plain.append(Turn("user", _result(turn.content), name="tool"))
        else:
            plain.append(Turn(turn.role, "\n".join(filter(None, [turn.content, *map(_call, turn.calls)]))))
    if not tools:
        return plain
    offer = _OFFER.format(declarations="\n".join(tool.declaration for tool in tools))
    if plain and plain[0].role == "system":
        return [Turn("system", f"{plain[0].content}\n\n{offer}"), *plain[1:]]
    return [Turn("system", offer), *plain]


def read_call(text: str) -> ToolCall:
    """The call between two tags. Raises Malformed for anything but an object with a name and arguments."""
    try:
        # Unlike the standard library's, this parser bounds the depth and takes no NaN.
        found = from_json(text, allow_inf_nan=False)
        json.dumps(found, allow_nan=False)  # 1e999 is read as infinite
    except ValueError as error:
        raise Malformed(str(error), unfinished=str(error).startswith(_UNFINISHED)) from error
    if not isinstance(found, dict) or not isinstance(name := found.get("name"), str) or not name:
        raise Malformed("a call is an object with a name")
    arguments = found.get("arguments", {})
    if not isinstance(arguments, dict):
        raise Malformed("the arguments of a call are an object")
    return ToolCall(name, arguments)


def _call(call: ToolCall) -> str:
    text = json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)
    return f"{OPEN}\n{text}\n{CLOSE}"


def _result(content: str) -> str:
    return f"<tool_response>\n{content}\n</tool_response>"
