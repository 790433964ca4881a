"""Plays one episode with an agent that is asked for its actions.

Agents that are called from outside instead (MCP, verifiers) use `session` directly.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

from trainsmith.config.reward import RewardConfig
from trainsmith.episode.calls import Action, Stop
from trainsmith.episode.services import EpisodeServices
from trainsmith.episode.session import Session, Watcher, unwatched
from trainsmith.errors import AgentError, MachineError
from trainsmith.records import Briefing, EpisodeRecord, Observation, Start, Task


class Agent(Protocol):
    """Whoever writes jobs. It sees the briefing and observations, nothing else.

    A MachineError from it (its endpoint is down) makes the episode void; an AgentError (its own budget is
    spent) ends the episode as if it had stopped.
    """

    @property
    def name(self) -> str:
        """Who it is, for records."""
        ...

    async def begin(self, briefing: Briefing) -> None:
        """Take in the briefing of a new episode."""
        ...

    async def act(self, observation: Observation) -> Action:
        """The next action. The first observation has no text."""
        ...


async def run_episode(
    episode: str,
    task: Task,
    agent: Agent,
    services: EpisodeServices,
    folder: Path,
    *,
    start: Start = Start.EMPTY,
    reward_config: RewardConfig | None = None,
    watcher: Watcher = unwatched,
) -> EpisodeRecord:
    """Play one episode to its end, run its job, and give the record.

    `folder` (made here; must not exist) gets `trace.jsonl`, `workspace/` and `validations/<n>/`, the jobs
    as they were probed. Limits are the task's. `watcher` is called after every action. Faults of agent and
    infrastructure are in the record; UserError if `folder` exists, MachineError if it cannot be made.
    """
    with Session(
        episode, task, agent.name, services, folder, start=start, reward_config=reward_config, watcher=watcher
    ) as session:
        await _play(session, agent)
        return await session.finish()


async def _play(session: Session, agent: Agent) -> None:
    try:
        await agent.begin(session.briefing)
        observation = session.look()
        while not observation.done:
            began = time.monotonic()
            action = await agent.act(observation)
            observation = await session.step(action, time.monotonic() - began)
    except MachineError as error:
        session.spoil(error)
    except AgentError as error:
        await session.step(Action(call=Stop(reason=str(error))))
