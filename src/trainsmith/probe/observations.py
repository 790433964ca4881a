"""What the probe saw of a job: the frozen facts that every check judges.

`gather` fills them in, stage by stage; a field is None until its stage has run. Nothing here judges.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from trainsmith.config.probe import ProbeConfig
from trainsmith.jail.border import EnvironmentFailed, EnvironmentInfo, Reason, TaskView
from trainsmith.jobs.problems import Problem
from trainsmith.jobs.schema import AuthorConfig
from trainsmith.records import Message


@dataclass(frozen=True, slots=True)
class Fault:
    """Why the environment could not be opened or read, or died while it was used."""

    reason: Reason
    what: str
    where: str = ""
    """`environment/package/file.py:12`, where it is known."""
    fix: str = ""
    """The border's own advice."""
    tail: str = ""
    """The end of what the author's code printed."""


def fault_of(error: EnvironmentFailed) -> Fault:
    """The border's error as an observation."""
    return Fault(error.reason, error.what, error.where, error.fix, error.output)


@dataclass(frozen=True, slots=True)
class Opening:
    """The environment opened in one fresh process, and the first of its tasks."""

    info: EnvironmentInfo | None
    tasks: tuple[TaskView, ...]
    fault: Fault | None = None
    printed: int = 0
    """Bytes that import and load() printed."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Prompt:
    """A task's first prompt as the base model would read it."""

    task: int
    tokens: int
    refused: str = ""
    """Why the model's chat template does not take these messages."""


class ReplyKind(StrEnum):
    """What a canned reply tries."""

    EMPTY = "empty"
    REFUSAL = "refusal"
    ECHO = "echo"
    """The last message that the model was shown."""
    JUNK = "junk"
    REPEATED = "repeated"
    LONG = "long"
    TAGS = "tags"
    """The usual answer marks around nothing."""
    CONSTANT = "constant"
    """The most frequent value of a field, the same for every task."""
    EVERY = "every"
    """Many tasks' values of a field at once."""
    STRESS = "stress"
    """What makes a careless regular expression run for ever."""
    FIELD = "field"
    """The task's own value of a field: perhaps the right answer."""
    SWAPPED = "swapped"
    """Another task's value of the field, in the same form: a wrong answer of the right shape."""


HOLLOW = frozenset(ReplyKind) - {ReplyKind.FIELD, ReplyKind.SWAPPED, ReplyKind.STRESS}
"""Kinds that a policy can produce without reading the question: none of them may score near the best."""


HERE = "{}"
"""Stands for the last message shown, in the text of an echo."""


@dataclass(frozen=True, slots=True)
class Canned:
    """One canned reply to one task; every turn of a rollout gets it."""

    kind: ReplyKind
    text: str
    """Of an echo: where `HERE` stands, the last message shown goes in."""
    form: str = ""
    """For replies made of a field: which one, and how it was written."""

    def say(self, shown: str) -> str:
        """The reply to a last message `shown`."""
        return self.text.replace(HERE, shown) if self.kind is ReplyKind.ECHO else self.text


@dataclass(frozen=True, slots=True)
class Scored:
    """The outcome of one rollout with a canned reply."""

    task: int
    reply: Canned
    reward: float | None
    """None: no usable reward; `error` says why."""
    error: str = ""
    timed_out: bool = False
    died: bool = False
    """The rollout ended the process that played it."""
    values: tuple[tuple[str, float], ...] = ()
    """Each reward function's own value."""
    shown: str = ""
    """The last user message that the reply answered."""

    turns: int = 1
    """The model's turns, of the agent that had most."""
    seconds: float = 0.0
    """The environment's own time."""

    @property
    def lost(self) -> bool:
        """Whether the rollout did not end of itself."""
        return self.timed_out or self.died

    @property
    def said(self) -> str:
        """The reply's text."""
        return self.reply.say(self.shown)


@dataclass(frozen=True, slots=True)
class CannedScores:
    """All canned rollouts, once in each of two processes."""

    first: tuple[Scored, ...]
    second: tuple[Scored, ...]
    """The same rollouts in another process, in another order; may be fewer."""
    planned: int
    """Rollouts of `first` that were meant to run."""
    mean_seconds: float
    """The environment's own time in a rollout; 0 if none ended."""
    seconds: float
    fault: Fault | None = None
    """Set when the environment died under the replies."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """One reply of the base model, scored."""

    task: int
    reward: float | None
    text: str
    error: str = ""
    cut: bool = False
    """The reply used up all tokens that it was allowed."""


@dataclass(frozen=True, slots=True)
class Signal:
    """The base model's groups: for each task tried, its replies."""

    groups: tuple[tuple[Sampled, ...], ...]
    base: str
    seconds: float
    fault: Fault | None = None
    """Set when the environment died under the replies."""

    @property
    def samples(self) -> tuple[Sampled, ...]:
        """All replies, group after group."""
        return tuple(sampled for group in self.groups for sampled in group)


@dataclass(frozen=True, slots=True)
class Observations:
    """Everything seen so far."""

    limits: ProbeConfig
    problems: tuple[Problem, ...] = ()
    config: AuthorConfig | None = None
    context: int = 0
    """Longest sequence that the chosen base model can read, in tokens; 0 if unknown."""
    files: int = 0
    first: Opening | None = None
    second: Opening | None = None
    prompts: tuple[Prompt, ...] = ()
    """The first opening's prompts, measured."""
    canned: CannedScores | None = None
    signal: Signal | None = None

    @property
    def tasks(self) -> tuple[TaskView, ...]:
        """The tasks of the first opening."""
        return self.first.tasks if self.first else ()

    @property
    def scores(self) -> tuple[Scored, ...]:
        """The canned rollouts of the first process."""
        return self.canned.first if self.canned else ()


R = TypeVar("R", Scored, Sampled)


def rewarded(results: Iterable[R]) -> list[tuple[R, float]]:
    """The results that have a usable reward, each with it."""
    return [(result, result.reward) for result in results if result.reward is not None]


def question(messages: tuple[Message, ...] | None) -> str:
    """The last user message of a prompt; empty if there is none."""
    return next((m.content for m in reversed(messages or ()) if m.role == "user"), "")
