"""Import the author's package with verifiers, load its tasks, and refuse what cannot work without a network.

Every mistake of the author becomes a `Broken` with a reason, one line, its place and a fix.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import verifiers.v1 as vf
from pydantic import ValidationError
from verifiers.v1.configs.agent import AgentConfig
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.task import task_key
from verifiers.v1.types import SystemMessage, UserMessage
from verifiers.v1.utils.loaders import (
    env_config_type,
    import_taskset,
    load_environment,
    taskset_class,
)

from . import harness, where
from .messages import MAX_MESSAGES, MAX_TEXT, Chat, Load, Ready, Row

HARNESS = "trainsmith_harness"


class Broken(Exception):
    """The package cannot be used, and why."""

    def __init__(self, reason: str, what: str, place: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.reason = reason
        self.what = what
        self.place = place
        self.fix = fix


@dataclass(frozen=True)
class Package:
    """A loaded environment."""

    env: Any
    tasks: list[Any]
    agents: tuple[str, ...]
    truncated: bool
    """Whether load() yields more tasks than are used."""
    notes: tuple[str, ...]


def load(order: Load) -> Package:
    """Import and load. Raises Broken."""
    sys.path.insert(0, where.FOLDER.rstrip("/"))
    sys.modules[HARNESS] = harness
    _free(order.package)
    _attempt("import_failed", "the package does not import", lambda: importlib.import_module(order.package))
    _attempt("import_failed", "the package does not import", lambda: import_taskset(order.package))
    _attempt("bad_package", "the package exports no usable Taskset", lambda: taskset_class(order.package))
    arguments = json.loads(order.arguments or "{}")
    config, agents = _configure(order, arguments)
    env = _attempt("bad_package", "the environment cannot be built", lambda: load_environment(config))
    tasks = _attempt(
        "load_failed",
        "load() fails",
        lambda: list(itertools.islice(iter(env.taskset), order.max_tasks + 1)),
    )
    truncated = len(tasks) > order.max_tasks
    del tasks[order.max_tasks :]
    if not tasks:
        raise Broken("no_tasks", "load() yields no task", fix="yield at least one task from load()")
    _refuse(env, tasks)
    return Package(env, tasks, agents, truncated, tuple(_notes(env)))


def describe(package: Package, fast: bool) -> Ready:
    """What the trusted side needs to know. Raises Broken when the author's hooks cannot be listed."""
    env, first = package.env, package.tasks[0]
    rewards = _attempt("bad_package", "the rewards cannot be listed", lambda: first.hooks("reward"))
    metrics = _attempt("bad_package", "the metrics cannot be listed", lambda: first.hooks("metric"))
    for hook in (*rewards, *metrics):
        if hasattr(vf.Task, hook.__name__):
            what = f"the hook {hook.__name__!r} hides verifiers' own Task.{hook.__name__}"
            raise Broken("bad_package", what, fix="give the method another name")
    return Ready(
        tasks=len(package.tasks),
        taskset=type(env.taskset).__name__[:200],
        env=type(env).__name__[:200],
        single_turn=type(env) is vf.SingleAgentEnv and first.data.prompt is not None,
        fast=fast,
        agents=tuple(name[:200] for name in package.agents[:64]),
        rewards=tuple(hook.__name__[:200] for hook in rewards[:128]),
        weights=tuple(float(getattr(hook, "_vf_weight", 1.0)) for hook in rewards[:128]),
        metrics=tuple(hook.__name__[:200] for hook in metrics[:128]),
        truncated=package.truncated,
        notes=package.notes[:20],
    )


def row(task: Any) -> Row:
    """One task for the trusted side. Raises Broken when it holds what cannot be shown."""
    data = task.data
    content = data.model_dump(mode="json", exclude_none=True, exclude={"idx"})
    extra = {name: value for name, value in content.items() if name not in vf.TaskData.model_fields}
    text = json.dumps(extra, ensure_ascii=False, sort_keys=True)
    messages = opening(data)
    size = max(len(text), sum(len(message.content) for message in messages or ()))
    if size > MAX_TEXT or len(messages or ()) > MAX_MESSAGES:
        what = f"task {data.idx} holds {size} characters; {MAX_TEXT} are allowed"
        raise Broken("too_large", what, fix="keep tasks small")
    return Row(task_key(content), messages, text)


def opening(data: Any) -> tuple[Chat, ...] | None:
    """The chat that a task opens with; None when the environment's own code opens it."""
    if data.prompt is None:
        return None
    return tuple(chat(message) for message in prompt_messages(data))


