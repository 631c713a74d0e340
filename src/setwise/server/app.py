"""The ASGI application: routes, their OpenAPI description, and the guard around them.

The guard checks the token and the number of requests at once, limits bodies, adds headers and
counts.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.routing import Route

from setwise import __version__
from setwise.server.answers import Answers, Deadline, Explained
from setwise.server.metrics import ROUTES
from setwise.server.requests import ErrorBody, Limits, ParsedRequest, RequestError, RequestFormat
from setwise.server.service import ServedModel, Service, Work

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOG = logging.getLogger("setwise.server")

OPEN = ("/", "/page", "/healthz", "/readyz")
"""Routes that need no token: the page, which asks for one, and those about the process."""
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
    """An ASGI application around the routes, which every request and response passes."""

    def __init__(self, app: App, service: Service):
        self.app, self.service = app, service
        token = service.settings.token
        self._bearer = None if token is None else b"Bearer " + token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass on the start or the end of the process."""
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
        except RequestError as refused:
            await send_refusal(guarded, refused)
        except Exception:
            LOG.exception("a request to %s failed", route)
            if status == 0:
                await send_refusal(guarded, RequestError(500, FAULT))
        finally:
            service.working -= works
            service.metrics.add("in_flight", -1)
            service.metrics.answered(route, status, time.perf_counter() - began)

    def _check(self, scope: Scope, route: str, works: bool) -> None:
        """Refuse requests without the token, and more requests at once than the limit."""
        if self._bearer is not None and route not in OPEN:
            given = [value for name, value in scope["headers"] if name == b"authorization"]
            if len(given) != 1 or not hmac.compare_digest(given[0], self._bearer):
                raise RequestError(
                    401, "this service needs a token; send it as 'Authorization: Bearer TOKEN'"
                )
        most = self.service.settings.limits.max_waiting
        if works and self.service.working > most:
            raise RequestError(
                503, f"{most} requests are being answered already; try again shortly"
            )


def route_of(path: str) -> str:
    """The path's name in the metrics."""
    if path in ROUTES:
        return path
    return "/page" if path.startswith("/page/") else "other"


async def send_refusal(send: Send, refused: RequestError) -> None:
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
        raise RequestError(
            415, "the content type is not JSON; send 'Content-Type: application/json'"
        )
    try:
        async with asyncio.timeout(limits.timeout):
            return await _within(receive, limits.max_body)
    except TimeoutError:
        raise RequestError(
            408, f"the body did not arrive within {limits.timeout:g} s; send it faster, or less"
        ) from None


async def _within(receive: Receive, most: int) -> bytes:
    chunks: list[bytes] = []
    size, more = 0, True
    while more and size <= PATIENCE * most:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestError(400, "the connection ended before the body did; send it again")
        chunk = message.get("body", b"")
        size += len(chunk)
        chunks.append(chunk)
        more = message.get("more_body", False)
        if size > most:
            chunks.clear()
    if size > most:
        raise RequestError(
            413, f"the body is larger than {most:,} bytes; send fewer sets at a time"
        )
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


REFUSALS = {
    "400": "A value that the model cannot take, or a body that is not JSON.",
    "401": "The token is missing or wrong.",
    "408": "The body did not arrive in time.",
    "413": "A body, a number of sets or of items above the limits.",
    "415": "Not of the content type application/json.",
    "422": "JSON of another shape.",
    "503": "Too busy, or out of time.",
}


