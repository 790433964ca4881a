"""The ledger of a run: which jobs, episodes and scores are done, so that nothing expensive is done twice.

One SQLite file a run. Any number of processes may open it; it survives `kill -9` at any moment.
"""

from trainsmith.ledger.episodes import EpisodeRow, EpisodeState
from trainsmith.ledger.events import Event
from trainsmith.ledger.jobs import Claim, Held, JobRow, JobState
from trainsmith.ledger.ledger import Ledger
from trainsmith.ledger.locks import FileLock

__all__ = ["Claim", "EpisodeRow", "EpisodeState", "Event", "FileLock", "Held", "JobRow", "JobState", "Ledger"]
