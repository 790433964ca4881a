"""Every message that may cross the border, with its exact shape. Shared by both sides.

Upward messages come out of the jail and are checked field by field; anything else ends the worker that sent
it. What they say is still only the author's word: budgets, tokens and identities are kept on the trusted
side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import TypeVar

from .frames import BadFrame, encode
from .schema import Check, flag, integer, many, maybe, one_of, real, struct, text

MAX_TASKS = 1_000_000
MAX_MESSAGES = 256
MAX_TEXT = 200_000
"""Characters of a conversation or of a task's data; four bytes each still fit a frame."""
MAX_NAME = 200
MAX_ERROR = 2_000
MAX_SIGNALS = 128
MAX_TRACES = 64
MAX_CALLS = 1 << 30
MAX_ROLLOUT = 1 << 53
MAX_PAGE = 4096
NO_ROOM = 75
"""Exit status of a worker that found no room for its thread."""
ROLES = ("system", "user", "assistant", "tool")


# ---- parts


@dataclass(frozen=True, slots=True)
class Chat:
    """One chat message."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Row:
    """One task as the trusted side sees it."""

    key: str
    messages: tuple[Chat, ...] | None
    fields: str


@dataclass(frozen=True, slots=True)
class Signal:
    """One reward or metric; the value is None when it was never scored or is no number."""

    name: str
    value: float | None
    weight: float


@dataclass(frozen=True, slots=True)
class TraceEnd:
    """One agent's finished run."""

    number: int
    agent: str | None
    trainable: bool
    ok: bool
    stop: str | None
    timed_out: bool
    turns: int
    rewards: tuple[Signal, ...]
    metrics: tuple[Signal, ...]
    errors: tuple[str, ...]


# ---- up


@dataclass(frozen=True, slots=True)
class Hello:
    """The zygote runs and has imported verifiers; nothing of the author's has run yet."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The package is imported and its tasks are loaded."""

    tasks: int
    taskset: str
    env: str
    single_turn: bool
    fast: bool
    agents: tuple[str, ...]
    rewards: tuple[str, ...]
    weights: tuple[float, ...]
    metrics: tuple[str, ...]
    truncated: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The package cannot be used."""

    reason: str
    what: str
    where: str
    fix: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where the author's code is while it imports or loads; sent when that takes long."""

    where: str


@dataclass(frozen=True, slots=True)
class Rows:
    """Tasks from `start` on; as many as fit a frame."""

    start: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Forked:
    """Answer to Fork."""

    worker: int
    ok: bool


@dataclass(frozen=True, slots=True)
class Exited:
    """A worker ended with this wait status."""

    worker: int
    status: int


@dataclass(frozen=True, slots=True)
class Up:
    """The worker's loop runs."""


@dataclass(frozen=True, slots=True)
class Beat:
    """The worker's loop still runs; once a second."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """The worker's loop does not run: which rollout holds it, and where."""

    rollout: int | None
    seconds: float
    where: str


@dataclass(frozen=True, slots=True)
class Generate:
    """Please generate."""

    rollout: int
    call: int
    trace: int
    agent: str | None
    messages: tuple[Chat, ...]
    max_tokens: int | None


@dataclass(frozen=True, slots=True)
class Done:
    """A rollout is over."""

    rollout: int
    ok: bool
    timed_out: bool
    errors: tuple[str, ...]
    traces: tuple[TraceEnd, ...]


# ---- down


@dataclass(frozen=True, slots=True)
class Load:
    """Import the package and load its tasks."""

    package: str
    arguments: str
    max_tasks: int
    max_turns: int
    hook_seconds: float
    rollout_seconds: float
    stuck_seconds: float
    place_seconds: float
    fast: bool


@dataclass(frozen=True, slots=True)
class List:
    """Send tasks [start, stop)."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Fork:
    """Fork a worker; its socket comes along as a descriptor."""

    worker: int


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill a worker."""

    worker: int


