"""verifiers' model boundary without HTTP: the steps of its interception server's `handle_request`, in the
same order.

This is the part that leans most on verifiers' inside (pinned ==0.4.0): `Interception.acquire`,
`RolloutSession`, and `graph.prepare_turn / commit`. A test compares it with verifiers' own server. It leaves
out what only HTTP needs: retries of an HTTP client, streams, tool gates, provider capabilities.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from verifiers.v1 import graph
from verifiers.v1.errors import RolloutError, TaskError
from verifiers.v1.interception import Interception
from verifiers.v1.trace import Error, ModelCall, TimeSpan
from verifiers.v1.types import Request

MODEL = "policy"
ENDPOINT = "pipe://jail"
Sample = Callable[[Any, list[Any], Any], Awaitable[Any]]
"""Trace, messages and sampling to a verifiers Response. Raises RolloutError."""


class PipeInterception(Interception):  # type: ignore[misc]
    """Hands each rollout a slot in this process."""

    def __init__(self, sample: Sample) -> None:
        super().__init__()
        self._sample = sample
        self._sessions: dict[str, Any] = {}

    async def start(self) -> None:
        """Nothing to bring up."""

    @contextlib.asynccontextmanager
    async def acquire(self, session: Any) -> AsyncIterator[tuple[str, str, str]]:
        """Register a session under a secret of its own."""
        secret = secrets.token_hex(8)
        self._sessions[secret] = session
        try:
            yield ENDPOINT, secret, secret
        finally:
            del self._sessions[secret]
            session.release()

    async def call(self, secret: str, messages: list[Any]) -> str | None:
        """One model call of a session: None, or why the exchange is over."""
        session = self._sessions[secret]
        if session.released:
            return "rollout concluded"
        if session.stopped:
            return f"rollout stopped: {session.trace.stop_condition}"
        try:
            turn = await self._admit(session, messages)
        except RolloutError as error:
            return _fail(session, error)
        except Exception as error:  # noqa: BLE001 - the author's hooks run here; verifiers reports them the same way
            return _fail(session, TaskError(f"model boundary hook failed: {type(error).__name__}: {error}"))
        return turn if isinstance(turn, str) else await self._exchange(session, turn)

    async def _admit(self, session: Any, messages: list[Any]) -> Any:
        """Limits, stops and rewrites before the call: the prepared turn, or why the exchange is over."""
        refused = await session.refused()
        if refused is not None:
            return f"rollout stopped: {refused}"
        request, records, stopped = await session.rewrite_request(Request(messages=messages))
        session.trace.request_rewrites.extend(records)
        turn = graph.prepare_turn(session.trace, request.messages, request.tools)
        if stopped is not None:
            turn.commit_prompt()
            session.trace.stop(stopped)
            return f"rollout stopped: {stopped}"
        session.trace.preview(turn, turn.tail)
        if session.on_turn_input is not None:
            on_input, session.on_turn_input = session.on_turn_input, None
            on_input()
        return turn

    async def _exchange(self, session: Any, turn: Any) -> str | None:
        session.error = None
        started, node, response = time.time(), None, None
        failure: BaseException | None = None
        try:
            response = await self._sample(session.trace, list(turn.prompt), session.ctx.sampling)
            if session.released:
                return "rollout concluded"
            records: list[Any] = []
            stopped = None
            if session.response_interceptors or session.response_stops:
                response, records, stopped = await session.rewrite_response(response)
            if session.stopped:
                return f"rollout stopped: {session.trace.stop_condition}"
            node = turn.commit(response)
            session.consume_prepared(turn.tail)
            session.trace.response_rewrites.extend(records)
            stopped = stopped or await session.gate_tool_calls(node)
            if stopped is None:
                return None
            session.trace.stop(stopped)
            return f"rollout stopped: {stopped}"
        except RolloutError as error:
            failure = session.error = error
            return str(error)
        except Exception as error:  # noqa: BLE001 - verifiers answers any other failure as an API error
            failure = error
            return str(error)
        except BaseException as error:
            failure = error
            raise
        finally:
            if node is None:
                turn.abandon()
            _record(session, node, response, started, failure)


def _fail(session: Any, error: RolloutError) -> str:
    session.error = error
    return str(error)


def _record(
    session: Any, node: int | None, response: Any, started: float, error: BaseException | None
) -> None:
    if session.released:
        return
    session.trace.calls.append(
        ModelCall(
            node=node,
            model=MODEL,
            endpoint=ENDPOINT,
            finish_reason=response.finish_reason if response else None,
            usage=response.usage if response else None,
            time=TimeSpan(start=started, end=time.time()),
            error=None if error is None else Error(type=type(error).__name__, message=str(error)),
        )
    )
    session.trace.notify()
