"""Frames over a socket in the running event loop, by callbacks. Owns the socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from trainsmith.jail.border.worker.frames import MAX_UP, Decoder

_READ_BYTES = 1 << 17


class Channel:
    """Both directions of one socket to the jail."""

    def __init__(
        self,
        sock: socket.socket,
        on_frame: Callable[[tuple[str, list[object]]], None],
        on_end: Callable[[Exception | None], None],
    ) -> None:
        """`on_frame` gets every frame and may raise.

        `on_end` is called once: with None at the end of the stream, with BadFrame when the other side broke
        the protocol, and with anything else that was raised.
        """
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._on_frame = on_frame
        self._on_end = on_end
        self._decoder = Decoder(MAX_UP)
        self._unsent = bytearray()
        self._closed = False
        sock.setblocking(False)
        self._loop.add_reader(sock.fileno(), self._readable)

    def send(self, frame: bytes) -> None:
        """Queue a frame; silently dropped once closed."""
        if self._closed:
            return
        waiting = bool(self._unsent)
        self._unsent += frame
        if not waiting:
            self._writable()

    def send_descriptor(self, frame: bytes, descriptor: int) -> None:
        """Send a small frame together with a descriptor. Raises OSError when the socket is full or gone."""
        if self._unsent:
            raise BlockingIOError("the socket is full")
        socket.send_fds(self._socket, [frame], [descriptor])

    def close(self) -> None:
        """Stop at once; `on_end` is not called."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()

    def _readable(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end(None)
            return
        try:
            for frame in self._decoder.feed(data):
                self._on_frame(frame)
                if self._closed:
                    return
        except Exception as error:  # noqa: BLE001 - handed on: an error here must not leave rollouts waiting
            self._end(error)

    def _writable(self) -> None:
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._unsent.clear()
            return  # the reader sees the end of the stream
        del self._unsent[:sent]
        if self._unsent:
            self._loop.add_writer(self._socket.fileno(), self._writable)
        else:
            self._loop.remove_writer(self._socket.fileno())

    def _end(self, error: Exception | None) -> None:
        if not self._closed:
            self.close()
            self._on_end(error)
