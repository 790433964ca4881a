"""The `skeleton` start: commented files that show where everything goes and do not pass.

rl.toml is made from the schema's own table of keys, so that it lists every key with its default.
"""

from __future__ import annotations

import re
from itertools import groupby

from trainsmith.jobs.keys import Key, keys
from trainsmith.jobs.paths import CONFIG, ENVIRONMENT, package_fault
from trainsmith.jobs.problems import listed
from trainsmith.records import Task
from trainsmith.records.job import JobFile

_OPEN_TABLES = frozenset(
    {
        "model",
        "orchestrator",
        "orchestrator.train.sampling",
        "orchestrator.train.source",
        "orchestrator.train.source.env.taskset",
        "trainer.optim",
        "trainer.scheduler",
    }
)
"""Tables whose header is written; the others are off, or at their defaults, while theirs is commented out."""

_HEAD = """\
# The training job, in prime-rl's keys. Lines that begin with "# key =" are defaults: change one by taking the
# "# " away. What is marked TODO must be written. Keys that are not listed here are not yours to set.
"""

_ENVIRONMENT = '''\
"""The environment: the tasks that the model is trained on, and what a reply is worth. TODO: all of it.

verifiers v1: a Taskset loads Tasks; a Task holds one TaskData row and scores the model's reply to it.
"""

import verifiers.v1 as vf


class Row(vf.TaskData):
    """One question. `idx` and `prompt` are inherited; declare here what scoring needs."""

    answer: str


class Question(vf.Task[Row]):
    """One task."""

    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        """Worth of a reply, from 0 to 1; `trace.last_reply` is its text (or None), `self.data` the row."""
        raise NotImplementedError("TODO: compare trace.last_reply with self.data.answer")


class Config(vf.TasksetConfig):
    """The arguments of [orchestrator.train.source.env.taskset] in rl.toml."""

    num_tasks: int = 512
    seed: int = 1


class Questions(vf.Taskset[Question, Config]):
    """All tasks; load() must give the same ones every time, so take randomness from self.config.seed."""

    def load(self) -> list[Question]:
        raise NotImplementedError(
            "TODO: return a list of Question(Row(idx=i, prompt=..., answer=...), self.config.task)"
        )


__all__ = ["Questions"]
'''


def skeleton(task: Task) -> tuple[JobFile, ...]:
    """The files of a job for `task` that has everything but its content."""
    package = _package(task)
    return (
        JobFile(path=CONFIG, content=_config(task, package)),
        JobFile(path=f"{ENVIRONMENT}/{package}/__init__.py", content=_ENVIRONMENT),
    )


def _package(task: Task) -> str:
    name = re.sub(r"[^a-z0-9]+", "_", task.kind.lower()).strip("_")
    return "my_env" if package_fault(name) else name


def _config(task: Task, package: str) -> str:
    notes = {
        "max_steps": f"# max_steps =    # TODO: a whole number, at most {task.budget.max_steps}",
        "model.name": f"# name =    # TODO: {listed(task.bases)}",
        "orchestrator.group_size": "# group_size =    # TODO: 4 or more; batch_size must be a multiple of it",
        "orchestrator.train.source.env.taskset.id": f'id = "{package}"    # the package in environment/',
    }
    parts = [_HEAD]
    by_table = sorted(keys(), key=lambda key: key.table)
    tables = {table: list(group) for table, group in groupby(by_table, key=lambda key: key.table)}
    for table in dict.fromkeys(key.table for key in keys()):
        lines = [notes.get(key.path) or _line(key) for key in tables[table]]
        parts.append("\n".join([*_header(table), *dict.fromkeys(lines)]) + "\n")
    return "\n".join(parts)


def _header(table: str) -> list[str]:
    if not table:
        return []
    name = table.replace("*", "NAME")
    header = f"[[{name}]]" if table == "orchestrator.train.source" else f"[{name}]"
    return [header if table in _OPEN_TABLES else f"# {header}"]


def _line(key: Key) -> str:
    only = f" ({', '.join(key.variants)})" if key.variants else ""
    return f"# {key.name} = {key.default or '...'}    # {key.expects}{only}: {key.meaning}"
