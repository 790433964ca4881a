"""The job folder: read, checked, completed, identified, copied, begun. The author's code never runs here."""

from trainsmith.jobs.beginning import StartName, init, start_files
from trainsmith.jobs.completion import Placement
from trainsmith.jobs.honours import TrainerName, honours, refusals
from trainsmith.jobs.keys import Key, keys
from trainsmith.jobs.load import Job, load
from trainsmith.jobs.problems import JobError, Problem
from trainsmith.jobs.resolution import ResolvedJob, resolve
from trainsmith.jobs.schema import AuthorConfig
from trainsmith.jobs.snapshots import snapshot
from trainsmith.jobs.tree import FileDigest

__all__ = [
    "AuthorConfig",
    "FileDigest",
    "Job",
    "JobError",
    "Key",
    "Placement",
    "Problem",
    "ResolvedJob",
    "StartName",
    "TrainerName",
    "honours",
    "init",
    "keys",
    "load",
    "refusals",
    "resolve",
    "snapshot",
    "start_files",
]
