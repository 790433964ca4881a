"""An environment that opens in the background, so that a job can wait for its turn meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AbstractAsyncContextManager

from trainsmith.jail.border import Environment


class Opening:
    """Begins to open at once; stays open until `close`, which whoever made it must await."""

    def __init__(self, manager: AbstractAsyncContextManager[Environment]) -> None:
        self._opened: asyncio.Future[Environment] = asyncio.get_running_loop().create_future()
        self._wanted = asyncio.Event()
        # One task enters and leaves, whichever tasks wait for the environment.
        self._task = asyncio.get_running_loop().create_task(self._hold(manager))

    async def environment(self) -> Environment:
        """Wait until it is open. Raises what opening raised: EnvironmentFailed, MachineError."""
        return await asyncio.shield(self._opened)

    async def close(self) -> None:
        """End it, whether it is open by now or not. May be called again."""
        self._wanted.set()
        if not self._opened.done():
            self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(self._task)

    async def _hold(self, manager: AbstractAsyncContextManager[Environment]) -> None:
        try:
            async with manager as environment:
                self._opened.set_result(environment)
                await self._wanted.wait()
        except asyncio.CancelledError:
            self._opened.cancel()
            raise
        except Exception as error:
            if self._opened.done():
                raise
            self._opened.set_exception(error)
            self._opened.exception()  # nobody needs to ask
