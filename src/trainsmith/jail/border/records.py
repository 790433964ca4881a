"""What crosses the border, as the trusted side sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from trainsmith.jail.border.failure import Reason
from trainsmith.records import Message, Record


class TimeLimits(Record):
    """How long the author's code may take. Seconds."""

    start_seconds: float = 120.0
    """Until the jail runs and has imported verifiers; past it, the machine is at fault."""
    open_seconds: float = 60.0
    """Import of the package and load() of its tasks."""
    rollout_seconds: float = 60.0
    """The environment's own time in one rollout; waiting for tokens does not count."""
    hook_seconds: float = 20.0
    """Setup, finalize or scoring of one rollout."""
    block_seconds: float = 10.0
    """Code that does not let go of the event loop."""


class EnvironmentInfo(Record):
    """What the package holds."""

    tasks: int
    taskset: str
    """Class name of the Taskset."""
    env: str
    """Class name of the Env; `SingleAgentEnv` for a plain taskset."""
    single_turn: bool
    """One reply a rollout, opened by the task's own prompt."""
    fast: bool
    """Whether rollouts take the fast path of plain single-turn tasks."""
    rewards: tuple[str, ...]
    """Names of the reward methods, in verifiers' order."""
    weights: tuple[float, ...]
    """One a reward."""
    metrics: tuple[str, ...]
    agents: tuple[str, ...]
    truncated: bool = False
    """Whether there are more tasks than are used; an endless load() is cut."""
    notes: tuple[str, ...] = ()
    """What is ignored, one line each."""


class TaskView(Record):
    """One task of the package."""

    index: int
    key: str
    """Hash of its content without its index: equal for duplicates."""
    messages: tuple[Message, ...] | None
    """The chat that it opens with; None when the environment's own code opens it."""
    fields: str
    """The author's extra data fields, as JSON."""


class GenerateCall(Record):
    """A request for one reply of the model."""

    index: int
    """The task."""
    sample: int
    """Which rollout of that task, as the caller numbered it."""
    call: int
    """Number of the call within the rollout. (index, sample, call) is the same after a worker's death."""
    trace: str
    """Which agent run of the rollout; "0" for a single agent."""
    agent: str | None
    messages: tuple[Message, ...]
    max_tokens: int | None
    previous: int | None = None
    """The call whose messages and reply these messages continue, word for word."""
    known: int = 0
    """How many of the messages belong to `previous`, its reply included; the rest is new."""


class GenerateReply(Record):
    """One reply of the model."""

    text: str
    finish: Literal["stop", "length"]
    prompt_tokens: int
    completion_tokens: int


Generate = Callable[[GenerateCall], Awaitable[GenerateReply]]


class GenerateRefused(Exception):
    """Raised by a `Generate` to answer that this call gets no reply (too long, budget spent); the environment
    sees a failed model call. Any other exception ends the rollout and reaches its caller."""


class RewardValue(Record):
    """One reward of a finished run."""

    name: str
    value: float | None
    """None when it was never scored or is no number; may be NaN or infinite."""
    weight: float


class Metric(Record):
    """One metric of a finished run."""

    name: str
    value: float | None


class TraceResult(Record):
    """One agent's finished run."""

    id: str
    agent: str | None
    trainable: bool
    ok: bool
    reward: float | None
    """Weighted sum; None unless the run is ok and every reward is a finite number."""
    rewards: tuple[RewardValue, ...]
    metrics: tuple[Metric, ...]
    turns: int
    timed_out: bool
    stop: str | None
    calls: tuple[int, ...]
    """The calls that this run made, in order."""
    errors: tuple[str, ...]


class EnvironmentRollout(Record):
    """One finished rollout: data, also when it failed."""

    index: int
    sample: int
    ok: bool
    timed_out: bool
    errors: tuple[str, ...]
    traces: tuple[TraceResult, ...]
    failure: Reason | None = None
    """Set when the rollout ended its worker."""
    environment_seconds: float = 0.0
    replayed: int = 0
    """Replies that were not sampled anew after a worker's death."""
