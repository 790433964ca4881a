"""Why an author's environment cannot be used, or why one rollout of it was lost."""

from __future__ import annotations

from enum import StrEnum

from trainsmith.errors import AgentError


class Reason(StrEnum):
    """What went wrong; always the author's doing."""

    BAD_PACKAGE = "bad_package"
    """No such package, no Taskset, no usable config or hooks."""
    BAD_ARGUMENTS = "bad_arguments"
    """The taskset's arguments do not fit its config."""
    IMPORT_FAILED = "import_failed"
    LOAD_FAILED = "load_failed"
    NO_TASKS = "no_tasks"
    EXITED = "exited"
    """It ended its own process."""
    HUNG = "hung"
    """It did not come to an end within its time limit."""
    FORKED = "forked"
    """It leaves processes behind, or starts too many."""
    MEMORY = "memory"
    TOO_LARGE = "too_large"
    """A task or a message is over the size limits."""
    REFUSED = "refused"
    """It needs what no jail offers: a network, tools, containers, another model."""
    PROTOCOL = "protocol"
    """It forged messages of its worker."""


class EnvironmentFailed(AgentError):
    """The environment cannot be used."""

    def __init__(
        self, reason: Reason, what: str, *, where: str = "", fix: str = "", output: str = ""
    ) -> None:
        """`where` is the author's line (`arith/taskset.py:12: code`), `output` the end of what it printed."""
        super().__init__(what, where=where, fix=fix)
        self.reason = reason
        self.output = output
