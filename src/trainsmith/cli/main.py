"""`trainsmith <command> [@ file.toml] [--dotted.key value]`.

Exit status: 0 done, 1 the work failed, 2 the user's input is wrong, 130 interrupted. Errors are one line on
stderr unless `--debug`; with `--json`, stdout holds one JSON document and nothing else.
"""

from __future__ import annotations

import difflib
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import trainsmith
from trainsmith.cli.invocation import Invocation
from trainsmith.errors import AgentError, TrainsmithError, UserError


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the command table; its module is imported only when it runs."""

    name: str
    summary: str
    module: str


COMMANDS = (
    Command("demo", "one episode end to end on this machine: no account, no GPU", "demo"),
    Command("tasks", "list the tasks, with scores of the untrained bases; tasks ID shows one brief", "tasks"),
    Command("bases", "list the base models", "bases"),
    Command("job init", "scaffold a job folder: job init DIR --task ID", "job_init"),
    Command("job validate", "probe a job: job validate DIR --task ID", "job_validate"),
    Command("job run", "probe, train and grade a job: job run DIR --task ID", "job_run"),
    Command("episode", "let an agent play a task: episode --agent reference --task ID", "episode"),
    Command("engine serve", "serve a base to clients of Tinker and OpenAI", "engine_serve"),
    Command("report", "write the page of a run: report RUN", "report"),
    Command("doctor", "what works on this machine, and the fix for what does not", "doctor"),
)


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of the `trainsmith` program; ends the process with the command's exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = _take_flag(arguments, "--debug")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job, or nohup's
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # one way to end
    status = _guarded(arguments, debug)
    sys.stdout.flush()
    sys.stderr.flush()
    if status == 130:
        os._exit(status)  # a sampler call may still hold its thread; everything durable is on disk already
    sys.exit(status)


def _guarded(arguments: list[str], debug: bool) -> int:
    """Run a command; every known error becomes one line and an exit status."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except TrainsmithError as error:
        if debug:
            raise
        print("error: " + "; ".join(str(error).splitlines()), file=sys.stderr)
        return 2 if isinstance(error, UserError | AgentError) else 1


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0
    if arguments[0] == "--version":
        print(f"trainsmith {trainsmith.__version__}")
        return 0
    command, rest = _find(arguments)
    invocation = Invocation(command.name, command.summary, rest, json=_take_flag(rest, "--json"))
    module = importlib.import_module(f"trainsmith.cli.commands.{command.module}")
    status: int = module.run(invocation)
    return status


def _find(arguments: list[str]) -> tuple[Command, list[str]]:
    """The longest command name that the arguments begin with."""
    for words in (2, 1):
        name = " ".join(arguments[:words])
        for command in COMMANDS:
            if command.name == name:
                return command, arguments[words:]
    names = [command.name for command in COMMANDS]
    near = difflib.get_close_matches(" ".join(arguments[:2]), names, n=1, cutoff=0.65) or [
        name for name in names if name.startswith(arguments[0])
    ]
    fix = f"did you mean `trainsmith {near[0]}`?" if near else "see `trainsmith --help`"
    raise UserError(f"there is no command {arguments[0]!r}", where="trainsmith", fix=fix)


def _take_flag(arguments: list[str], flag: str) -> bool:
    """Remove a global flag wherever it stands."""
    found = flag in arguments
    while flag in arguments:
        arguments.remove(flag)
    return found


def _usage() -> str:
    width = max(len(command.name) for command in COMMANDS)
    rows = "\n".join(f"  {command.name:<{width}}  {command.summary}" for command in COMMANDS)
    return f"""usage: trainsmith <command> [@ file.toml] [--dotted.key value] [--json] [--debug]

{rows}

`trainsmith <command> --help` shows a command's settings."""
