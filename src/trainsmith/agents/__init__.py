"""Who plays episodes, by name. Agents see the briefing and observations, and nothing else of a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from trainsmith import jobs
from trainsmith.agents import broken, reference
from trainsmith.agents.script import ScriptedAgent
from trainsmith.episode import Agent
from trainsmith.errors import UserError
from trainsmith.records import Task
from trainsmith.records.job import JobFile

__all__ = ["Agent", "ScriptedAgent", "create", "names"]

_SCRIPTED: Mapping[str, Callable[[Sequence[JobFile]], ScriptedAgent]] = {
    reference.NAME: reference.reference,
    broken.NAME: broken.broken,
}


def names() -> tuple[str, ...]:
    """All agents."""
    return tuple(_SCRIPTED)


def create(name: str, task: Task) -> Agent:
    """A new agent for one episode of `task`. Raises UserError with the nearest names for an unknown one.

    The scripted agents are given the reference job here; it is no part of what agents are shown.
    """
    make = _SCRIPTED.get(name)
    if make is None:
        near = get_close_matches(name, names(), n=3, cutoff=0.5) or names()
        raise UserError(f"there is no agent {name!r}", where="agent", fix=f"use {' or '.join(near)}")
    return make(jobs.start_files(task, "reference"))
