"""The routes of the service, and their OpenAPI description with the columns of the model."""

import asyncio
from collections.abc import AsyncIterator, Callable
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
from setwise.server.guard import FAULT, Guard, Receive, Scope, Send, read_body
from setwise.server.requests import Asked, ErrorBody, Form, Refused
from setwise.server.service import ServedModel, Service, Work

REFUSALS = {
    "400": "A value that the model cannot take, or a body that is no JSON.",
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


def document(app: FastAPI, form: Form) -> bytes:
    """The description in JSON: the routes of the app, the bodies of a model's form."""
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
        exception_handlers={Refused: _refused, HTTPException: _no_route, Exception: _failed},
    )  # fmt: skip
    _answers(app, service)
    _state(app, service)
    _page(app)
    return Guard(app, service)


class Answering:
    """An ASGI application that answers one kind of question; the way there is kept short."""

    def __init__(self, service: Service, rows: Callable[[Asked], int], work: Work):
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
    predict = Answering(service, _rows, ServedModel.predict)
    explain = Answering(service, _pairs, ServedModel.explain)
    app.router.routes += [
        Route("/v1/predict", predict, methods=["POST"]),
        Route("/v1/explain", explain, methods=["POST"]),
    ]

    @app.get("/v1/model", response_class=Response, openapi_extra=MODEL)
    async def model() -> Response:
        """The model in service: its columns, limits, and example sets."""
        return Response(service.served.about, media_type="application/json", headers=NOT_KEPT)


def _rows(asked: Asked) -> int:
    return asked.rows


def _pairs(asked: Asked) -> int:
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
            raise Refused(503, "the service is ending; send requests elsewhere")
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
    """Tell nothing of the inside; the error goes on to the guard, which logs it."""
    return await _refused(_, Refused(500, FAULT))


async def _no_route(_: Request, error: Any) -> Response:
    """No such path, or not with this method."""
    message = {
        404: "there is nothing at this path; the service's paths are in /openapi.json",
        405: "this path does not take this method; its paths and methods are in /openapi.json",
    }.get(error.status_code, str(error.detail))
    refused = Refused(error.status_code, message)
    headers = refused.headers() | dict(error.headers or {})
    return Response(refused.body(), refused.status, headers)
