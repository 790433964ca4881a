"""The registry of agents, and what the scripted ones do without an episode."""

from __future__ import annotations

import asyncio
import re

import pytest

from trainsmith import agents
from trainsmith.agents.broken import broken
from trainsmith.agents.reference import reference
from trainsmith.agents.script import ScriptedAgent, call
from trainsmith.episode import Action, Malformed, Stop
from trainsmith.errors import MachineError, UserError
from trainsmith.records import Budget, Observation, Task, Tier
from trainsmith.records.job import JobFile

TASK = Task(
    id="strings/last-word@0",
    family="strings",
    kind="last-word",
    seed=0,
    tier=Tier.MICRO,
    brief="",
    prefix=(),
    examples=(),
    bases=("smollm2-135m",),
    budget=Budget(train_seconds=1, max_steps=1, max_tokens=1),
)
FILES = (
    JobFile(path="rl.toml", content="[orchestrator]\nbatch_size = 64\ngroup_size = 8\n"),
    JobFile(path="environment/my_env/data.txt", content="a\n"),
    JobFile(path="environment/my_env/__init__.py", content="x = 1\n"),
)


def actions(agent: ScriptedAgent) -> list[Action]:
    """All that an agent does until it stops."""

    async def collect() -> list[Action]:
        seen = Observation(text="", ok=True, done=False, turns_left=1, validations_left=1)
        played = [await agent.act(seen)]
        while not isinstance(played[-1].call, Stop):
            played.append(await agent.act(seen))
        return played

    return asyncio.run(collect())


@pytest.mark.parametrize(
    ("name", "near"), [("referense", "reference"), ("brokn", "broken"), ("", "reference")]
)
def test_unknown_agent_names_the_nearest(name: str, near: str) -> None:
    """Fault: a misspelt agent gives a stack trace, or another agent in silence."""
    with pytest.raises(UserError, match=near):
        agents.create(name, TASK)


def test_names_are_the_agents() -> None:
    """Fault: an agent of the design cannot be chosen."""
    assert agents.names() == ("reference", "broken")


def test_reference_uses_every_kind_of_look_and_writes_all_files() -> None:
    """Fault: the demonstration leaves out a tool, or a file of the job."""
    played = actions(reference(FILES))
    tools = [action.call.tool for action in played]
    assert tools[:3] == ["list_files", "read_file", "baseline_scores"]
    assert tools[-3:] == ["validate_job", "submit_job", "stop"]
    written = {a.call.path: a.call.content for a in played if a.call.tool == "write_file"}
    assert written == {file.path: file.content for file in FILES}
    assert all(action.note for action in played[:-1])


def test_broken_makes_its_mistakes_through_the_parser() -> None:
    """Fault: a mistake is built as a typed call, which no real agent could send."""
    played = actions(broken(FILES))
    malformed = [action.call for action in played if isinstance(action.call, Malformed)]
    assert len(malformed) == 3
    assert [action.call.tool for action in played].count("validate_job") == 1
    assert [action.call.tool for action in played].count("submit_job") == 2
    last = {a.call.path: a.call.content for a in played if a.call.tool == "write_file"}
    assert {path: text for path, text in last.items() if path != "GUIDE.md"} == {
        file.path: file.content for file in FILES
    }


@pytest.mark.parametrize(
    "files", [(), FILES[:1], FILES[1:], (FILES[0].model_copy(update={"content": ""}), *FILES[1:])]
)
def test_broken_needs_a_reference_job_of_the_usual_form(files: tuple[JobFile, ...]) -> None:
    """Fault: an oddly built reference job fails in the middle of an episode."""
    with pytest.raises(MachineError):
        broken(files)


def test_scripts_stop_for_ever_at_their_end() -> None:
    """Fault: a script at its end raises StopIteration into the run."""
    agent = ScriptedAgent("once", [call("", "list_files")])
    assert [action.call.tool for action in actions(agent)] == ["list_files", "stop"]
    assert isinstance(actions(agent)[0].call, Stop)


def test_importing_agents_needs_no_torch() -> None:
    """Fault: naming the agents takes seconds, because a model library is imported."""
    import subprocess
    import sys

    heavy = ("torch", "transformers", "verifiers")
    code = f"import sys, trainsmith.agents; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\[\]\s*", done.stdout)
