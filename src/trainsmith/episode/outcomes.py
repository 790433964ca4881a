"""What came of an action. With the first state, the outcomes of an episode determine everything else."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainsmith.records import BaselineScore, FileEntry, ProbeReport, Record


class Listed(Record):
    """The files of the workspace, in order of their paths."""

    kind: Literal["listed"] = "listed"
    files: tuple[FileEntry, ...]


class WasRead(Record):
    """The text of one file."""

    kind: Literal["read"] = "read"
    path: str
    content: str


class Written(Record):
    """A file was created or replaced."""

    kind: Literal["written"] = "written"
    file: FileEntry


class Edited(Record):
    """One place of a file was replaced."""

    kind: Literal["edited"] = "edited"
    file: FileEntry
    line: int
    """Where the replaced text began, from 1."""


class Scored(Record):
    """The untrained bases' hidden scores."""

    kind: Literal["scored"] = "scored"
    scores: tuple[BaselineScore, ...]


class Probed(Record):
    """A probe was spent on the job."""

    kind: Literal["probed"] = "probed"
    attempt: int
    """Number of this probe, from 1."""
    submit: bool
    """True when the probe was part of a submission."""
    job: str
    """Fingerprint of the probed files."""
    report: ProbeReport


class Accepted(Record):
    """A job was submitted whose very same files had passed the probe."""

    kind: Literal["accepted"] = "accepted"
    job: str


class Refused(Record):
    """Nothing was done: the call was malformed, against the rules or impossible."""

    kind: Literal["refused"] = "refused"
    error: str
    fix: str = ""


class Stopped(Record):
    """The agent acts no more."""

    kind: Literal["stopped"] = "stopped"
    reason: str


Outcome = Annotated[
    Listed | WasRead | Written | Edited | Scored | Probed | Accepted | Refused | Stopped,
    Field(discriminator="kind"),
]
