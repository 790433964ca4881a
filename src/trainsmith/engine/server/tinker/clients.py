"""Who is there: sessions that have been heard of lately, and the training runs that they hold in memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from trainsmith.engine.server.errors import HttpError
from trainsmith.engine.server.records import RunRecord
from trainsmith.engine.server.store import Store
from trainsmith.engine.server.tinker.line import Line


@dataclass(slots=True)
class LiveRun:
    """A training run whose learner is in memory."""

    record: RunRecord
    line: Line = field(default_factory=Line)
    last_request: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(slots=True)
class _Client:
    heard: float
    runs: dict[str, LiveRun] = field(default_factory=dict)


class Clients:
    """Live sessions. One that was there before a restart is live again once it is heard of."""

    def __init__(
        self, store: Store, idle_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._idle = idle_seconds
        self._clock = clock
        self._clients: dict[str, _Client] = {}

    @property
    def runs(self) -> int:
        """Training runs in memory."""
        return sum(len(client.runs) for client in self._clients.values())

    def hear(self, session: str) -> None:
        """A request of this session came. Raises HttpError 404 for an unknown one, 410 for a finished one."""
        if session not in self._clients:
            if self._store.session(session).finished:
                raise HttpError(410, f"the session {session} has finished")
            self._clients[session] = _Client(self._clock())
        self._clients[session].heard = self._clock()

    def add(self, record: RunRecord) -> LiveRun:
        """A new training run of a session that has been heard."""
        run = self._clients[record.session].runs[record.id] = LiveRun(record)
        return run

    def remove(self, run: str) -> None:
        """The run is not in memory any more."""
        if client := self._clients.get(run.partition(":")[0]):
            client.runs.pop(run, None)

    def run(self, run: str) -> LiveRun:
        """A run in memory; its session is heard. Raises HttpError 404 for any other."""
        live = self.find(run)
        if live is None:
            self._store.run(run)  # one that never was is refused in other words
            what = f"the training run {run} is not in memory any more; go on from one of its checkpoints"
            raise HttpError(404, what)
        self.hear(live.record.session)
        live.last_request = datetime.now(UTC)
        return live

    def find(self, run: str) -> LiveRun | None:
        """A run, if it is in memory."""
        client = self._clients.get(run.partition(":")[0])
        return client.runs.get(run) if client else None

    def leave(self, session: str) -> list[str]:
        """Forget a session; the ids of the runs that it held."""
        client = self._clients.pop(session, None)
        return list(client.runs) if client else []

    def idle(self) -> list[str]:
        """Sessions that have been silent for too long."""
        now = self._clock()
        return [session for session, client in self._clients.items() if now - client.heard > self._idle]
