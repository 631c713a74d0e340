"""The ASGI application: it checks who asks, reads bodies, answers, counts and writes the log.

What it answers at which path is in :mod:`setwise.server.routes`.
"""

import asyncio
import hmac
import itertools
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from setwise.server.answers import Deadline
from setwise.server.bodies import ArrivingBody, Gone, Message, Receive
from setwise.server.requests import RequestError
from setwise.server.routes import Reply, Route, nowhere, routes
from setwise.server.service import Service, Work
from setwise.server.settings import Hosts
from setwise.server.tensors import InferenceError

Scope = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Headers = dict[bytes, bytes]

LOG = logging.getLogger("setwise.server")
ACCESS = logging.getLogger("setwise.server.access")

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
REQUEST_ID = re.compile(rb"[\w.:/+=-]{1,100}", re.ASCII)


class Application:
    """The ASGI application of a service, which every request passes."""

    def __init__(self, service: Service):
        self.service = service
        self.routes = routes(service)
        self._hosts = Hosts.of(service.settings.allowed_hosts)
        token = service.settings.token
        self._bearer = None if token is None else b"Bearer " + token.encode()
        self._process = secrets.token_hex(5)
        self._numbers = itertools.count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or take part in the start and the end of the process."""
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close"})

    async def _live(self, receive: Receive, send: Send) -> None:
        """Look for new model files from the start of the process to its end."""
        await receive()
        watch = asyncio.create_task(self.service.watch())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        watch.cancel()
        await asyncio.wait([watch])
        self.service.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, metrics = time.perf_counter(), self.service.metrics
        headers: Headers = dict(scope["headers"])
        route = self.routes.get(scope["path"]) or nowhere(scope["path"])
        known = self._id(headers.get(b"x-request-id", b""))
        status, size = 0, 0
        metrics.add("in_flight")
        try:
            reply, more = await self._reply(route, scope, headers, receive, known)
            size = len(reply.body)
            lines = [
                (b"content-type", reply.kind), (b"content-length", b"%d" % size), reply.keep,
                (b"x-request-id", known), *HEADERS, *more,
            ]  # fmt: skip
            if reply.tag:
                lines.append((b"etag", reply.tag))
            if self.service.draining and CLOSE not in more:
                lines.append(CLOSE)
            status = reply.status
            await send({"type": "http.response.start", "status": status, "headers": lines})
            shown = b"" if scope["method"] == "HEAD" else reply.body
            await send({"type": "http.response.body", "body": shown})
        except Gone:
            pass
        finally:
            seconds = time.perf_counter() - began
            metrics.add("in_flight", -1)
            metrics.answered(route.series, status, seconds)
            if self.service.settings.access_log:
                self._log(route, scope, known, status, size, seconds)

    async def _reply(
        self,
        route: Route,
        scope: Scope,
        headers: Headers,
        receive: Receive,
        known: bytes,
    ) -> tuple[Reply, list[tuple[bytes, bytes]]]:
        """The answer, be it a refusal, and its further headers."""
        try:
            self._check(route, scope, headers)
            if isinstance(route.answer, Work):
                return await self._worked(route, route.answer, headers, receive), []
            assert route.answer is not None
            reply = route.answer()
            if reply.tag and headers.get(b"if-none-match") == reply.tag:
                return reply._replace(body=b"", status=304), []
            return reply, []
        except RequestError as refused:
            allowed = [(b"allow", ", ".join(route.methods).encode())]
            more = allowed if refused.status == 405 else refused.headers()
            return refusal(route, refused), more
        except Gone:
            raise
        except Exception:
            LOG.exception("request %s to %s failed", known.decode(), route.series.route)
            return refusal(route, RequestError(500, FAULT)), []

    def _check(self, route: Route, scope: Scope, headers: Headers) -> None:
        """Refuse other hosts, requests without the token, unknown paths and other methods."""
        if not route.any_host and not self._hosts.include(headers.get(b"host", b"")):
            raise RequestError(
                421, "this service does not answer for the host of this request; name the host "
                "with --allowed-host when starting it",
            )  # fmt: skip
        if self._bearer is not None and route.needs_token:
            given = [value for name, value in scope["headers"] if name == b"authorization"]
            if len(given) != 1 or not hmac.compare_digest(given[0], self._bearer):
                raise RequestError(
                    401, "this service needs a token; send it as 'Authorization: Bearer TOKEN'"
                )
        if route.answer is None:
            raise RequestError(
                404, "there is nothing at this path; the service's paths are in /openapi.json"
            )
        if scope["method"] not in (
            ("POST",) if isinstance(route.answer, Work) else ("GET", "HEAD")
        ):
            raise RequestError(
                405, "this path does not take this method; its paths and methods are in "
                "/openapi.json",
            )  # fmt: skip

    async def _worked(self, route: Route, work: Work, headers: Headers, receive: Receive) -> Reply:
        """The answer to a request with a body; only one that has arrived counts as waiting."""
        service = self.service
        limits = service.settings.limits
        deadline = Deadline.after(limits.timeout)
        kind = headers.get(b"content-type", b"")
        if kind != b"application/json" and _plain(kind) != b"application/json":
            raise RequestError(
                415, "the content type is not JSON; send 'Content-Type: application/json'"
            )
        body = await ArrivingBody(receive, service).read()
        if service.working >= limits.max_waiting:
            raise RequestError(
                503, f"{limits.max_waiting} requests are being answered already; try again shortly"
            )
        service.working += 1
        try:
            return Reply(await service.answer(route.series.model, body, work, deadline))
        finally:
            service.working -= 1

    def _id(self, given: bytes) -> bytes:
        """The client's id of its request, or one of our own."""
        if given and REQUEST_ID.fullmatch(given):
            return given
        return b"%s-%x" % (self._process.encode(), next(self._numbers))

    def _log(
        self, route: Route, scope: Scope, known: bytes, status: int, size: int, seconds: float
    ) -> None:
        client = scope.get("client")
        line = {
            "time": time.time(), "id": known.decode(), "client": client[0] if client else None,
            "method": scope["method"], "path": scope["path"], "model": route.series.model or None,
            "status": status, "bytes": size, "ms": round(1e3 * seconds, 3),
        }  # fmt: skip
        ACCESS.info("%s", msgspec.json.encode(line).decode())


def application(service: Service) -> Application:
    """The ASGI application of a service."""
    return Application(service)


def refusal(route: Route, refused: RequestError) -> Reply:
    """A refusal as an answer."""
    plain = msgspec.json.encode(InferenceError(refused.message)) if route.tensors else None
    return Reply(plain or refused.body(), status=refused.status)


def _plain(kind: bytes) -> bytes:
    return kind.partition(b";")[0].strip().lower()
