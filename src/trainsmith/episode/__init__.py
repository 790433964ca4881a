"""An episode: brief, files written with tools, probes, submission, training, hidden evaluation, reward."""

from trainsmith.episode.calls import Action, Call, Malformed, Stop, ToolCall
from trainsmith.episode.driver import Agent, run_episode
from trainsmith.episode.names import WorkspaceError
from trainsmith.episode.services import EpisodeServices
from trainsmith.episode.session import Session
from trainsmith.episode.trace import Turn
from trainsmith.episode.workspace import Workspace

__all__ = [
    "Action",
    "Agent",
    "Call",
    "EpisodeServices",
    "Malformed",
    "Session",
    "Stop",
    "ToolCall",
    "Turn",
    "Workspace",
    "WorkspaceError",
    "run_episode",
]
