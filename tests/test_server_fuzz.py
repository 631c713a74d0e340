"""Requests made from the OpenAPI description, right and wrong: only answers and refusals come."""

import random
from collections import Counter
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import setwise as sw
from serving import Direct, read_trips, trips
from setwise.choices.reading import records

# schemathesis draws some of what it generates from Python's own generator.
pytestmark = pytest.mark.filterwarnings(
    "ignore::hypothesis.errors.HypothesisDeprecationWarning", "ignore:.*non-reproducible"
)

CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance,
    response_schema_conformance,
]  # fmt: skip
PATHS = ("/v1/predict", "/v1/explain")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """Every kind of column, context and an outside option."""
    choices = read_trips(trips())
    path = tmp_path_factory.mktemp("served") / "trips.setwise"
    sw.MNL().fit(choices).save(path, sample=choices)
    return path


@pytest.fixture(scope="module")
def client(model):
    # The limits are in the description: small ones keep what is generated small.
    found = Direct(
        model, limits={"max_sets": 3, "max_items": 3}, allowed_hosts=("localhost", "testserver")
    )
    yield found
    found.close()


def fuzz(client: Direct, cases: int) -> Counter[int]:
    """So many requests of each kind to each path; the statuses that came."""
    random.seed(0)
    schema = schemathesis.openapi.from_asgi("/openapi.json", client.app)
    good = records(read_trips(trips(1, seed=1)))[0]
    expected = client.predict(good).body
    statuses: Counter[int] = Counter()
    for path in PATHS:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            @settings(
                max_examples=cases, deadline=None, database=None, derandomize=True,
                suppress_health_check=list(HealthCheck),
            )  # fmt: skip
            @given(case=schema[path]["POST"].as_strategy(generation_mode=mode))
            def ask(case: schemathesis.Case) -> None:
                got = case.call()
                statuses[got.status_code] += 1
                case.validate_response(got, checks=CHECKS)

            ask()
            assert client.predict(good).body == expected
    return statuses


def test_generated_requests_get_answers_or_refusals(client):
    statuses = fuzz(client, 120)  # some 14 are answered; none by chance once in a million
    assert statuses[200] > 0
    assert statuses[422] > 0
    assert set(statuses) <= {200, 400, 413, 415, 422}


@pytest.mark.slow
def test_ten_thousand_generated_requests_get_answers_or_refusals(client):
    statuses = fuzz(client, 2_500)
    assert statuses.total() >= 10_000
    assert set(statuses) <= {200, 400, 413, 415, 422}


def test_a_request_made_from_the_description_can_be_right(client):
    """What the description allows and the model refuses would show here as a lack of answers."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", client.app)
    sample = client.get("/v1/model").json["samples"][0]
    case = schema["/v1/predict"]["POST"].Case(body=sample | {"items": sample["items"][:3]})
    assert case.call().status_code == 200
