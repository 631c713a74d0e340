"""The OpenAPI description of a service: its routes, and the bodies that a model takes."""

from typing import Any

import msgspec

from setwise import __version__
from setwise.server.answers import Answers, Explained
from setwise.server.deciding import Decided, Decisions
from setwise.server.requests import ErrorBody, RequestFormat
from setwise.server.tensors import InferenceAnswer, InferenceError, InferenceRequest

REFUSALS = {
    "400": "A value that the model cannot take, or a body that is not JSON.",
    "401": "The token is missing or wrong.",
    "408": "The body did not arrive in time.",
    "413": "A body, a number of sets or of items above the limits.",
    "415": "Not of the content type application/json.",
    "421": "A host that this service does not answer for.",
    "422": "JSON of another shape.",
    "503": "Too busy, or out of time.",
}
PREDICT = "The probability of every item of every set, and the most probable one."
EXPLAIN = "What becomes of a set when each of its items is taken away, and what IIA would allow."

DECIDE = "Which items of a set to show so that they earn most, and what is proved of it."


def document(form: RequestFormat, decisions: Decisions, names: tuple[str, ...]) -> bytes:
    """The description in JSON: the default model's columns, and the routes of every model."""
    types = (
        form.one_set, form.many_sets, form.explained, decisions.described, Answers, Explained,
        Decided, ErrorBody,
        InferenceRequest, InferenceAnswer, InferenceError,
    )  # fmt: skip
    _, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schemas["OneOrMany"] = {"oneOf": [_schema("OneSet"), _schema("ManySets")]}
    predict = _asked(PREDICT, "OneOrMany", "Answers")
    explain = _asked(EXPLAIN, "ExplainedSet", "Explained")
    decide = _asked(DECIDE, "DecidedSet", "Decided")
    about = _told("The model in service: columns, limits, example sets, and where it comes from.")
    of_models: dict[str, Any] = {
        "/v1/models": _told("The models in service; the first one is the default."),
        "/v1/predict": predict,
        "/v1/explain": explain,
        "/v1/decide": decide,
        "/v1/model": about,
    }
    for name in names:
        of_models[f"/v2/models/{name}"] = _told(f"The tensors that '{name}' takes and gives.")
        of_models[f"/v2/models/{name}/ready"] = _told(f"Whether '{name}' takes requests.")
        infer = _asked("The probability of every row.", "InferenceRequest", "InferenceAnswer")
        for refusal in REFUSALS.keys() & infer["post"]["responses"]:
            infer["post"]["responses"][refusal]["content"] = _json("InferenceError")
        of_models[f"/v2/models/{name}/infer"] = infer
    if len(names) > 1:  # the bodies of other models have their own columns
        for name in names:
            of_models[f"/v1/models/{name}"] = about
    else:
        of_models |= {
            f"/v1/models/{names[0]}": about,
            f"/v1/models/{names[0]}/predict": predict,
            f"/v1/models/{names[0]}/explain": explain,
            f"/v1/models/{names[0]}/decide": decide,
        }
    return msgspec.json.encode({
        "openapi": "3.1.0",
        "info": {
            "title": "setwise", "version": __version__,
            "description": "Probabilities of choice from sets of items.",
        },
        "paths": of_models | {
            "/v2": _told("The server's name and version."),
            "/v2/health/live": _told("Whether the process is up."),
            "/v2/health/ready": _told("Whether to send requests here."),
            "/healthz": _text("Whether the process is up."),
            "/readyz": _text("Whether to send requests here: not while the process is ending."),
            "/metrics": _text("Counts and times for Prometheus."),
        },
        "components": {
            "schemas": schemas, "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}
        },
        "security": [{}, {"bearer": []}],
    })  # fmt: skip


def _schema(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": _schema(name)}}


def _refusals(*statuses: str) -> dict[str, Any]:
    return {
        status: {"description": REFUSALS[status], "content": _json("ErrorBody")}
        for status in statuses
    }


def _asked(what: str, body: str, answer: str) -> dict[str, Any]:
    answers = {"200": {"description": "The answer.", "content": _json(answer)}}
    return {"post": {
        "summary": what,
        "requestBody": {"required": True, "content": _json(body)},
        "responses": answers | _refusals(*REFUSALS),
    }}  # fmt: skip


def _told(what: str) -> dict[str, Any]:
    kind = {"application/json": {"schema": {"type": "object"}}}
    answers = {"200": {"description": what, "content": kind}}
    return {"get": {"summary": what, "responses": answers | _refusals("401", "421", "503")}}


def _text(what: str) -> dict[str, Any]:
    kind = {"text/plain": {"schema": {"type": "string"}}}
    answers = {"200": {"description": what, "content": kind}}
    return {"get": {"summary": what, "responses": answers | _refusals("401", "421", "503")}}
