"""``/v1/decide``: the items to show are those of sw.decide.assortment; every refusal says why."""

import asyncio
import json
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import setwise as sw
from serving import Direct, asked, read_trips, trips
from setwise.choices.reading import records
from setwise.decide import assortment
from setwise.scoring.scorer import load_scorer
from setwise.server.settings import DECIDED_ITEMS


@pytest.fixture(scope="module")
def rich(tmp_path_factory) -> SimpleNamespace:
    """Every kind of column, context and an outside option, and a model that breaks IIA."""
    choices = read_trips(trips(seed=0))
    path = tmp_path_factory.mktemp("decide") / "rich.setwise"
    sw.LinearContextLogit(l2=1.0).fit(choices).save(path)
    client = Direct(path)
    yield SimpleNamespace(choices=choices, path=path, client=client, scorer=load_scorer(path))
    client.close()


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> SimpleNamespace:
    """Two numbers per item, and no outside option."""
    choices = sw.datasets.generate("mnl", sets=200, items=5, features=2, seed=0).choices
    path = tmp_path_factory.mktemp("decide") / "plain.setwise"
    sw.LinearContextLogit().fit(choices).save(path)
    client = Direct(path)
    yield SimpleNamespace(choices=choices, path=path, client=client, scorer=load_scorer(path))
    client.close()


def decide(of: SimpleNamespace, one: dict, **what):
    return of.client.post("/v1/decide", one | what)


def table(seed: int) -> sw.Choices:
    return read_trips(trips(1, seed=seed))


LIMITS = [
    {"value": "stars"},
    {"value": [3.0, 1.0, 2.0, 5.0], "at_least": 2},
    {"value": "stars", "at_most": 2, "must": [1]},
    {"value": "cost", "exclusive": [[0, 1], [2, 3, 0]], "at_least": 0},
    {"value": "stars", "capacity": {"cost": 45.0, "stars": 9}, "seed": 3},
]


@pytest.mark.parametrize("what", LIMITS, ids=range(len(LIMITS)))
def test_answers_are_those_of_the_library(rich, what):
    choices = next(one for one in map(table, range(2, 20)) if one.sizes[0] == 4)
    given = dict(what)
    if "must" in given:
        given["must"] = np.isin(np.arange(4), given["must"])
    known = assortment(rich.scorer, choices, **given)
    got = decide(rich, records(choices)[0], **what).json
    assert got["show"] == np.flatnonzero(known.shown).tolist()
    assert got["probabilities"] == pytest.approx(known.probability.tolist(), abs=1e-6)
    assert got["outside"] == pytest.approx(1 - known.probability.sum(), abs=1e-6)
    assert got["now"] == pytest.approx(known.everything[0], rel=1e-5)
    assert got["after"] == pytest.approx(known.expected[0], rel=1e-5)
    assert got["bound"] == pytest.approx(known.bound[0], rel=1e-5)
    assert (got["proved"], got["method"]) == (bool(known.proved[0]), known.method)


def test_what_is_not_proved_says_so(plain):
    rng = np.random.default_rng(0)
    items = [{"x0": float(one), "x1": float(other)} for one, other in rng.normal(size=(30, 2))]
    value = np.round(rng.uniform(10, 20, 30)).tolist()
    got = decide(plain, {"items": items}, value=value, at_least=4, at_most=6).json
    assert (got["proved"], got["method"]) == (False, "search")
    assert got["now"] < got["after"] < got["bound"] == max(value)
    assert 4 <= len(got["show"]) <= 6
    assert sum(got["probabilities"]) == pytest.approx(1, abs=1e-5)
    assert "outside" not in got


def test_what_is_shown_now_may_be_some_of_the_items(rich, plain):
    for of, choices in ((rich, table(5)), (plain, plain.choices.take(np.arange(1)))):
        one = records(choices)[0]
        value = np.arange(1.0, len(one["items"]) + 1).tolist()
        fewer = one | {"items": one["items"][:2]}
        known = of.client.predict(fewer).json["sets"][0]["probabilities"]
        got = decide(of, one, value=value, shown=[1, 0]).json
        assert got["now"] == pytest.approx(np.dot(known, value[:2]), rel=1e-5)
    assert decide(rich, records(table(5))[0], value="stars", shown=[]).json["now"] == 0
    refused = decide(plain, records(plain.choices)[0], value="x0", shown=[])
    assert (refused.status, refused.error["where"]) == (422, "shown")


def test_each_model_decides_for_itself(rich, plain):
    client = Direct(rich.path, others=(plain.path,))
    one = records(plain.choices)[0]
    assert client.post("/v1/decide", one | {"value": "x0"}).status == 422
    found = client.post("/v1/models/plain/decide", one | {"value": "x0"})
    assert found.json == decide(plain, one, value="x0").json
    text = client.get("/metrics").body.decode()
    assert 'setwise_requests_total{route="/v1/decide",model="plain",status="200"} 1' in text
    assert 'setwise_requests_total{route="/v1/decide",model="rich",status="422"} 1' in text
    client.close()


