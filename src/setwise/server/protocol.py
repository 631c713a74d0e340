"""Connections that do not wait for ever: requests must come to their end in time."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD = 64 * 1024
"""The most bytes of a request before its body."""


class Patient(HttpToolsProtocol):
    """Cuts a connection whose request does not come to its end, or has too long a head.

    A body that is late gets an answer (:mod:`setwise.server.bodies`); this is for the rest: no
    request at all, half a head, a body that nobody reads.
    """

    patience: float = 11.0
    """Seconds from a request's first byte to its last."""
    _late: asyncio.TimerHandle | None = None
    _head = -1
    """Bytes of a head that is not complete; -1 between heads."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head >= 0:
            self._head += len(data)
            if self._head > MOST_HEAD:
                self.transport.close()

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

    def _await_end(self) -> None:
        self._stop_waiting()
        self._late = self.loop.call_later(self.patience, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()


def patient(seconds: float) -> type[Patient]:
    """The protocol with this patience."""
    return type("Patient", (Patient,), {"patience": seconds})
