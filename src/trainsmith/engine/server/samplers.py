"""The samplers of all versions of the weights that are in use. On the torch thread only.

A version is a directory with a saved state, read when it is first sampled from; None is the base. The least
recently used idle version is let go when there are too many: it is read again when it is needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from trainsmith.engine.records import Completion, SampleRequest
from trainsmith.engine.server.listening import Receiver
from trainsmith.engine.server.whole_sampler import Ticket, WholeSampler
from trainsmith.errors import UserError

LOADED = 8
"""Versions kept in memory, beside those that are being sampled."""

Weights = str | None


@dataclass(eq=False, slots=True)
class Row:
    """One request on its way, and its sampler's listener: passes on what it hears while anybody listens."""

    weights: Weights
    receiver: Receiver
    ticket: Ticket | None = None
    over: Callable[[Row], None] = field(default=lambda row: None)

    def on_token(self, token: int, logprob: float) -> None:
        self.receiver.on_token(token, logprob)

    def on_done(self, completion: Completion) -> None:
        self.over(self)
        self.receiver.on_done(completion)

    def on_failed(self, error: Exception) -> None:
        self.over(self)
        self.receiver.on_failed(error)


@dataclass(slots=True)
class _Version:
    sampler: WholeSampler
    rows: set[Row] = field(default_factory=set)


class Samplers:
    """Submits, steps and cancels rows of any version."""

    def __init__(self, make: Callable[[Weights], WholeSampler]) -> None:
        """`make` builds the sampler of a version. It may raise."""
        self._make = make
        self._versions: OrderedDict[Weights, _Version] = OrderedDict()

    @property
    def rows(self) -> int:
        """Rows on their way."""
        return sum(len(version.rows) for version in list(self._versions.values()))

    def hold(self, weights: str, sampler: WholeSampler) -> None:
        """Take a version that is in memory already."""
        self._let_go()
        self._versions[weights] = _Version(sampler)

    def submit(self, weights: Weights, request: SampleRequest, receiver: Receiver) -> Row:
        """Add a row; a failure goes to its receiver."""
        row = Row(weights, receiver)
        try:
            version = self._version(weights)
            row.over = version.rows.discard
            version.rows.add(row)
            row.ticket = version.sampler.submit(request, row)
        except Exception as error:  # noqa: BLE001 - whoever waits for the row gets it
            row.on_failed(error)
        return row

    def cancel(self, row: Row) -> None:
        """Forget a row, if it is still on its way."""
        version = self._versions.get(row.weights)
        if version and row in version.rows and row.ticket is not None:
            version.rows.discard(row)
            version.sampler.cancel(row.ticket)

    def step(self) -> bool:
        """One step of every version that has rows; False when none has."""
        busy = [(weights, version) for weights, version in self._versions.items() if version.rows]
        for weights, version in busy:
            try:
                version.sampler.step()
            except Exception as error:  # noqa: BLE001 - the rows of this version fail, the server lives on
                self._versions.pop(weights)
                for row in list(version.rows):
                    row.on_failed(error)
        return bool(busy)

    def drop(self, weights: str) -> None:
        """Let a version go; its rows fail."""
        version = self._versions.pop(weights, None)
        for row in list(version.rows) if version else ():
            row.on_failed(UserError("these weights were deleted", where=weights))

    def _version(self, weights: Weights) -> _Version:
        if weights not in self._versions:
            self._let_go()
            self._versions[weights] = _Version(self._make(weights))
        self._versions.move_to_end(weights)
        return self._versions[weights]

    def _let_go(self) -> None:
        """Make room for one more."""
        idle = [each for each, version in self._versions.items() if each is not None and not version.rows]
        for weights in idle[: max(0, len(self._versions) - LOADED)]:
            del self._versions[weights]