REFUSED = [
    ({}, 422, "value", "'value' is missing; add it"),
    ({"value": 3}, 422, "value", "give a column's name or a list of numbers"),
    ({"value": "x9"}, 400, "value", "names the column 'x9', which the model does not have"),
    ({"value": [1.0]}, 422, "value", "has 1 numbers, and the set has 5 items"),
    ({"value": []}, 422, "value", "is empty; give at least one"),
    ({"at_most": 0}, 400, "at_most", "'at_most' is 0; it must be a whole number of at least 1"),
    ({"at_most": 2.5}, 422, "at_most", "is a number; give a whole number or null"),
    ({"at_least": 0}, 400, "at_least", "at least 1"),
    ({"at_least": 6}, 400, "at_least", "it has fewer candidates than 'at_least'; loosen them"),
    ({"at_least": 4, "at_most": 3}, 400, "at_least", "'at_least' is above 'at_most'"),
    ({"must": [5]}, 400, "must[0]", "5 in 'must' is not an item of the set"),
    ({"must": [-1]}, 400, "must[0]", "items have numbers from 0 to 4"),
    ({"must": [0, 1], "at_most": 1}, 400, "must", "names more items than 'at_most' allows"),
    ({"must": [0, 1], "exclusive": [[0, 1]]}, 400, "must", "two items that exclude each other"),
    ({"exclusive": [[0, 7]]}, 400, "exclusive[0][1]", "7 in 'exclusive[0]' is not an item"),
    ({"exclusive": [[]]}, 422, "exclusive[0]", "is empty"),
    ({"exclusive": [0]}, 422, "exclusive[0]", "is a whole number; give a list"),
    ({"exclusive": [[0, 1]] * 1001}, 413, "exclusive", "takes at most 1,000"),
    ({"exclusive": [[0, 1, 2, 3, 4]], "at_least": 2}, 400, None, "no set meets the limits"),
    ({"capacity": {"width": 3}}, 400, "capacity", "names the column 'width'"),
    ({"capacity": {"x0": -1}}, 400, "capacity", "at least 0"),
    ({"capacity": {"x0": "a lot"}}, 422, "capacity[...]", "is text; give a number"),
    ({"capacity": {"x0": 3}}, 400, "capacity", "column 'x0' of 'capacity' is negative at item"),
    ({"shown": [9]}, 400, "shown[0]", "9 in 'shown' is not an item"),
    ({"seed": -1}, 400, "seed", "whole number"),
    ({"members": True}, 422, "members", "a decision also needs 'value'"),
    ({"items": []}, 422, "items", "is empty"),
    ({"items": [{"x0": 1.0, "x1": 1e30}]}, 400, "items[0].x1", "too far from the training data"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "status", "where", "said"), REFUSED, ids=range(len(REFUSED)))
def test_each_refusal_says_what_and_where(plain, what, status, where, said):
    items = records(plain.choices)[0]["items"]
    value = {} if what == {} else {"value": [1.0] * len(what.get("items", items))}
    got = decide(plain, {"items": items}, **(value | what))
    assert (got.status, got.error["where"]) == (status, where), got.error
    assert said in got.error["message"]
    assert "=" not in got.error["message"]  # no argument of Python's


def test_there_are_limits_on_items_and_on_time(plain):
    items = records(plain.choices)[0]["items"] * 25
    got = decide(plain, {"items": items}, value="x0")
    assert (got.status, got.error["where"]) == (413, "items")
    assert f"takes at most {DECIDED_ITEMS}" in got.error["message"]
    hasty = Direct(plain.path, limits={"timeout": 0.05, "max_items": 60})
    assert hasty.get("/v1/model").json["limits"]["max_decided"] == 60
    ask = {"items": items[:60], "value": "x1", "at_least": 20, "at_most": 40}
    got = hasty.post("/v1/decide", ask)
    assert got.status == 503
    assert "longer than 0.05 s" in got.error["message"]
    hasty.close()


def test_a_search_keeps_nobody_waiting(plain, monkeypatch):
    """While it searches, in a thread, others are answered."""
    began, may_end = threading.Event(), threading.Event()

    def slow(*given, **more):
        began.set()
        assert may_end.wait(20)
        return assortment(*given, **more)

    monkeypatch.setattr("setwise.server.deciding.assortment", slow)
    one = records(plain.choices)[0]

    def scope(path):
        return {
            "type": "http", "method": "POST", "path": path, "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        }  # fmt: skip

    async def both():
        body = json.dumps(one | {"value": "x0"}).encode()
        search = asyncio.create_task(asked(plain.client.app, scope("/v1/decide"), [body]))
        await asyncio.to_thread(began.wait, 20)
        other = await asked(plain.client.app, scope("/v1/predict"), [json.dumps(one).encode()])
        is_searching = not search.done()
        may_end.set()
        return other.status, is_searching, (await search).status

    assert plain.client.runner.run(both()) == (200, True, 200)


def test_the_description_has_the_real_limits(plain):
    client = Direct(plain.path, limits={"max_items": 7})
    described = client.get("/openapi.json").json
    client.close()
    for path in ("/v1/decide", "/v1/models/plain/decide"):
        post = described["paths"][path]["post"]
        body = post["requestBody"]["content"]["application/json"]["schema"]
        assert body == {"$ref": "#/components/schemas/DecidedSet"}
        assert "413" in post["responses"]
    fields = described["components"]["schemas"]["DecidedSet"]
    assert fields["required"] == ["items", "value"]
    assert fields["properties"]["items"]["maxItems"] == 7
    assert fields["properties"]["must"]["items"] == {"type": "integer", "minimum": 0, "maximum": 6}
    answer = described["components"]["schemas"]["Decided"]["properties"]
    assert {"show", "now", "after", "bound", "proved"} <= set(answer)


def test_deciding_needs_no_other_room_at_the_start():
    script = (
        "import sys, setwise.server\n"
        "print([one for one in ('jax', 'scipy', 'polars') if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
