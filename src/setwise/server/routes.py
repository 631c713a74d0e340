"""What a service answers at which path: predictions, what it tells of itself, and the page."""

import hashlib
import mimetypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from setwise.server.metrics import Series
from setwise.server.openapi import document
from setwise.server.requests import ParsedRequest, RequestError
from setwise.server.service import SMALL_ROWS, ServedModel, Service, Work
from setwise.server.tensors import SERVER

PAGE = Path(__file__).parent / "page"

JSON = b"application/json"
NOT_KEPT = (b"cache-control", b"no-store")
REVALIDATE = (b"cache-control", b"no-cache")  # a new version of setwise brings a new page


class Reply(NamedTuple):
    """A body and what is said of it."""

    body: bytes
    kind: bytes = JSON
    keep: tuple[bytes, bytes] = NOT_KEPT
    tag: bytes = b""
    """The ETag of a file: a client that has it already need not get it again."""
    status: int = 200


@dataclass(frozen=True)
class Route:
    """A path: how it is counted, who may ask, and what answers."""

    series: Series
    answer: Work | Callable[[], Reply] | None
    """A kind of work takes a POST, a function a GET."""
    needs_token: bool = True
    any_host: bool = False
    """Whether probes may ask by any name of the machine: the answer tells nothing."""
    tensors: bool = False
    """Whether errors are those of the Open Inference Protocol."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that it takes."""
        return ("POST",) if isinstance(self.answer, Work) else ("GET", "HEAD")


def nowhere(path: str) -> Route:
    """What answers at all other paths."""
    return Route(Series("other"), None, tensors=path.startswith("/v2/"))


def routes(service: Service) -> dict[str, Route]:
    """All paths of a service."""
    default = service.settings.names[0]
    found = {
        "/v1/predict": _work("/v1/predict", default, PREDICT),
        "/v1/explain": _work("/v1/explain", default, EXPLAIN),
        "/v1/decide": _work("/v1/decide", default, DECIDE),
        "/v1/model": Route(Series("/v1/model", default), lambda: _json(service.served.about)),
        "/v1/models": Route(Series("/v1/models"), lambda: _json(_models(service))),
        "/metrics": Route(Series("/metrics"), lambda: _text(service.metrics.text().encode())),
        "/openapi.json": Route(Series("/openapi.json"), lambda: _openapi(service)),
        "/healthz": _probe("/healthz", lambda: _text(b"ok\n")),
        "/readyz": _probe("/readyz", lambda: _readiness(service)),
        "/v2": Route(Series("/v2"), lambda: _json(SERVER), tensors=True),
        "/v2/health/live": _probe("/v2/health/live", lambda: _json({"live": True}), tensors=True),
        "/v2/health/ready": _probe(
            "/v2/health/ready",
            lambda: _json({"ready": not service.draining}, 503 if service.draining else 200),
            tensors=True,
        ),
    }
    for name in service.settings.names:
        found |= _of_model(service, name)
    return found | dict(_page())


def _of_model(service: Service, name: str) -> dict[str, Route]:
    def ready() -> Reply:
        status = 503 if service.draining else 200
        return _json({"name": name, "ready": not service.draining}, status)

    metadata = Series("/v2/models", name)
    return {
        f"/v1/models/{name}": Route(
            Series("/v1/model", name), lambda: _json(service.models[name].about)
        ),
        f"/v1/models/{name}/predict": _work("/v1/predict", name, PREDICT),
        f"/v1/models/{name}/explain": _work("/v1/explain", name, EXPLAIN),
        f"/v1/models/{name}/decide": _work("/v1/decide", name, DECIDE),
        f"/v2/models/{name}": Route(
            metadata, lambda: _json(service.models[name].tensors.about(name)), tensors=True
        ),
        f"/v2/models/{name}/ready": Route(metadata, ready, tensors=True),
        f"/v2/models/{name}/infer": _work("/v2/infer", name, INFER, tensors=True),
    }


def _work(route: str, name: str, work: Work, tensors: bool = False) -> Route:
    return Route(Series(route, name), work, tensors=tensors)


def _probe(path: str, answer: Callable[[], Reply], tensors: bool = False) -> Route:
    return Route(Series(path), answer, needs_token=False, any_host=True, tensors=tensors)


def _page() -> Iterator[tuple[str, Route]]:
    """The page's files, which are read once: no path of a request is ever opened."""
    for file in PAGE.rglob("*"):
        if not file.is_file():
            continue
        path = f"/page/{file.relative_to(PAGE).as_posix()}"
        body = file.read_bytes()
        kind = mimetypes.guess_type(file.name)[0] or "text/plain"
        named = f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
        tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'.encode()
        told = partial(Reply, body, named.encode(), REVALIDATE, tag)
        yield path, Route(Series("/page"), told, needs_token=False)
        if path == "/page/index.html":
            yield "/", Route(Series("/"), told, needs_token=False)


def _rows(asked: ParsedRequest) -> int:
    return asked.rows


def _pairs(asked: ParsedRequest) -> int:
    return asked.rows**2


def _sets(asked: ParsedRequest) -> int:
    return SMALL_ROWS + 1  # a search scores many sets, which others should not wait for


PREDICT = Work(ServedModel.read, _rows, ServedModel.predict)
EXPLAIN = Work(ServedModel.read_one, _pairs, ServedModel.explain)
DECIDE = Work(ServedModel.read_decision, _sets, ServedModel.decide)
INFER = Work(ServedModel.read_tensors, _rows, ServedModel.infer)


def _json(plain: Any, status: int = 200) -> Reply:
    return Reply(msgspec.json.encode(plain), status=status)


def _text(body: bytes) -> Reply:
    return Reply(body, b"text/plain; version=0.0.4; charset=utf-8")


def _models(service: Service) -> dict[str, Any]:
    keys = ("name", "estimator", "card", "checksum", "loaded")
    models = service.models.values()
    return {"models": [{key: one.about[key] for key in keys} for one in models]}


def _readiness(service: Service) -> Reply:
    if service.draining:
        raise RequestError(503, "the service is ending; send requests elsewhere")
    return _text(b"ready\n")


def _openapi(service: Service) -> Reply:
    served = service.served
    return Reply(document(served.form, served.decisions, service.settings.names))
