"""What an agent can do: typed tool calls, a call that could not be understood, and stopping.

Parsing is in `tools`; what a call may do at a given moment is decided in `machine`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainsmith.records import Record


class ListFiles(Record):
    """Name all files of the workspace."""

    tool: Literal["list_files"] = "list_files"


class ReadFile(Record):
    """Show one file."""

    tool: Literal["read_file"] = "read_file"
    path: str


class WriteFile(Record):
    """Create or replace one file."""

    tool: Literal["write_file"] = "write_file"
    path: str
    content: str


class EditFile(Record):
    """Replace the one place where `old` stands by `new`."""

    tool: Literal["edit_file"] = "edit_file"
    path: str
    old: str
    new: str


class BaselineScores(Record):
    """Show the hidden scores of the untrained bases."""

    tool: Literal["baseline_scores"] = "baseline_scores"


class ValidateJob(Record):
    """Probe the job; costs one validation."""

    tool: Literal["validate_job"] = "validate_job"


class SubmitJob(Record):
    """Hand the job in; probes it first unless these very files have passed."""

    tool: Literal["submit_job"] = "submit_job"


class Malformed(Record):
    """A call that could not be understood; it costs a turn."""

    tool: Literal["malformed"] = "malformed"
    error: str
    """What is wrong with the call."""
    fix: str = ""
    raw: str = ""
    """The call as it came, cut."""


class Stop(Record):
    """The agent acts no more: it gave up, answered without a call, or spent its own budget."""

    tool: Literal["stop"] = "stop"
    reason: str


ToolCall = ListFiles | ReadFile | WriteFile | EditFile | BaselineScores | ValidateJob | SubmitJob
Call = Annotated[ToolCall | Malformed | Stop, Field(discriminator="tool")]


class Action(Record):
    """One move of an agent."""

    call: Call
    note: str = ""
    """What the agent says about it, for people who watch; it has no effect."""