def _json(reference: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{reference}"}}}


def _refusals(*statuses: str) -> dict[str, Any]:
    return {
        status: {"description": REFUSALS[status], "content": _json("ErrorBody")}
        for status in statuses
    }


def _asked(what: str, body: dict[str, Any], answer: str) -> dict[str, Any]:
    return {
        "summary": what,
        "requestBody": {"required": True, "content": body},
        "responses": {"200": {"description": "The answer.", "content": _json(answer)}}
        | _refusals(*REFUSALS),
    }


_ONE_OR_MANY = {
    "application/json": {
        "schema": {
            "oneOf": [
                {"$ref": "#/components/schemas/OneSet"},
                {"$ref": "#/components/schemas/ManySets"},
            ]
        }
    }
}
ASKS = {
    "/v1/predict": _asked(
        "The probability of every item of every set, and the most probable one.",
        _ONE_OR_MANY, "Answers",
    ),
    "/v1/explain": _asked(
        "What becomes of a set when each of its items is taken away, and what IIA would allow.",
        _json("OneSet"), "Explained",
    ),
}  # fmt: skip
MODEL = {
    "responses": {
        "200": {
            "description": "The model in service.",
            "content": {"application/json": {"schema": {"type": "object"}}},
        }
    }
    | _refusals("401")
}
TEXT = {
    "responses": {
        "200": {
            "description": "One or several lines.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
    }
    | _refusals("401", "503")
}


def document(app: FastAPI, form: RequestFormat) -> bytes:
    """The OpenAPI description in JSON: the app's routes, and the bodies that a model takes."""
    plain = get_openapi(
        title=app.title, version=app.version, routes=app.routes,
        description="Probabilities of choice from sets of items.",
    )  # fmt: skip
    plain["paths"] |= {path: {"post": asked} for path, asked in ASKS.items()}
    types = (form.one_set, form.many_sets, Answers, Explained, ErrorBody)
    _, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    plain["components"] = {
        "schemas": schemas,
        "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
    }
    plain["security"] = [{}, {"bearer": []}]
    return msgspec.json.encode(plain)


PAGE = Path(__file__).parent / "page"
NOT_KEPT = {"cache-control": "no-store"}


def application(service: Service) -> Guard:
    """The ASGI application of a service."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watch = asyncio.create_task(service.watch())
        yield
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
        service.close()

    # FastAPI's own pages of docs load scripts from other servers, so there are none.
    app = FastAPI(
        title="setwise", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        openapi_url=None, redirect_slashes=False,
        exception_handlers={RequestError: _refused, HTTPException: _no_route, Exception: _failed},
    )  # fmt: skip
    _answers(app, service)
    _state(app, service)
    _page(app)
    return Guard(app, service)


class AnswerRoute:
    """An ASGI application for one route of predictions, without the overhead of FastAPI."""

    def __init__(self, service: Service, rows: Callable[[ParsedRequest], int], work: Work):
        self.service, self.rows, self.work = service, rows, work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        limits = self.service.settings.limits
        deadline = Deadline.after(limits.timeout)
        body = await read_body(scope, receive, limits)
        done = await self.service.answer(body, self.rows, self.work, deadline)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(done)).encode()),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": done})


def _answers(app: FastAPI, service: Service) -> None:
    predict = AnswerRoute(service, _rows, ServedModel.predict)
    explain = AnswerRoute(service, _pairs, ServedModel.explain)
    app.router.routes += [
        Route("/v1/predict", predict, methods=["POST"]),
        Route("/v1/explain", explain, methods=["POST"]),
    ]

    @app.get("/v1/model", response_class=Response, openapi_extra=MODEL)
    async def model() -> Response:
        """The model in service: its columns, limits, and example sets."""
        return Response(service.served.about, media_type="application/json", headers=NOT_KEPT)


def _rows(asked: ParsedRequest) -> int:
    return asked.rows


def _pairs(asked: ParsedRequest) -> int:
    return asked.rows**2


def _state(app: FastAPI, service: Service) -> None:
    described: WeakKeyDictionary[ServedModel, bytes] = WeakKeyDictionary()

    @app.get("/healthz", response_class=Response, openapi_extra=TEXT)
    async def healthz() -> Response:
        """Whether the process is up."""
        return Response("ok\n", media_type="text/plain", headers=NOT_KEPT)

    @app.get("/readyz", response_class=Response, openapi_extra=TEXT)
    async def readyz() -> Response:
        """Whether to send requests here: not while the process is ending."""
        if service.draining:
            raise RequestError(503, "the service is ending; send requests elsewhere")
        return Response("ready\n", media_type="text/plain", headers=NOT_KEPT)

    @app.get("/metrics", response_class=Response, openapi_extra=TEXT)
    async def metrics() -> Response:
        """Counts and times for Prometheus."""
        kind = "text/plain; version=0.0.4"
        return Response(service.metrics.text(), media_type=kind, headers=NOT_KEPT)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        served = service.served
        if served not in described:
            described[served] = document(app, served.form)
        return Response(described[served], media_type="application/json", headers=NOT_KEPT)


def _page(app: FastAPI) -> None:
    app.mount("/page", StaticFiles(directory=PAGE))

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html", headers={"cache-control": "no-cache"})


async def _refused(_: Request, refused: Any) -> Response:
    return Response(refused.body(), refused.status, refused.headers())


async def _failed(_: Request, error: Exception) -> Response:
    """Answer without details; the error goes on to the guard, which logs it."""
    return await _refused(_, RequestError(500, FAULT))


async def _no_route(_: Request, error: Any) -> Response:
    """Answer a request to an unknown path, or with a method that the path does not have."""
    message = {
        404: "there is nothing at this path; the service's paths are in /openapi.json",
        405: "this path does not take this method; its paths and methods are in /openapi.json",
    }.get(error.status_code, str(error.detail))
    refused = RequestError(error.status_code, message)
    headers = refused.headers() | dict(error.headers or {})
    return Response(refused.body(), refused.status, headers)