def prompt_messages(data: Any) -> list[Any]:
    """A task's system prompt and prompt as messages of verifiers."""
    system = [SystemMessage(content=data.system_prompt)] if data.system_prompt else []
    prompt = [UserMessage(content=data.prompt)] if isinstance(data.prompt, str) else list(data.prompt)
    return [*system, *prompt]


def chat(message: Any) -> Chat:
    """One message of verifiers as plain text. Raises Broken for images."""
    wire = message_to_wire(message)
    content = wire.get("content") or ""
    if isinstance(content, list):
        if any(part.get("type") != "text" for part in content):
            raise Broken("refused", "a message holds an image", fix="use text only")
        content = "\n".join(part["text"] for part in content)
    return Chat(wire["role"], content)


def _free(name: str) -> None:
    """Refuse a name under which verifiers would find something else."""
    taken = name in sys.modules or importlib.util.find_spec(f"verifiers.v1.tasksets.{name}") is not None
    if taken or name != name.lower():
        what = f"the package name {name!r} {'is taken' if taken else 'is not in lower case'}"
        raise Broken("bad_package", what, fix="choose another name")


def _attempt(reason: str, what: str, action: Callable[[], Any]) -> Any:
    try:
        return action()
    except MemoryError as error:
        raise Broken("memory", f"{what}: out of memory", where.of_error(error), "use less memory") from error
    except SystemExit as error:
        place = where.of_error(error)
        raise Broken(
            "exited", f"{what}: it calls sys.exit({error.code!r})", place, "remove the call"
        ) from error
    except BlockingIOError as error:
        raise Broken("forked", f"{what}: too many processes", where.of_error(error), "do not fork") from error
    except BaseException as error:
        detail = f"{what}: {type(error).__name__}: {error}"
        raise Broken(reason, detail, where.of_error(error), "correct the code") from error


def _configure(order: Load, arguments: dict[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """The environment's config with everything forced that the jail needs, and the names of its agents."""
    kind = _attempt(
        "bad_package", "the environment has no usable config", lambda: env_config_type(order.package)
    )
    declared = {
        name: field.default
        for name, field in kind.model_fields.items()
        if isinstance(field.default, AgentConfig)
    }
    raw: dict[str, Any] = {"taskset": {"id": order.package, **arguments}}
    for name, agent in declared.items():
        raw[name] = _seat(agent, order)
    raw["timeout"] = {"episode": order.rollout_seconds * 20, "finalize": order.hook_seconds}
    try:
        config = kind.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        what = f"the taskset's arguments do not fit its config: {key}: {first['msg']}"
        raise Broken("bad_arguments", what, key, "correct the argument or the config class") from error
    except BaseException as error:
        what = f"the taskset's config fails: {type(error).__name__}: {error}"
        raise Broken("bad_arguments", what, where.of_error(error), "correct the code") from error
    for name, agent in declared.items():
        if agent.client is not None or agent.model is not None:
            fix = "leave model and client unset: every agent is the model in training"
            raise Broken("refused", f"agent {name!r} names a model of its own", fix=fix)
    return config, tuple(declared)


def _seat(agent: Any, order: Load) -> dict[str, Any]:
    """One agent's forced settings; an author's own limit holds where it is the tighter one."""
    turns = order.max_turns if agent.max_turns is None else min(agent.max_turns, order.max_turns)
    return {"runtime": {"type": "subprocess"}, "harness": {"id": HARNESS}, "max_turns": turns}


def _refuse(env: Any, tasks: list[Any]) -> None:
    first = tasks[0]
    if env.taskset.toolsets(env.taskset.config) or first.toolsets(first.config):
        raise Broken(
            "refused",
            "the package uses Toolsets (MCP servers)",
            fix="play the tools inside Env.run() instead",
        )
    if first.config.judges:
        raise Broken(
            "refused", "the package uses judges, which need a network", fix="score in a @vf.reward method"
        )
    for task in tasks:
        if task.NEEDS_CONTAINER or task.data.image is not None or task.data.agent_user is not None:
            raise Broken(
                "refused", f"task {task.data.idx} needs a container", fix="use tasks that need no container"
            )
        if task.data.skills or "*" not in task.data.network_allow or task.data.network_block:
            fix = "leave skills, network_allow and network_block unset"
            raise Broken("refused", f"task {task.data.idx} sets skills or a network policy", fix=fix)


def _notes(env: Any) -> list[str]:
    module = sys.modules[type(env.taskset).__module__.partition(".")[0]]
    own = [name for name in getattr(module, "__all__", ()) if _is_harness(getattr(module, name, None))]
    return [f"the package's own harness {name} is not used" for name in own]


def _is_harness(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, vf.Harness)


def left_children() -> bool:
    """Whether importing and loading left processes behind."""
    try:
        os.waitid(os.P_ALL, 0, os.WNOHANG | os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
