"""A worker: hundreds of rollouts in one asyncio loop, one socket to the trusted side, a watchdog thread.

It never samples: tokens come from the other side of the socket, asked for with `Generate`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import itertools
import os
import socket
import sys
import threading
import time
import weakref
from collections.abc import Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from verifiers.v1 import agent as vf_agent
from verifiers.v1 import env as vf_env
from verifiers.v1.clients import ModelContext
from verifiers.v1.configs.client import EvalClientConfig
from verifiers.v1.errors import model_error
from verifiers.v1.rollout import RolloutTimeouts
from verifiers.v1.types import AssistantMessage, Response, SamplingConfig, Usage

from . import ends, harness, where
from .boundary import MODEL, PipeInterception
from .fast import FastPath
from .frames import MAX_DOWN, MAX_UP, Decoder
from .messages import (
    MAX_MESSAGES,
    MAX_TEXT,
    TO_WORKER,
    Beat,
    Cancel,
    Done,
    FromWorker,
    Generate,
    Load,
    Play,
    Refuse,
    Reply,
    Stuck,
    ToWorker,
    Up,
    pack,
    read,
)
from .package import Package, chat

_BEAT_SECONDS = 1.0
_TICK_SECONDS = 0.1
_CURRENT: contextvars.ContextVar[int | None] = contextvars.ContextVar("rollout", default=None)


class NoRoom(Exception):
    """No other thread may start: the author's code has taken all processes."""


@dataclass(slots=True)
class _Rollout:
    """One rollout in flight: its traces in the order in which they began."""

    number: int
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    traces: dict[str, tuple[int, Any]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)

    def see(self, trace: Any) -> None:
        self.traces[trace.id] = (next(self.numbers), trace)
        self.seen.append(trace.id)

    def discard(self, trace: Any) -> None:
        self.traces.pop(trace.id, None)


