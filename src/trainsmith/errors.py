"""The three roots of everything that can go wrong: the user, the agent, the machine.

Every error says what is wrong, where, and how to mend it, in one line.
"""

from __future__ import annotations


class TrainsmithError(Exception):
    """Base of all errors that trainsmith raises on purpose."""

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}. Fix: {self.fix}" if self.fix else head


class UserError(TrainsmithError, ValueError):
    """The user's input is wrong; the command ends with exit status 2."""


class AgentError(TrainsmithError):
    """The author of a job (agent or person) made a mistake: it is typed and scored, never void."""


class MachineError(TrainsmithError, RuntimeError):
    """The machine or a service failed: an episode that meets it is void, not scored."""
