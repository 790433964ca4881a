"""What people see while a command works: a live line on a terminal, plain lines elsewhere. All on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainsmith.progress import Listener, Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

PLAIN_STEP_SECONDS = 5.0
"""Plain output shows a step at most this often, so that a log stays short."""


@contextmanager
def shown() -> Iterator[Listener]:
    """A listener that shows progress for as long as the context is open."""
    if sys.stderr.isatty():
        with _Live() as live:
            yield live.listen
    else:
        yield _Plain().listen


class _Plain:
    """One line an event, timed from the start."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._last_step = 0.0

    def listen(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.steps and progress.step not in (1, progress.steps):
            if now - self._last_step < PLAIN_STEP_SECONDS:
                return
            self._last_step = now
        print(f"[{now - self._began:6.1f} s] {_line(progress)}", file=sys.stderr, flush=True)


class _Live:
    """A rich progress bar for phases with steps, a line for everything else."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._console: Console = Console(stderr=True, highlight=False)
        self._bar: Bar = RichProgress(
            TextColumn("[bold]{task.fields[phase]:<9}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._phase = ""

    def __enter__(self) -> _Live:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def listen(self, progress: Progress) -> None:
        if progress.message:
            from rich.text import Text

            line = Text.assemble((f"{progress.phase:<9} ", "bold"), progress.message)  # never read as markup
            self._console.print(line)
        if self._task is None or self._phase != progress.phase:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task("", total=progress.steps or None, phase=progress.phase, detail="")
            self._phase = progress.phase
        detail = _detail(progress)
        self._bar.update(self._task, total=progress.steps or None, completed=progress.step, detail=detail)


def _line(progress: Progress) -> str:
    parts = [f"{progress.phase:<9}"]
    if progress.message:
        parts.append(progress.message)
    if progress.steps:
        parts.append(_detail(progress))
    return " ".join(parts)


def _detail(progress: Progress) -> str:
    if not progress.steps:
        return ""
    parts = [f"step {progress.step}/{progress.steps}"]
    if progress.reward is not None:
        parts.append(f"reward {progress.reward:.3f}")
    if progress.tokens_per_second is not None:
        parts.append(f"{progress.tokens_per_second:.0f} tokens/s")
    if progress.seconds_left is not None:
        parts.append(f"{progress.seconds_left:.0f} s left")
    return ", ".join(parts)