class Worker:
    """Lives in a process forked from the zygote; `run` does not return."""

    def __init__(self, sock: socket.socket, package: Package, order: Load) -> None:
        self._socket = sock
        self._package = package
        self._order = order
        self._lock = threading.Lock()
        self._decoder = Decoder(MAX_DOWN)
        self._loop = asyncio.new_event_loop()
        self._owner: weakref.WeakKeyDictionary[asyncio.Task[Any], int | None] = weakref.WeakKeyDictionary()
        self._running: dict[int, asyncio.Task[None]] = {}
        self._rollout_of: dict[str, _Rollout] = {}
        self._calls: dict[int, asyncio.Future[Reply | Refuse]] = {}
        self._numbers = itertools.count()
        self._tick = time.monotonic()
        client = EvalClientConfig(base_url="http://none.invalid", api_key_var="NONE")
        self._context = ModelContext(model=MODEL, client=client, sampling=SamplingConfig())
        self._fast = FastPath(package, self._context, order.hook_seconds)

    def run(self) -> NoReturn:
        """Serve until the trusted side closes the socket."""
        self._loop.set_task_factory(self._make_task)
        try:
            threading.Thread(target=self._watch, daemon=True).start()
        except RuntimeError as error:
            raise NoRoom from error
        top = self._loop.create_task(self._serve())
        while not top.done():
            # sys.exit in a hook leaves the loop; the hook's own task holds it as its exception: go on.
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self._loop.run_until_complete(top)
        os._exit(1)

    async def _serve(self) -> None:
        interception = PipeInterception(self._sample)
        harness.CALL = interception.call
        vf_env.make_interception = lambda *args, **kwargs: interception
        vf_agent.resolve_rollout_timeouts = functools.partial(
            _bounded_timeouts, vf_agent.resolve_rollout_timeouts, self._order.hook_seconds
        )
        async with self._package.env.serving():
            self._loop.add_reader(self._socket.fileno(), self._readable)
            self._send(Up())
            last = time.monotonic()
            while True:
                self._tick = time.monotonic()
                if self._tick - last >= _BEAT_SECONDS:
                    self._send(Beat())
                    last = self._tick
                await asyncio.sleep(_TICK_SECONDS)

    # ---- messages

    def _send(self, message: FromWorker) -> None:
        frame = pack(message)
        with self._lock:
            self._socket.sendall(frame)

    def _readable(self) -> None:
        try:
            data = self._socket.recv(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not data:
            os._exit(0)
        for frame in self._decoder.feed(data):
            self._obey(read(frame, TO_WORKER))

    def _obey(self, message: ToWorker) -> None:
        match message:
            case Play():
                self._begin(message)
            case Reply() | Refuse():
                waiting = self._calls.get(message.call)
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
            case Cancel():
                task = self._running.get(message.rollout)
                if task is not None:
                    task.cancel()

    # ---- rollouts

    def _begin(self, order: Play) -> None:
        context = contextvars.copy_context()
        context.run(_CURRENT.set, order.rollout)
        self._running[order.rollout] = context.run(self._loop.create_task, self._play(order))

    async def _play(self, order: Play) -> None:
        rollout = _Rollout(order.rollout)
        ok = timed_out = False
        errors: tuple[str, ...] = ()
        try:
            if self._order.fast and self._fast.suits(order.index):
                trace = await self._fast.play(order.index, self._sample, self._see(rollout))
                ok, timed_out = trace.ok, trace.is_timeout
            else:
                episode = await self._play_episode(self._package.tasks[order.index], rollout)
                ok, timed_out = episode.ok, episode.is_timeout
                errors = tuple(ends.error_text(error) for error in episode.errors)
        except asyncio.CancelledError:
            timed_out, errors = True, ("the rollout ran out of time",)
        except BaseException as error:  # noqa: BLE001 - sys.exit in a hook is data, not the end of the worker
            errors = (ends.exception_text(error),)
        self._finish(rollout, bool(ok), bool(timed_out), errors)

    async def _play_episode(self, task: Any, rollout: _Rollout) -> Any:
        return await self._package.env.run_episode(
            task, self._context, on_trace=self._see(rollout), on_discard=rollout.discard
        )

    def _see(self, rollout: _Rollout) -> Any:
        def see(trace: Any) -> None:
            rollout.see(trace)
            self._rollout_of[trace.id] = rollout

        return see

    def _finish(self, rollout: _Rollout, ok: bool, timed_out: bool, errors: tuple[str, ...]) -> None:
        for trace_id in rollout.seen:
            self._rollout_of.pop(trace_id, None)
        self._running.pop(rollout.number, None)
        traces = tuple(ends.trace_end(number, trace) for number, trace in list(rollout.traces.values())[:64])
        done = Done(rollout.number, ok, timed_out, ends.short(errors), traces)
        if len(pack(done)) > MAX_UP:
            done = Done(rollout.number, False, timed_out, ("the rollout's result is too large",), ())
        self._send(done)

    # ---- tokens

    async def _sample(self, trace: Any, messages: list[Any], sampling: Any) -> Any:
        """Ask the trusted side for one reply. Raises a provider error when it refuses."""
        rollout = self._rollout_of[trace.id]
        talk = tuple(chat(message) for message in messages)
        if len(talk) > MAX_MESSAGES or sum(len(message.content) for message in talk) > MAX_TEXT:
            raise model_error(f"more than {MAX_MESSAGES} messages or {MAX_TEXT} characters", status_code=400)
        number = next(self._numbers)
        future = self._calls[number] = self._loop.create_future()
        try:
            self._send(
                Generate(
                    rollout=rollout.number,
                    call=number,
                    trace=rollout.traces[trace.id][0],
                    agent=None if trace.agent is None else trace.agent.name,
                    messages=talk,
                    max_tokens=sampling.max_tokens,
                )
            )
            answer = await future
        finally:
            del self._calls[number]
        if isinstance(answer, Refuse):
            raise model_error(answer.error, status_code=400)
        usage = Usage(prompt_tokens=answer.prompt_tokens, completion_tokens=answer.completion_tokens)
        message = AssistantMessage(content=answer.text or None)
        return Response(
            id=str(number), created=0, model=MODEL, message=message, finish_reason=answer.finish, usage=usage
        )

    # ---- watchdog

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Generator[Any, None, Any] | Coroutine[Any, Any, Any],
        **options: Any,
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
        self._owner[task] = _CURRENT.get()
        return task

    def _watch(self) -> None:
        """Tell the trusted side which rollout holds the loop: its only hint about a blocked worker."""
        main, told = threading.main_thread().ident, 0.0
        while True:
            time.sleep(self._order.stuck_seconds / 8)
            since = time.monotonic() - self._tick
            if since < self._order.stuck_seconds or self._tick == told:
                continue
            told = self._tick
            task = asyncio.current_task(self._loop)
            place = where.of_frame(sys._current_frames().get(main or 0))
            self._send(Stuck(None if task is None else self._owner.get(task), since, place[:2000]))


def _bounded_timeouts(original: Any, limit: float, *arguments: Any) -> Any:
    """verifiers' stage timeouts, none longer than ours; the agent's stage has the trusted side's clock."""
    own = original(*arguments)

    def tighter(value: float | None) -> float:
        return limit if value is None else min(value, limit)

    return RolloutTimeouts(
        setup=tighter(own.setup),
        agent=own.agent,
        finalize=tighter(own.finalize),
        scoring=tighter(own.scoring),
    )
