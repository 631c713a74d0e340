"""Checks and counts around the routes: token, number of requests at once, headers, body limits."""

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from setwise.server.metrics import ROUTES
from setwise.server.requests import Limits, Refused
from setwise.server.service import Service

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOG = logging.getLogger("setwise.server")

OPEN = ("/", "/page", "/healthz", "/readyz")
"""What needs no token: the page, which asks for one, and what tells nothing of the model."""
WORK = ("/v1/predict", "/v1/explain")

HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
FAULT = "the service failed, through no fault of the request; its log says why"
CLOSE = (b"connection", b"close")
REVALIDATE = (b"cache-control", b"no-cache")  # a new version of setwise brings a new page


class Guard:
    """An ASGI application around another one; every answer passes here."""

    def __init__(self, app: App, service: Service):
        self.app, self.service = app, service
        token = service.settings.token
        self._bearer = None if token is None else b"Bearer " + token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hand the start and the end of the process on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, service = time.perf_counter(), self.service
        route, status = route_of(scope["path"]), 0

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS]
                if route == "/page":
                    message["headers"].append(REVALIDATE)
                if service.draining:
                    message["headers"].append(CLOSE)
            await send(message)

        works = route in WORK
        service.metrics.add("in_flight")
        service.working += works
        try:
            self._check(scope, route, works)
            await self.app(scope, receive, guarded)
        except Refused as refused:
            await send_refusal(guarded, refused)
        except Exception:
            LOG.exception("a request to %s failed", route)
            if status == 0:
                await send_refusal(guarded, Refused(500, FAULT))
        finally:
            service.working -= works
            service.metrics.add("in_flight", -1)
            service.metrics.answered(route, status, time.perf_counter() - began)

    def _check(self, scope: Scope, route: str, works: bool) -> None:
        """Refuse who may not ask, and more requests at once than the service may hold."""
        if self._bearer is not None and route not in OPEN:
            given = [value for name, value in scope["headers"] if name == b"authorization"]
            if len(given) != 1 or not hmac.compare_digest(given[0], self._bearer):
                raise Refused(
                    401, "this service needs a token; send it as 'Authorization: Bearer TOKEN'"
                )
        most = self.service.settings.limits.max_waiting
        if works and self.service.working > most:
            raise Refused(503, f"{most} requests are being answered already; try again shortly")


def route_of(path: str) -> str:
    """The path's name in the metrics."""
    if path in ROUTES:
        return path
    return "/page" if path.startswith("/page/") else "other"


async def send_refusal(send: Send, refused: Refused) -> None:
    """Send a refusal as the answer."""
    body = refused.body()
    headers = refused.headers() | {"content-length": str(len(body))}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


PATIENCE = 4
"""How many times the largest body is read, to be thrown away, before the connection is cut: a
client that is still writing does not see an answer."""


async def read_body(scope: Scope, receive: Receive, limits: Limits) -> bytes:
    """The body of a request with JSON in it."""
    headers = dict(scope["headers"])
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json":
        raise Refused(415, "the content type is not JSON; send 'Content-Type: application/json'")
    try:
        async with asyncio.timeout(limits.timeout):
            return await _within(receive, limits.max_body)
    except TimeoutError:
        raise Refused(
            408, f"the body did not arrive within {limits.timeout:g} s; send it faster, or less"
        ) from None


async def _within(receive: Receive, most: int) -> bytes:
    chunks: list[bytes] = []
    size, more = 0, True
    while more and size <= PATIENCE * most:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the connection ended before the body did; send it again")
        chunk = message.get("body", b"")
        size += len(chunk)
        chunks.append(chunk)
        more = message.get("more_body", False)
        if size > most:
            chunks.clear()
    if size > most:
        raise Refused(413, f"the body is larger than {most:,} bytes; send fewer sets at a time")
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
