"""The OpenAPI description of the service, with the columns of the model that it serves."""

from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from setwise.server.answers import Answers, Explained
from setwise.server.forms import Form
from setwise.server.refusals import ErrorBody

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
