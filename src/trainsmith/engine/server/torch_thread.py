"""The one thread that runs torch: sampling steps and units of training take turns. Free of torch itself.

Training comes as jobs in lanes, one lane a training run. A job is a generator; what it does up to a yield is
a unit, as a rule one micro-batch. Of sampling and training, that which has had less time has the next turn:
one step of all rows, or one unit of the next lane. So neither a long training request nor a long reply holds
up the others, though a micro-batch may take as long as fifty steps.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
Job = Generator[None, None, T]


@dataclass(slots=True)
class _Running:
    """A job with whoever waits for it."""

    start: Callable[[], Job[Any]]
    outcome: Future[Any]
    job: Job[Any] | None = None

    def advance(self) -> bool:
        """Do one unit; True when the job is over."""
        if self.job is None:
            if not self.outcome.set_running_or_notify_cancel():
                return True
            self.job = self.start()
        try:
            next(self.job)
        except StopIteration as stop:
            self.outcome.set_result(stop.value)
        except Exception as error:  # noqa: BLE001 - whoever waits for the job gets it
            self.outcome.set_exception(error)
        else:
            return False
        return True


class TorchThread:
    """Runs what it is given until it is closed."""

    def __init__(self, sample: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> None:
        """`sample` does one step of all sampling, and answers False when there was none to do."""
        self._sample = sample
        self._clock = clock
        self._lead = 0.0
        """Seconds that sampling has had more than training since either was idle."""
        self._changed = threading.Condition()
        self._calls: deque[Callable[[], None]] = deque()
        self._lanes: OrderedDict[str, deque[_Running]] = OrderedDict()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="torch", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], None]) -> None:
        """Run a quick function before the next round. It must not raise."""
        with self._changed:
            self._calls.append(function)
            self._changed.notify()

    def submit(self, lane: str, start: Callable[[], Job[T]]) -> Future[T]:
        """Run a job after those that are in its lane already. Cancelling works until it has begun."""
        outcome: Future[T] = Future()
        with self._changed:
            self._lanes.setdefault(lane, deque()).append(_Running(start, outcome))
            self._changed.notify()
        return outcome

    def close(self, timeout: float) -> bool:
        """Stop after the unit in work; what has not run is cancelled. True if the thread ended in time."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        busy = True
        while True:
            with self._changed:
                while not (busy or self._calls or self._lanes or self._closing):
                    self._changed.wait()
                if self._closing:
                    break
                calls, self._calls = self._calls, deque()
            for call in calls:
                call()
            busy = self._turn()
        for lane in self._lanes.values():
            for running in lane:
                running.outcome.cancel()

    def _turn(self) -> bool:
        """A turn of the side that has had less time, or of the other if that one is idle."""
        sampling = self._lead <= 0
        began = self._clock()
        if self._sample() if sampling else self._train():
            took = self._clock() - began
            self._lead += took if sampling else -took
            return True
        self._lead = 0.0
        return self._train() if sampling else self._sample()

    def _train(self) -> bool:
        """One unit of the lane whose turn it is; the lane then goes to the end of the line."""
        with self._changed:
            if not self._lanes:
                return False
            name, lane = next(iter(self._lanes.items()))
            self._lanes.move_to_end(name)
        over = lane[0].advance()
        with self._changed:
            if over:
                lane.popleft()
            if not lane:
                del self._lanes[name]
        return True
