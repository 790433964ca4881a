"""`trainsmith episode --agent NAME --task ID`: one agent plays one task."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from trainsmith import agents, families
from trainsmith.cli import summaries
from trainsmith.cli.invocation import Invocation
from trainsmith.cli.show import shown
from trainsmith.config.commands import EpisodeConfig
from trainsmith.episode.driver import run_episode
from trainsmith.episode.trace import Turn
from trainsmith.errors import UserError
from trainsmith.ledger import FileLock
from trainsmith.ledger.ledger import LOCKS
from trainsmith.progress import Listener, Phase, Progress
from trainsmith.records import EpisodeRecord, Start, Status, Task
from trainsmith.seeds import derive
from trainsmith.workshop import TaskServices, Workshop, require_bases

ATTEMPTS = 2
"""A void episode is played once more."""


def run(invocation: Invocation) -> int:
    """Play the episode, or answer from the ledger if it has been played."""
    config = invocation.config(EpisodeConfig)
    record = play(config)
    invocation.answer(record, summaries.episode(record))
    return status(record)


def status(record: EpisodeRecord) -> int:
    """Exit status of an episode: 0 when a model was trained and graded."""
    return 0 if record.status in (Status.OK, Status.TIMEOUT) else 1


def play(config: EpisodeConfig) -> EpisodeRecord:
    """Play the configured episode with progress on stderr."""
    with shown() as listen:
        return asyncio.run(_play(config, listen))


async def _play(config: EpisodeConfig, listen: Listener) -> EpisodeRecord:
    task = families.task(config.task)
    agents.create(config.agent, task)  # an unknown name is told before anything is written
    identity = episode_id(config, task)
    require_bases(task)
    async with Workshop.open(config, listen) as workshop, _alone(workshop, identity):
        for _ in range(ATTEMPTS):
            record = await _attempt(config, workshop, task, identity)
            if record.status is not Status.VOID:
                break
        return record


async def _attempt(config: EpisodeConfig, workshop: Workshop, task: Task, identity: str) -> EpisodeRecord:
    """One beginning of the episode; what an earlier one left is cleared away.

    Finished jobs are in the ledger, so that beginning again trains nothing twice.
    """
    finished = workshop.ledger.episodes.begin(identity, task=task.id, agent=config.agent)
    if finished is not None:
        return finished
    workshop.keep_config()
    shutil.rmtree(workshop.run.episode(identity), ignore_errors=True)
    record = await run_episode(
        identity,
        task,
        agents.create(config.agent, task),
        TaskServices(workshop, task, training_seed(config, identity)),
        workshop.run.episode(identity),
        start=Start(config.start),
        reward_config=config.reward,
        watcher=lambda turn: workshop.listen(Progress(Phase.AGENT, _said(turn))),
    )
    workshop.ledger.episodes.finish(record)
    return record


@asynccontextmanager
async def _alone(workshop: Workshop, episode: str) -> AsyncIterator[None]:
    """Hold the episode against other processes."""
    lock = FileLock.take(workshop.run.root / LOCKS / f"{episode}.lock")
    if lock is None:
        fix = "wait for it, or give --repeat another number"
        raise UserError("another process plays this episode", where=episode, fix=fix)
    try:
        yield
    finally:
        lock.release()


def episode_id(config: EpisodeConfig, task: Task) -> str:
    """Readable, and the same for the same settings: an episode is played once a run."""
    key = derive(task.id, config.agent, config.start, config.repeat, str(config.seed), config.inner_seeds)
    return f"{task.family}-{task.kind}-{config.agent}-{key % 16**8:08x}"


def training_seed(config: EpisodeConfig, episode: str) -> int:
    """The configured seed, or one of a small set drawn by the episode's id."""
    return config.seed if config.seed is not None else derive("inner", episode) % config.inner_seeds


def _said(turn: Turn) -> str:
    first_line = turn.observation.text.partition("\n")[0]
    return f"{turn.note or turn.call.tool}: {first_line}"
