"""What the handlers of Tinker's API share."""

from __future__ import annotations

from dataclasses import dataclass

from trainsmith.engine.server.served import Served
from trainsmith.engine.server.tinker.clients import Clients
from trainsmith.engine.server.tinker.futures import Futures


@dataclass(frozen=True, slots=True)
class Context:
    """One server's state."""

    served: Served
    clients: Clients
    futures: Futures
    body_limit: int
    """In bytes, after decompression."""
    poll_seconds: float
    """How long a question for an unfinished answer waits."""

    def end_session(self, session: str) -> list[str]:
        """Stop all that a session has begun; the runs whose learners must be dropped."""
        self.futures.cancel_all(session)
        return self.clients.leave(session)