@dataclass(frozen=True, slots=True)
class Play:
    """Play task `index`."""

    rollout: int
    index: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The tokens' text for a call."""

    call: int
    text: str
    finish: str
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """No tokens for this call."""

    call: int
    error: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a rollout that ran out of time."""

    rollout: int


FromZygote = Hello | Ready | Failed | Place | Rows | Forked | Exited
FromWorker = Up | Beat | Stuck | Generate | Done
ToZygote = Load | List | Fork | Kill
ToWorker = Play | Reply | Refuse | Cancel
M = TypeVar("M")

_NAME, _ERROR = text(MAX_NAME), text(MAX_ERROR)
_ROLLOUT, _CALL, _COUNT = integer(0, MAX_ROLLOUT), integer(0, MAX_CALLS), integer(0, MAX_CALLS)
_CHAT = struct(Chat, one_of(*ROLES), text(MAX_TEXT))
_SIGNAL = struct(Signal, _NAME, maybe(real), real)
_SIGNALS, _ERRORS = many(_SIGNAL, MAX_SIGNALS), many(_ERROR, 20)


def _chat(value: object) -> tuple[Chat, ...]:
    chat = many(_CHAT, MAX_MESSAGES)(value)
    if sum(len(message.content) for message in chat) > MAX_TEXT:
        raise BadFrame(f"messages of more than {MAX_TEXT} characters")
    return chat


_ROW = struct(Row, _NAME, maybe(_chat), text(MAX_TEXT))
_TRACE = struct(
    TraceEnd,
    *(integer(0, MAX_CALLS), maybe(_NAME), flag, flag, maybe(_NAME), flag, integer(0, 100_000)),
    *(_SIGNALS, _SIGNALS, _ERRORS),
)

FROM_ZYGOTE: Mapping[str, Check[FromZygote]] = {
    "Hello": struct(Hello),
    "Ready": struct(
        Ready,
        *(integer(0, MAX_TASKS), _NAME, _NAME, flag, flag),
        *(many(_NAME, 64), many(_NAME, MAX_SIGNALS), many(real, MAX_SIGNALS), many(_NAME, MAX_SIGNALS)),
        *(flag, many(_ERROR, 20)),
    ),
    "Failed": struct(Failed, _NAME, _ERROR, _ERROR, _ERROR),
    "Place": struct(Place, _ERROR),
    "Rows": struct(Rows, integer(0, MAX_TASKS), many(_ROW, MAX_PAGE)),
    "Forked": struct(Forked, _COUNT, flag),
    "Exited": struct(Exited, _COUNT, integer(0, (1 << 16) - 1)),
}
FROM_WORKER: Mapping[str, Check[FromWorker]] = {
    "Up": struct(Up),
    "Beat": struct(Beat),
    "Stuck": struct(Stuck, maybe(_ROLLOUT), real, _ERROR),
    "Generate": struct(
        Generate, _ROLLOUT, _CALL, integer(0, MAX_CALLS), maybe(_NAME), _chat, maybe(integer(1, 1 << 20))
    ),
    "Done": struct(Done, _ROLLOUT, flag, flag, _ERRORS, many(_TRACE, MAX_TRACES)),
}
TO_ZYGOTE: Mapping[str, Check[ToZygote]] = {
    "Load": struct(
        Load,
        *(_NAME, text(MAX_TEXT), integer(1, MAX_TASKS), integer(1, 100_000)),
        *(real, real, real, real, flag),
    ),
    "List": struct(List, integer(0, MAX_TASKS), integer(0, MAX_TASKS)),
    "Fork": struct(Fork, _COUNT),
    "Kill": struct(Kill, _COUNT),
}
TO_WORKER: Mapping[str, Check[ToWorker]] = {
    "Play": struct(Play, _ROLLOUT, integer(0, MAX_TASKS)),
    "Reply": struct(Reply, _CALL, text(1 << 22), one_of("stop", "length"), _COUNT, _COUNT),
    "Refuse": struct(Refuse, _CALL, _ERROR),
    "Cancel": struct(Cancel, _ROLLOUT),
}


def pack(message: FromZygote | FromWorker | ToZygote | ToWorker) -> bytes:
    """A message as a frame."""
    return encode(type(message).__name__, [_plain(getattr(message, field.name)) for field in fields(message)])


def read(frame: tuple[str, list[object]], table: Mapping[str, Check[M]]) -> M:
    """A frame as one of the table's messages. Raises BadFrame."""
    tag, values = frame
    check = table.get(tag)
    if check is None:
        raise BadFrame(f"unknown message {tag[:40]!r}")
    try:
        return check(values)
    except BadFrame as error:
        raise BadFrame(f"{tag}: {error}") from None


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return [_plain(getattr(value, field.name)) for field in fields(value)]
    return value
