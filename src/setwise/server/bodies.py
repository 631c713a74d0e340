"""Bodies of requests as they arrive: within limits of size and time, at a least rate.

Only a body that is there counts as work that waits, so that clients that send slowly keep nobody
else from being answered.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from setwise.server.requests import RequestError
from setwise.server.service import Service

GRACE = 2.0
LEAST_RATE = 4 * 1024
"""After so many seconds a body must have come at so many bytes per second."""
PATIENCE = 4
"""How many times the largest body is read, to be thrown away, before the connection is cut: a
client that is still writing does not see an answer."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class Gone(Exception):
    """The client has closed the connection before its request was there."""


class ArrivingBody:
    """A body that is arriving."""

    def __init__(
        self, receive: Callable[[], Awaitable[MutableMapping[str, Any]]], service: Service
    ):
        self._receive, self._service = receive, service
        self._limits = service.settings.limits
        self._chunks: list[bytes] = []
        self._size = 0
        self._gave_way = False

    async def read(self) -> bytes:
        """The whole body."""
        most = self._limits.max_body
        try:
            async with asyncio.timeout(None) as clock:
                await self._take(clock)
        except TimeoutError:
            if self._gave_way:
                raise RequestError(
                    503, "too many large bodies are arriving; try again shortly", closes=True
                ) from None
            raise RequestError(
                408, f"the body did not arrive within {self._limits.timeout:g} s, or at less than "
                f"{LEAST_RATE:,} bytes per second; send it faster, or less", closes=True,
            ) from None  # fmt: skip
        finally:
            self._service.arriving.release(self)
        if self._size > most:
            raise RequestError(
                413, f"the body is larger than {most:,} bytes; send fewer sets at a time",
                closes=True,
            )  # fmt: skip
        return self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)

    async def _take(self, clock: asyncio.Timeout) -> None:
        began, most = asyncio.get_running_loop().time(), self._limits.max_body
        more = True
        while more and self._size <= PATIENCE * most:
            late = min(self._limits.timeout, GRACE + self._size / LEAST_RATE)
            clock.reschedule(began + late)
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Gone
            chunk = message.get("body", b"")
            more = message.get("more_body", False)
            self._size += len(chunk)
            if self._size <= most:
                self._chunks.append(chunk)
            else:
                self._chunks.clear()
            if more:
                held = self._size if self._chunks else 0
                self._service.arriving.hold(self, held, lambda: self._give_way(clock))

    def _give_way(self, clock: asyncio.Timeout) -> None:
        """Others need the memory: end at once."""
        self._gave_way = True
        self._service.metrics.add("arriving")
        clock.reschedule(0)
