"""The typical mistakes of agents, one after another, and then a valid job on the last probe.

Shows how an episode answers mistakes. It wastes two of three probes, so its k is 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trainsmith.agents.reference import writes
from trainsmith.agents.script import ScriptedAgent, call
from trainsmith.episode import Action
from trainsmith.errors import MachineError
from trainsmith.records.job import JobFile

NAME = "broken"

NO_REWARD = '''\
"""An environment whose reward forgets to return."""

import verifiers.v1 as vf


class Data(vf.TaskData):
    answer: str


class Careless(vf.Task[Data]):
    @vf.reward
    async def correct(self, trace: vf.Trace) -> float:
        trace.last_reply == self.data.answer


class Config(vf.TasksetConfig):
    num_tasks: int = 256


class CarelessTaskset(vf.Taskset[Careless, Config]):
    def load(self):
        for number in range(self.config.num_tasks):
            yield Careless(Data(prompt=f"Write the number {number}.", answer=str(number)), self.config.task)


__all__ = ["CarelessTaskset"]
'''


class _Parts(NamedTuple):
    """The two files that are broken on purpose, and the line of rl.toml that is."""

    toml: JobFile
    package: JobFile
    group: str


def broken(files: Sequence[JobFile]) -> ScriptedAgent:
    """An agent that makes mistakes around `files`, the reference job's, and hands them in in the end."""
    return ScriptedAgent(NAME, _script(files, _parts(files)))


def _script(files: Sequence[JobFile], parts: _Parts) -> Iterator[Action]:
    yield from _bad_calls()
    yield from _first_probe(parts)
    yield from _second_probe(parts)
    yield from _last_probe(files)


def _bad_calls() -> Iterator[Action]:
    yield call("There must be a tool that just runs it.", "run_job", {"gpu": "h100"})
    yield call(
        "Some arguments, not quite JSON.", "write_file", '{"path": "rl.toml", "content": "max_steps = 1'
    )
    yield call("An argument too few.", "write_file", {"path": "rl.toml"})
    yield call("Look around outside.", "read_file", {"path": "../../../../etc/passwd"})
    yield call(
        "The guide could be shorter.", "write_file", {"path": "GUIDE.md", "content": "Anything goes.\n"}
    )


def _first_probe(parts: _Parts) -> Iterator[Action]:
    careless = {"path": parts.package.path, "content": NO_REWARD}
    yield call("An environment from memory.", "write_file", careless)
    torn = {"path": "rl.toml", "content": parts.toml.content.replace("]", "", 1)}
    yield call("Settings with a bracket missing.", "write_file", torn)
    yield call("Surely fine.", "validate_job")


def _second_probe(parts: _Parts) -> Iterator[Action]:
    yield call("The settings again.", "write_file", {"path": "rl.toml", "content": parts.toml.content})
    absent = {"path": "rl.toml", "old": "group_size = 999", "new": "group_size = 1"}
    yield call("Change a line that is not there.", "edit_file", absent)
    alone = {"path": "rl.toml", "old": parts.group, "new": "group_size = 1"}
    yield call("One rollout a prompt is cheapest.", "edit_file", alone)
    yield call("Hand it in without a check: groups of one, and a reward that returns nothing.", "submit_job")


def _last_probe(files: Sequence[JobFile]) -> Iterator[Action]:
    yield call("What did the guide say?", "read_file", {"path": "GUIDE.md"})
    yield from writes(files)
    yield call("The last validation is part of handing it in.", "submit_job")


def _parts(files: Sequence[JobFile]) -> _Parts:
    """Raises MachineError if the reference job is not built as all are: the fault is not the agent's."""
    toml = next((file for file in files if file.path == "rl.toml"), None)
    package = next((file for file in files if re.fullmatch(r"environment/\w+/__init__\.py", file.path)), None)
    lines = toml.content.splitlines() if toml else []
    group = next((line.strip() for line in lines if line.strip().startswith("group_size")), None)
    if toml is None or package is None or group is None or toml.content.count(group) != 1:
        raise MachineError(
            "the reference job lacks rl.toml with group_size, or its package", where="agents.broken"
        )
    return _Parts(toml, package, group)
