"""The honest expert: hands in the task's reference job through the tools, as any agent would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainsmith.agents.script import ScriptedAgent, call
from trainsmith.episode import Action
from trainsmith.records.job import JobFile

NAME = "reference"


def reference(files: Sequence[JobFile]) -> ScriptedAgent:
    """An agent that writes `files`, the reference job's, which no other agent may see."""
    return ScriptedAgent(NAME, _script(files))


def _script(files: Sequence[JobFile]) -> Iterator[Action]:
    yield call("What is in the workspace?", "list_files")
    yield call("How is a job written?", "read_file", {"path": "GUIDE.md"})
    yield call("How good are the base models untrained?", "baseline_scores")
    yield from writes(files)
    yield call("Does it pass?", "validate_job")
    yield call("It does. Hand it in.", "submit_job")


def writes(files: Sequence[JobFile]) -> Iterator[Action]:
    """One `write_file` a file, the environment first."""
    for file in sorted(files, key=lambda file: (file.path == "rl.toml", file.path)):
        yield call(_note(file.path), "write_file", {"path": file.path, "content": file.content})


def _note(path: str) -> str:
    if path == "rl.toml":
        return "The settings of the training."
    return (
        "The training tasks and their rewards." if path.endswith("__init__.py") else f"A part of it: {path}."
    )
