"""The zygote: imports verifiers and the author's package once, forks workers, sweeps up processes that they
leave.

It speaks with the trusted side on one socket; each worker gets a socket of its own, handed over with `Fork`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from . import where
from .fast import suits
from .frames import MAX_DOWN, Decoder
from .loop import NoRoom, Worker
from .messages import (
    NO_ROOM,
    TO_ZYGOTE,
    Exited,
    Failed,
    Fork,
    Forked,
    FromZygote,
    Hello,
    Kill,
    List,
    Load,
    Place,
    Row,
    Rows,
    ToZygote,
    pack,
    read,
)
from .package import Broken, Package, describe, left_children, load, row

OWN_SIGNALS = os.environ.get("TRAINSMITH_OWN_SIGNALS") == "1"
"""Whether `kill(-1)` reaches this jail alone."""
_POLL_SECONDS = 0.05
_SWEEP_SECONDS = 1.0
_SWEEP_ROUNDS = 1000
_PAGE_BYTES = 1 << 19
_PR_SET_CHILD_SUBREAPER = 36


class Zygote:
    """Serves the trusted side until it closes the socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._lock = threading.Lock()
        self._decoder = Decoder(MAX_DOWN)
        self._descriptors: list[int] = []
        self._workers: dict[int, int] = {}
        """Worker numbers by process id."""
        self._package: Package | None = None
        self._order: Load | None = None

    def run(self) -> NoReturn:
        """Never returns; ends the process when the trusted side is gone."""
        _adopt_orphans()
        self._send(Hello())
        swept = time.monotonic()
        while True:
            readable, _, _ = select.select([self._socket], [], [], _POLL_SECONDS)
            self._reap()
            if time.monotonic() - swept > _SWEEP_SECONDS:
                self._sweep()
                swept = time.monotonic()
            if readable:
                for message in self._receive():
                    self._obey(message)

    def _receive(self) -> Iterator[ToZygote]:
        data, descriptors, _, _ = socket.recv_fds(self._socket, 1 << 16, 8)
        self._descriptors += descriptors
        if not data:
            os._exit(0)
        for frame in self._decoder.feed(data):
            yield read(frame, TO_ZYGOTE)

    def _send(self, message: FromZygote) -> None:
        frame = pack(message)
        with self._lock:
            self._socket.sendall(frame)

    def _obey(self, message: ToZygote) -> None:
        match message:
            case Load():
                self._load(message)
            case List():
                self._list(message)
            case Fork():
                self._fork(message)
            case Kill():
                for pid, worker in self._workers.items():
                    if worker == message.worker:
                        os.kill(pid, signal.SIGKILL)

    # ---- the package

    def _load(self, order: Load) -> None:
        self._order, me = order, os.getpid()
        done = threading.Event()
        reporter = threading.Thread(target=self._report_place, args=(done, order.place_seconds), daemon=True)
        reporter.start()
        try:
            self._package = load(order)
            answer: FromZygote = self._ready(order)
        except Broken as broken:
            answer = Failed(broken.reason, broken.what[:2000], broken.place[:2000], broken.fix[:2000])
        finally:
            if os.getpid() != me:
                os._exit(0)  # the author's code forked while it was imported, and this is the child
        done.set()
        reporter.join()
        self._send(answer)
        gc.collect()
        gc.freeze()

    def _ready(self, order: Load) -> FromZygote:
        assert self._package is not None
        if left_children():
            fix = "start no process and no multiprocessing at import or in load()"
            return Failed("forked", "importing the package leaves processes running", "", fix)
        fast = order.fast and all(suits(self._package.env, task) for task in self._package.tasks[:1])
        return describe(self._package, fast)

    def _report_place(self, done: threading.Event, seconds: float) -> None:
        main = threading.main_thread().ident
        while not done.wait(seconds):
            self._send(Place(where.of_frame(sys._current_frames().get(main or 0))[:2000]))

    def _list(self, order: List) -> None:
        assert self._package is not None
        rows: list[Row] = []
        size = 0
        try:
            for task in self._package.tasks[order.start : order.stop]:
                one = row(task)
                size += 4 * (len(one.fields) + sum(len(message.content) for message in one.messages or ()))
                if rows and size > _PAGE_BYTES:
                    break
                rows.append(one)
        except Broken as broken:
            self._send(Failed(broken.reason, broken.what[:2000], broken.place[:2000], broken.fix[:2000]))
            return
        except Exception as error:  # noqa: BLE001 - the author's own data model may fail here
            what = f"task {order.start + len(rows)} cannot be shown: {type(error).__name__}: {error}"
            self._send(
                Failed("bad_package", what[:2000], where.of_error(error)[:2000], "correct the task's data")
            )
            return
        self._send(Rows(order.start, tuple(rows)))

    # ---- workers

    def _fork(self, order: Fork) -> None:
        assert self._package is not None and self._order is not None
        sock = socket.socket(fileno=self._descriptors.pop(0))
        sys.stdout.flush()
        try:
            pid = os.fork()
        except OSError:
            sock.close()
            self._sweep()
            self._send(Forked(order.worker, False))
            return
        if pid == 0:
            self._become_worker(sock, self._package, self._order)
        sock.close()
        self._workers[pid] = order.worker
        self._send(Forked(order.worker, True))

    def _become_worker(self, sock: socket.socket, package: Package, order: Load) -> NoReturn:
        try:
            self._socket.close()
            Worker(sock, package, order).run()
        except NoRoom:
            os._exit(NO_ROOM)
        except BaseException:  # noqa: BLE001 - a forked child must not run the zygote's code
            traceback.print_exc()
        finally:
            os._exit(1)

    def _reap(self) -> None:
        """Report workers that ended, and end what they left behind."""
        ended = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid in self._workers:
                ended = True
                self._send(Exited(self._workers.pop(pid), status))
        if ended:
            self._sweep()

    def _sweep(self) -> None:
        """Kill orphans; all of the jail stands still meanwhile, so that none forks while others die."""
        if not self._orphans():
            return
        self._signal_all(signal.SIGSTOP)
        for _ in range(_SWEEP_ROUNDS):
            orphans = self._orphans()
            for pid in orphans:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            for pid in orphans:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)
            if not orphans:
                break
        self._signal_all(signal.SIGCONT)

    def _orphans(self) -> list[int]:
        return [pid for pid in _children() if pid not in self._workers]

    def _signal_all(self, name: signal.Signals) -> None:
        """Signal every process of the jail but this one; only where the jail keeps signals inside."""
        if OWN_SIGNALS:
            with contextlib.suppress(OSError):
                os.kill(-1, name)


def _adopt_orphans() -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(
        _PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)
    )


def _children() -> list[int]:
    me = os.getpid()
    try:
        return [int(pid) for pid in Path(f"/proc/{me}/task/{me}/children").read_text().split()]
    except OSError:
        return []
