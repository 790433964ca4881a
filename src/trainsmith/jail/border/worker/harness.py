"""The harness of every agent in the jail: one model call a segment, inside this process; no HTTP, no child.

Registered with verifiers under the module name `trainsmith_harness`. `CALL` is set by the worker before the
first rollout.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.types import SystemMessage, UserMessage

Call = Callable[[str, list[Any]], Awaitable[str | None]]
"""Session's secret and messages to None, or to the reason why the exchange is over."""


async def _not_set(secret: str, messages: list[Any]) -> str | None:
    raise RuntimeError("no worker has set the call")


CALL: Call = _not_set


class PipeHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
    """Plays one segment: the conversation so far in, one reply out."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: Any,
    ) -> Any:
        """One model call; verifiers' contract for a harness that runs in process."""
        system, prompt = self.resolve_prompt(data)
        messages = [SystemMessage(content=system)] if system else []
        messages += [UserMessage(content=prompt)] if isinstance(prompt, str) else list(prompt or [])
        over = await CALL(secret, messages)
        return vf.ProgramResult(exit_code=0 if over is None else 1, stdout="", stderr=over or "")


__all__ = ["PipeHarness"]
