"""docs/serving.md: what it shows is what the service answers."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import setwise as sw
from serving import Direct

PAGE = (Path(__file__).parent.parent / "docs" / "serving.md").read_text("utf-8")
SHOWN = re.findall(
    r"^curl http://127\.0\.0\.1:8000(\S+) -H 'Content-Type: application/json' "
    r"-d '([^']*)'\n\n(\{.*\})$",
    PAGE,
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """The model of the page's first commands."""
    assert "setwise fit swissmetro --model mnl_within_set --out trips.setwise" in PAGE
    path = tmp_path_factory.mktemp("served") / "trips.setwise"
    sw.WithinSetMNL().fit(sw.datasets.load("swissmetro")).save(path)
    found = Direct(path)
    yield found
    found.close()


def close(one: Any, other: Any) -> Any:
    """The first value, where numbers of the other differ from its numbers by rounding alone."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return {name: close(one[name], other[name]) for name in one}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [close(*pair) for pair in zip(one, other, strict=True)]
    both = isinstance(one, float) and isinstance(other, float)
    return one if both and abs(one - other) < 1e-5 else other


def test_the_page_shows_each_kind_of_request():
    paths = [path for path, _, _ in SHOWN]
    assert paths == [
        "/v1/predict",
        "/v1/explain",
        "/v1/decide",
        "/v2/models/trips/infer",
        "/v1/predict",
    ]


@pytest.mark.parametrize("shown", SHOWN, ids=range(len(SHOWN)))
def test_answers_are_those_of_the_page(client, shown):
    path, body, answer = shown
    got = client.post(path, body.encode()).json
    assert close(json.loads(answer), got) == json.loads(answer)


def test_a_wrong_answer_would_be_seen():
    assert close({"a": [0.5, 1]}, {"a": [0.500001, 1]}) == {"a": [0.5, 1]}
    for wrong in ({"a": [0.51, 1]}, {"a": [0.5]}, {"b": [0.5, 1]}, {"a": [0.5, 2]}):
        assert close({"a": [0.5, 1]}, wrong) != {"a": [0.5, 1]}


def test_paths_of_the_page_exist(client):
    named = set(re.findall(r"`(/(?:v1|v2|healthz|readyz|metrics|openapi)[\w/.-]*)`", PAGE))
    known = {path.replace("hotels", "trips") for path in named if not path.endswith("...")}
    assert len(known) > 12
    assert known - set(client.app.routes) == set()


def test_metrics_of_the_page_are_those_of_the_service(client):
    rows = re.findall(r"^\| (`setwise_.*?) \|", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)", row)}
    text = client.get("/metrics").body.decode()
    assert named == set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
