"""The samplers of all versions of the weights that are in use. On the torch thread only.

A version is a directory with a saved state, read when it is first sampled from; None is the base. The least
recently used idle version is let go when there are too many: it is read again when it is needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from trainsmith.engine.decode_loop import Row
from trainsmith.engine.records import Completion, SampleRequest
from trainsmith.engine.sampling import Sampler
from trainsmith.engine.server.listening import Receiver
from trainsmith.errors import UserError

LOADED = 8
"""Versions kept in memory, beside those that are being sampled."""

Weights = str | None


@dataclass(eq=False, slots=True)
class Asked:
    """One request on its way: hears from its sampler, and passes it on."""

    weights: Weights
    receiver: Receiver
    row: Row | None = None
    over: Callable[[Asked], None] = field(default=lambda _: None)

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
    sampler: Sampler
    asked: set[Asked] = field(default_factory=set)


class Samplers:
    """Submits, steps and cancels rows of any version."""

    def __init__(self, make: Callable[[Weights], Sampler], check: Callable[[SampleRequest], None]) -> None:
        """`make` builds the sampler of a version, `check` refuses requests; both may raise."""
        self._make = make
        self._check = check
        self._versions: OrderedDict[Weights, _Version] = OrderedDict()

    @property
    def rows(self) -> int:
        """Rows on their way."""
        return sum(len(version.asked) for version in list(self._versions.values()))

    def hold(self, weights: str, sampler: Sampler) -> None:
        """Take a version that is in memory already."""
        self._let_go()
        self._versions[weights] = _Version(sampler)

    def submit(self, weights: Weights, request: SampleRequest, receiver: Receiver) -> Asked:
        """Add a row; a failure goes to its receiver."""
        asked = Asked(weights, receiver)
        try:
            self._check(request)
            version = self._version(weights)
            asked.over = version.asked.discard
            version.asked.add(asked)
            asked.row = version.sampler.submit(request, asked)
        except Exception as error:  # noqa: BLE001 - whoever waits for the row gets it
            asked.on_failed(error)
        return asked

    def cancel(self, asked: Asked) -> None:
        """Forget a row, if it is still on its way."""
        version = self._versions.get(asked.weights)
        if version and asked in version.asked and asked.row is not None:
            version.asked.discard(asked)
            version.sampler.cancel(asked.row)

    def step(self) -> bool:
        """One step of every version that has rows; False when none has."""
        busy = [(weights, version) for weights, version in self._versions.items() if version.asked]
        for weights, version in busy:
            try:
                version.sampler.step()
            except Exception as error:  # noqa: BLE001 - the rows of this version fail, the server lives on
                self._fail(weights, error)
        return bool(busy)

    def drop(self, weights: str) -> None:
        """Let a version go; its rows fail."""
        self._fail(weights, UserError("these weights were deleted or written anew", where=weights))

    def _fail(self, weights: Weights, error: Exception) -> None:
        version = self._versions.pop(weights, None)
        for asked in list(version.asked) if version else ():
            asked.on_failed(error)

    def _version(self, weights: Weights) -> _Version:
        if weights not in self._versions:
            self._let_go()
            self._versions[weights] = _Version(self._make(weights))
        self._versions.move_to_end(weights)
        return self._versions[weights]

    def _let_go(self) -> None:
        """Make room for one more."""
        idle = [each for each, version in self._versions.items() if each is not None and not version.asked]
        for weights in idle[: max(0, len(self._versions) - LOADED)]:
            del self._versions[weights]
