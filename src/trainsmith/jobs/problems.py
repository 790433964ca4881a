"""What is wrong with a job: every problem found, each with its place and its mend."""

from __future__ import annotations

from collections.abc import Sequence

from trainsmith.errors import AgentError
from trainsmith.jobs.paths import CONFIG
from trainsmith.records import Record

SHOWN = 60
"""Characters of an author's text that a message quotes."""


class Problem(Record):
    """One mistake of the author, told in one line."""

    where: str
    """A file, or a key of rl.toml as `rl.toml: trainer.optim.lr`."""
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}. Fix: {self.fix}"


class JobError(AgentError):
    """A job that must not run. One problem reads as one line, several as one line each."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        if not problems:
            raise ValueError("a JobError needs a problem")
        self.problems = tuple(problems)
        first = self.problems[0]
        super().__init__(first.what, where=first.where, fix=first.fix)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return str(self.problems[0])
        return "\n".join([f"{len(self.problems)} problems in the job:", *map(str, self.problems)])

    def __reduce__(self) -> tuple[type[JobError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


def at(path: str, what: str, fix: str) -> Problem:
    """A problem of the key of rl.toml at a dotted path."""
    shown = path if path.isprintable() and len(path) <= 200 else quote(path)
    return Problem(where=f"{CONFIG}: {shown}", what=what, fix=fix)


def quote(value: object) -> str:
    """An author's value on one line (repr escapes what does not print), cut to `SHOWN` characters."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def listed(names: Sequence[str]) -> str:
    """`"a", "b" or "c"`."""
    quoted = [f'"{name}"' for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
