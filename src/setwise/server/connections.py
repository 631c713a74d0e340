"""Connections of a service: how many, how long each may take, and what happens when it ends.

Nobody holds a connection for nothing: a request must come to its end in time, an answer must be
read, and where there are too many connections, the one that was idle longest is closed.
"""

import asyncio
import socket
import struct
import time
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from setwise.server.quota import Quota
from setwise.server.requests import RequestError
from setwise.server.service import Service

MOST_HEAD = 64 * 1024
"""The most bytes of a request before its body."""
LEAST_RATE = 64 * 1024
"""A client must read its answer at so many bytes per second, on average."""
BETWEEN_LOOKS = 1.0
LINGER = 0.5
"""Seconds for which a process that ends still takes a request on a connection that is open."""
BUSY = RequestError(503, "too many connections are open; try again shortly", closes=True)


class Connections:
    """What the connections of a process share."""

    def __init__(self, service: Service):
        limits = service.settings.limits
        self.metrics, self.most = service.metrics, limits.max_connections
        self.patience: float = limits.timeout
        """Seconds after which an answer must be read, and, with one more, a request be there."""
        self.unread = Quota(limits.max_held)
        """The bytes of answers that wait for their readers."""
        self.open: set[TimedProtocol] = set()
        self.ending = False

    def let_in(self) -> bool:
        """Whether one more may come; one that is idle makes room for it."""
        if len(self.open) < self.most:
            return True
        idle = [one for one in self.open if one.is_idle]
        if idle:
            min(idle, key=lambda one: one.since).cut("crowded")
        else:
            self.metrics.add("crowded")
        return bool(idle)


class TimedProtocol(HttpToolsProtocol):
    """Closes a connection whose request does not end in time, or whose answer is not read.

    A body that is late gets an answer (:mod:`setwise.server.bodies`); this is for the rest: no
    request at all, half a head, a body that nobody reads.
    """

    shared: Connections
    """Given by :func:`timed_protocol`."""
    since = 0.0
    """When the connection was last in use."""
    _late: asyncio.TimerHandle | None = None
    _slow: asyncio.TimerHandle | None = None
    _paused = 0.0
    _unread = 0
    _head = -1
    """Bytes of a head that is not complete; -1 between heads."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is being sent or answered."""
        return self._head < 0 and (self.cycle is None or self.cycle.response_complete)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.since = time.monotonic()
        if not self.shared.let_in():
            self._refuse()
            return
        self.shared.open.add(self)
        self._count()
        self._await_end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.resume_writing()
        self.shared.open.discard(self)
        self._count()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self not in self.shared.open or self.transport.is_closing():
            return
        super().data_received(data)
        if self._head >= 0:
            self._head += len(data)
            if self._head > MOST_HEAD:
                self.cut("late")

    def on_message_begin(self) -> None:
        self._await_end()
        self._head = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head = -1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop_waiting()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.since = time.monotonic()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """An answer waits for its reader."""
        super().pause_writing()
        self._paused = time.monotonic()
        self._unread = self.transport.get_write_buffer_size()
        self._slow = self.loop.call_later(BETWEEN_LOOKS, self._look)
        self.shared.unread.hold(self, self._unread, lambda: self.cut("unread"))

    def resume_writing(self) -> None:
        """The reader has nearly all."""
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None
            self.shared.unread.release(self)
        super().resume_writing()

    def shutdown(self) -> None:
        """The process ends: answer what has come, and what comes within a moment."""
        self.shared.ending = True
        if self.is_idle:
            self.loop.call_later(LINGER, self._end)
        else:
            super().shutdown()

    def cut(self, why: str) -> None:
        """Close the connection, and count why; what was not read is thrown away."""
        self.shared.metrics.add(why)
        if self.transport.get_write_buffer_size():
            connection = self.transport.get_extra_info("socket")
            # The system forgets what it has of the answer; else it would try to send it.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        else:
            self.transport.close()

    def _end(self) -> None:
        if self.is_idle:
            self.transport.close()
        elif self.cycle is not None:
            self.cycle.keep_alive = False

    def _refuse(self) -> None:
        self.transport.write(BUSY.raw())
        self.transport.write_eof()  # closed at once, the client might not see the answer
        self.loop.call_later(LINGER, self.transport.close)

    def _look(self) -> None:
        """Cut who has not read enough of an answer since it came."""
        left = self.transport.get_write_buffer_size()
        passed = time.monotonic() - self._paused
        if passed > self.shared.patience and self._unread - left < LEAST_RATE * passed:
            self.cut("unread")
            return
        self._slow = self.loop.call_later(BETWEEN_LOOKS, self._look)

    def _await_end(self) -> None:
        self._stop_waiting()
        self._late = self.loop.call_later(self.shared.patience + 1, self.cut, "late")

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()

    def _count(self) -> None:
        self.shared.metrics.set("connections", len(self.shared.open))


def timed_protocol(service: Service) -> type[TimedProtocol]:
    """The protocol of a service's connections."""
    return type("TimedProtocol", (TimedProtocol,), {"shared": Connections(service)})
