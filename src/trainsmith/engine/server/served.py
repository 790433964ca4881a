"""What the protocols share: the host, the store, and how a client's name for weights becomes a version."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from trainsmith.engine.server.errors import HttpError
from trainsmith.engine.server.host import ModelHost
from trainsmith.engine.server.store import Store
from trainsmith.engine.server.tinker_path import TinkerPath


@dataclass(frozen=True, slots=True)
class Served:
    """One base being served."""

    host: ModelHost
    store: Store
    stopping: asyncio.Event
    """Set when the server ends: long polls answer at once then."""

    def weights(self, model: str) -> str | None:
        """The version for `ModelHost.sample`: None for the base's id, else that of a `tinker://` path.

        Raises HttpError 404 for a model that is not served here, UserError for a malformed path.
        """
        if model == self.host.base:
            return None
        if not model.startswith("tinker://"):
            raise HttpError(404, f"the model {model!r} is not served here; {self.host.base!r} is")
        path = TinkerPath.parse(model)
        if (base := self.store.checkpoint(path).base) != self.host.base:
            raise HttpError(404, f"{path} is of the base {base!r}; {self.host.base!r} is served here")
        return str(self.store.directory(path))
