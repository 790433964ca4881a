"""From an error's text to the one sentence that mends it, for the mistakes that authors make most."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Advice:
    """A pattern of an error text and what to do about it."""

    pattern: re.Pattern[str]
    fix: str


def _advice(pattern: str, fix: str) -> Advice:
    return Advice(re.compile(pattern), fix)


COMMON = (
    _advice(
        r"has no attribute '(SingleTurnEnv|MultiTurnEnv|Rubric|ToolEnv|Environment|load_environment|Parser)'"
        r"|cannot import name '(SingleTurnEnv|MultiTurnEnv|Rubric|ToolEnv|load_environment|Parser)'"
        r"|No module named 'verifiers\.(envs|rubrics|parsers)'",
        "Write a verifiers v1 Taskset (import verifiers.v1 as vf) as GUIDE.md shows; the older API is gone.",
    ),
    _advice(
        r"No module named|taskset '\w+' not found",
        "Import only the standard library, verifiers.v1 and what is installed with trainsmith; "
        "put your own modules inside the package and import them by its full name.",
    ),
    _advice(
        r"Name or service not known|name resolution|Network is unreachable|ConnectError|ConnectionError"
        r"|MaxRetryError|URLError|socket\.gaierror|gaierror|LocalEntryNotFound|Couldn't reach|OfflineMode",
        "Do not use the network: an environment runs without one; write the data into the job folder or "
        "generate it in load().",
    ),
    _advice(
        r"FileNotFoundError|No such file or directory",
        "Put the file inside the package and open it by Path(__file__).parent / name.",
    ),
    _advice(
        r"Read-only file system|PermissionError|Operation not permitted",
        "Do not write files, start processes or open sockets; read from the package only.",
    ),
    _advice(
        r"ends its worker|ended its process",
        "Remove sys.exit, os._exit, os.kill and os.fork from the task's methods.",
    ),
    _advice(
        r"holds its worker|scoring timed out",
        "Remove endless loops, sleeps, input and waits from the task's methods; bound every loop by a count.",
    ),
    _advice(
        r"leaves no room in",
        "Raise seq_len, or make the conversation shorter: fewer turns, shorter messages and replies.",
    ),
    _advice(
        r"SystemExit",
        "Remove sys.exit from the task's methods: return a reward instead.",
    ),
    _advice(
        r"MemoryError|Cannot allocate memory",
        "Use less memory: generate tasks from a seed instead of holding large tables.",
    ),
    _advice(
        r"missing \d+ required positional argument|unexpected keyword argument",
        "Let a reward take only arguments named self, trace, task or runtime.",
    ),
    _advice(
        r"An asyncio\.Future, a coroutine or an awaitable|can't be used in 'await'|is not awaitable",
        "Declare every reward, metric, stop, setup and finalize method as `async def`.",
    ),
    _advice(
        r"__all__|exports? (no|more than one|several)|exactly one Taskset",
        "Let the package's __init__.py set __all__ to exactly one Taskset class and at most one Env class.",
    ),
    _advice(
        r"Extra inputs are not permitted|extra_forbidden",
        "Declare the argument as a field of the taskset's config class, or remove it from rl.toml.",
    ),
    _advice(
        r"ValidationError|validation errors? for",
        "Give each field of TaskData a value of its declared type, by name.",
    ),
    _advice(r"SyntaxError|IndentationError", "Correct the Python syntax there."),
)


def fix_for(error: str, otherwise: str) -> str:
    """The sentence for the first pattern that `error` matches, else `otherwise`."""
    return next((advice.fix for advice in COMMON if advice.pattern.search(error)), otherwise)
