"""One text file of a job folder."""

from __future__ import annotations

from trainsmith.records.base import Record


class JobFile(Record):
    """A file of a job before it is written."""

    path: str
    """Relative to the job folder, with `/` between names."""
    content: str
