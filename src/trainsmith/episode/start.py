"""What the workspace holds at the beginning: the guide, and the files of the chosen start."""

from __future__ import annotations

from pathlib import Path

from trainsmith import jobs
from trainsmith.episode import guide
from trainsmith.episode.workspace import Workspace
from trainsmith.records import Start, Task


def furnish(directory: Path, task: Task, start: Start) -> Workspace:
    """Make the workspace and open it. Raises MachineError if `directory` exists or cannot be made."""
    files = jobs.start_files(task, start)
    workspace = Workspace.create(directory, guide.text())
    for file in files:
        workspace.write(file.path, file.content)
    return workspace
