"""The brief that opens an episode: all that an agent may know, as one Markdown text."""

from __future__ import annotations

from trainsmith.episode.speech import listing
from trainsmith.episode.tools import TOOLS
from trainsmith.records import Briefing, FileEntry, Item, Start, Task

_STARTS = {
    Start.EMPTY: "The workspace holds only GUIDE.md.",
    Start.SKELETON: "The workspace holds a skeleton of a job: commented files that do not pass yet.",
    Start.WORKING: "The workspace holds a job that passes validation and trains badly. Improve it.",
}


def briefing(episode: str, task: Task, start: Start, files: tuple[FileEntry, ...]) -> Briefing:
    """The briefing of one episode."""
    parts = (_goal(), _task(task), _examples(task), _limits(task), _workspace(start, files), _tools())
    return Briefing(episode=episode, task=task, start=start, files=files, text="\n\n".join(parts) + "\n")


def _goal() -> str:
    return (
        "# Write an RL training job\n\n"
        "A small language model lacks the skill below. Write a job that trains it by reinforcement learning: "
        "`rl.toml` with the settings and `environment/<package>/` with tasks and rewards (verifiers v1). "
        "The job is run, and a hidden evaluation scores the model before and after. GUIDE.md in the "
        "workspace says how to write it, what validation checks, and how you are rewarded."
    )


def _task(task: Task) -> str:
    return f"## The skill ({task.id})\n\n{task.brief.strip()}"


def _examples(task: Task) -> str:
    return "## Public examples\n\n" + "\n".join(_example(item) for item in task.examples)


def _example(item: Item) -> str:
    question = item.question.strip().replace("\n", "\n  ")
    return f"- {question}\n  -> {item.answer}"


def _limits(task: Task) -> str:
    budget, limits = task.budget, task.limits
    return (
        "## Limits\n\n"
        f"- base models to choose from: {', '.join(task.bases)}\n"
        f"- training: at most {budget.max_steps} steps, {budget.max_tokens} tokens (generated and trained), "
        f"{budget.train_seconds:g} s\n"
        f"- you: at most {limits.max_turns} tool calls and {limits.max_validations} validations; "
        "a refused call costs one too, and so does a submission that fails"
    )


def _workspace(start: Start, files: tuple[FileEntry, ...]) -> str:
    return f"## The workspace\n\n{_STARTS[start]}\n\n{listing(files)}"


def _tools() -> str:
    return "## Tools\n\n" + "\n".join(f"- `{tool.signature}`: {tool.description}" for tool in TOOLS)
