"""The service answers as the model does, refuses what it must, and says why; without a network."""

import asyncio
import json
import re
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import setwise as sw
from serving import Direct, Got, asked, read_trips, trips
from setwise._errors import InputError
from setwise.choices.reading import records
from setwise.server import Limits, Settings
from setwise.server.answers import Deadline
from setwise.server.metrics import EVENTS, Series, ServiceMetrics, counters
from setwise.server.service import SMALL_BODY

GOOD = {"items": [{"x0": 1.0, "x1": 0.5}, {"x0": -1, "x1": 2}, {"x0": 0.25, "x1": -0.5}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def plain(folder) -> SimpleNamespace:
    """Two numbers an item, a model that breaks IIA, and an MNL beside it."""
    choices = sw.datasets.generate("mnl", sets=300, items=3, features=2, seed=0).choices
    model = sw.LinearContextLogit().fit(choices)
    mnl = sw.MNL().fit(choices)
    path, other = folder / "plain.setwise", folder / "mnl.setwise"
    model.save(path, sample=choices, reference=sw.estimators.reference_mnl(model, choices))
    mnl.save(other)
    return SimpleNamespace(choices=choices, model=model, mnl=mnl, path=path, other=other)


@pytest.fixture(scope="module")
def client(plain):
    found = Direct(plain.path, limits={"max_sets": 50, "max_items": 40, "max_body": 200_000})
    yield found
    found.close()


@pytest.fixture(scope="module")
def rich(folder) -> SimpleNamespace:
    """Every kind of column, context and an outside option."""
    choices = read_trips(trips(seed=0))
    model = sw.SDA.paper(dimension=2, hidden=4)  # as it is before training: that takes long
    model.schema_ = sw.Schema.fit(choices)
    model.model_ = model.blueprint.initial(model.schema_.width, model.sizes(), jnp.uint32(0))
    model.history_, model.best_epoch_, model.interrupted_ = [], 0, False
    model.weights_ = [1.0]
    path = folder / "rich.setwise"
    model.save(path, sample=choices, reference=sw.estimators.reference_mnl(model, choices))
    found = Direct(path)
    yield SimpleNamespace(choices=choices, model=model, path=path, client=found)
    found.close()


# Answers


def test_answers_are_the_models(rich):
    table = trips(40, seed=1)
    new = read_trips(table)
    got = rich.client.predict({"sets": records(new)})
    assert got.status == 200, got.body
    sets = got.json["sets"]
    flat = np.concatenate([one["probabilities"] for one in sets])
    np.testing.assert_allclose(flat, rich.model.predict_proba(new), atol=1e-5)
    took = rich.model.predict(new)
    for number, one in enumerate(sets):
        begin, end = new.offsets[number : number + 2]
        assert one["outside"] == pytest.approx(1 - sum(one["probabilities"]), abs=1e-5)
        best = np.flatnonzero(took[begin:end]).tolist()
        assert [one["choice"]] == (best or [None])
    assert any(one["choice"] is None for one in sets)
    assert any(one["choice"] is not None for one in sets)


def test_one_set_is_answered_like_the_same_among_many(rich):
    both = records(read_trips(trips(2, seed=2)))
    together = rich.client.predict({"sets": both}).json["sets"]
    for one, among in zip(both, together, strict=True):
        alone = rich.client.predict(one).json["sets"][0]
        assert alone["choice"] == among["choice"]
        np.testing.assert_allclose(alone["probabilities"], among["probabilities"], atol=1e-6)


def test_context_may_stand_in_the_items(rich):
    one = records(read_trips(trips(1, seed=3)))[0]
    context = one.pop("context")
    spread = {"items": [item | context for item in one["items"]]}
    expected = rich.client.predict(one | {"context": context}).body
    assert rich.client.predict(spread).body == expected
    part = {"purpose": context["purpose"]}
    rest = {"nights": context["nights"]}
    mixed = {"items": [item | rest for item in one["items"]], "context": part}
    assert rich.client.predict(mixed).body == expected


def test_context_that_differs_or_is_missing_is_refused(rich):
    one = records(read_trips(trips(1, seed=3)))[0]
    one["items"][1]["nights"] = one["context"]["nights"] + 1
    got = rich.client.predict({"sets": [one]})
    assert (got.status, got.error["where"]) == (400, "sets[0].items[1].nights")
    assert "differs within the set" in got.error["message"]
    del one["items"][1]["nights"], one["context"]["nights"]
    got = rich.client.predict({"sets": [one]})
    assert (got.status, got.error["where"]) == (422, "sets[0].context.nights")


def test_a_missing_value_may_be_null_or_left_out(rich):
    one = records(read_trips(trips(1, seed=4)))[0]
    one["items"][0]["review"] = None
    null = rich.client.predict(one)
    del one["items"][0]["review"]
    assert null.status == 200
    assert rich.client.predict(one).body == null.body
    one["items"][0]["review"] = 7.0
    assert rich.client.predict(one).body != null.body


@pytest.mark.parametrize(
    ("column", "value", "like"),
    [
        ("code", 12, "12"),
        ("code", 12.0, "12"),
        ("brand", "never seen", "other"),
        ("brand", 3, "other"),
        ("stars", True, 1),
        ("built", "2004-05-06T23:59:59+02:00", "2004-05-06"),
        ("built", "2004-05-06 01:02", "2004-05-06"),
    ],
)
def test_a_value_may_be_written_in_several_ways(rich, column, value, like):
    one = records(read_trips(trips(1, seed=5)))[0]
    answers = []
    for written in (value, like):
        one["items"][0][column] = written
        answers.append(rich.client.predict(one))
        assert answers[-1].status == 200, answers[-1].body
    assert answers[0].body == answers[1].body


def test_large_requests_go_another_way_to_the_same_answer(plain, client):
    sets = records(plain.choices)[:45]
    padded = json.dumps({"sets": sets}).encode() + b" " * SMALL_BODY
    assert client.predict(padded).body == client.predict({"sets": sets}).body
    flat = np.concatenate([one["probabilities"] for one in client.predict(padded).json["sets"]])
    rows = plain.choices.take(np.arange(45))
    np.testing.assert_allclose(flat, plain.model.predict_proba(rows), atol=1e-5)


def test_long_requests_are_scored_in_parts(plain, monkeypatch):
    monkeypatch.setattr("setwise.server.answers.ROWS_AT_A_TIME", 7)
    client = Direct(plain.path)
    sets = records(plain.choices)[:20]
    sets[3]["items"] *= 4  # longer than a part
    whole = client.predict({"sets": sets}).json["sets"]
    monkeypatch.undo()
    again = client.predict({"sets": sets}).json["sets"]
    for one, other in zip(whole, again, strict=True):
        np.testing.assert_allclose(one["probabilities"], other["probabilities"], atol=1e-6)
    client.close()


def test_the_last_of_two_values_under_one_name_counts(client):
    twice = b'{"items": [{"x0": 9, "x0": 1.0, "x1": 0.5}, {"x0": 0, "x1": 0}]}'
    once = b'{"items": [{"x0": 1.0, "x1": 0.5}, {"x0": 0, "x1": 0}]}'
    assert client.predict(twice).body == client.predict(once).body


# The reference model


def test_the_mnl_in_the_file_is_the_mnl_of_the_same_sets(plain, client):
    sets = records(plain.choices)[:10]
    got = client.predict({"sets": sets, "reference": True}).json["sets"]
    flat = np.concatenate([one["mnl"] for one in got])
    expected = plain.mnl.predict_proba(plain.choices.take(np.arange(10)))
    np.testing.assert_allclose(flat, expected, atol=1e-5)
    assert "mnl" not in client.predict({"sets": sets}).json["sets"][0]


def test_another_model_may_be_the_reference(plain, rich, folder):
    mnl = sw.MNL().fit(rich.choices)
    mnl.save(folder / "reference.setwise")
    client = Direct(rich.path, reference=folder / "reference.setwise")
    new = read_trips(trips(20, seed=6))
    got = client.predict({"sets": records(new), "reference": True}).json["sets"]
    flat = np.concatenate([one["mnl"] for one in got])
    np.testing.assert_allclose(flat, mnl.predict_proba(new), atol=1e-5)
    explained = client.post("/v1/explain", records(new)[0] | {"reference": True}).json
    influence = np.array(explained["mnl"]["influence"], float)
    assert np.nanmax(np.abs(influence)) < 1e-5
    client.close()


def test_a_model_beside_must_read_the_same_columns(plain, rich, folder):
    with pytest.raises(InputError, match="'x0' is not among the items of the first model"):
        Direct(rich.path, reference=plain.other)
    fewer = read_trips(trips(seed=0), on_none="drop")
    sw.MNL().fit(fewer).save(folder / "inside.setwise")
    with pytest.raises(InputError, match="only one of the two models has an outside option"):
        Direct(rich.path, reference=folder / "inside.setwise")
    table = trips(seed=0)
    table["review"] = [0.0 if x != x else x for x in table["review"]]
    never = read_trips(table, items=["log(cost)", "review"])
    sw.MNL().fit(never).save(folder / "never.setwise")
    with pytest.raises(InputError, match="'review' must not be missing, but may be"):
        Direct(rich.path, reference=folder / "never.setwise")
    dated = table | {"built": np.arange(len(table["cost"]), dtype=float)}
    numbers = sw.read(dated, set="trip", chosen="taken", items=["built"], on_none="outside")
    sw.MNL().fit(numbers).save(folder / "numbers.setwise")
    with pytest.raises(InputError, match="'built' is a number, but a date in the first model"):
        Direct(rich.path, reference=folder / "numbers.setwise")


# Explanations


def test_what_is_explained_is_what_removal_does(plain, client):
    got = client.post("/v1/explain", GOOD | {"reference": True}).json
    items = GOOD["items"]
    p = client.predict(GOOD).json["sets"][0]["probabilities"]
    np.testing.assert_allclose(got["probabilities"], p, atol=1e-6)
    for gone in range(3):
        left = [place for place in range(3) if place != gone]
        fewer = {"items": [items[place] for place in left]}
        direct = client.predict(fewer).json["sets"][0]["probabilities"]
        assert got["without"][gone][gone] is None
        assert got["iia"][gone][gone] is None
        assert got["influence"][gone][gone] is None
        for place, expected in zip(left, direct, strict=True):
            without, iia = got["without"][gone][place], got["iia"][gone][place]
            assert without == pytest.approx(expected, abs=1e-6)
            assert iia == pytest.approx(p[place] / (1 - p[gone]), abs=1e-6)
            assert got["influence"][gone][place] == pytest.approx(np.log(without / iia), abs=1e-5)
    breaks = np.array(got["influence"], float)
    keeps = np.array(got["mnl"]["influence"], float)
    assert np.nanmax(np.abs(breaks)) > 1e-3
    assert np.nanmax(np.abs(keeps)) < 1e-5


def test_influence_has_the_sign_of_what_goes_beyond_iia(plain, client):
    """The library's matrix has a row for who changes; the service's for who leaves."""
    choices = plain.choices.take(np.arange(1))
    beyond = sw.violations.influence(plain.model, choices).beyond_iia(0).T
    got = client.post("/v1/explain", records(choices)[0]).json
    apart = ~np.eye(3, dtype=bool)
    difference = np.array(got["without"], float) - np.array(got["iia"], float)
    np.testing.assert_allclose(difference[apart], beyond[apart], atol=1e-5)
    assert (np.sign(np.array(got["influence"], float)[apart]) == np.sign(beyond[apart])).all()


def test_one_item_alone_has_nothing_to_explain(client, rich):
    got = client.post("/v1/explain", {"items": GOOD["items"][:1]}).json
    assert got == {"probabilities": [1.0], "without": [], "iia": [], "influence": []}
    one = records(read_trips(trips(1, seed=7)))[0]
    one["items"] = one["items"][:1]  # the outside option stays
    got = rich.client.post("/v1/explain", one).json
    assert got["without"] == [[None]]
    assert got["outside"] == pytest.approx(1 - got["probabilities"][0], abs=1e-6)


def test_with_an_outside_option_what_is_left_over_is_its_share(rich):
    choices = read_trips(trips(1, seed=8))
    got = rich.client.post("/v1/explain", records(choices)[0]).json
    change = sw.violations.influence(rich.model, choices).of_set(0)
    p = np.array(got["probabilities"])
    without = np.array(got["without"], float)
    expected = (change[:-1] + p[:, None]).T  # the last row is the outside option's
    apart = ~np.eye(len(p), dtype=bool)
    np.testing.assert_allclose(without[apart], expected[apart], atol=1e-5)


def test_explain_takes_one_set_of_bounded_size(client):
    item = GOOD["items"][0]
    got = client.post("/v1/explain", {"sets": [GOOD, GOOD]})
    assert (got.status, got.error["where"]) == (422, "sets")
    assert client.post("/v1/explain", {"sets": [GOOD]}).status == 200
    assert client.post("/v1/explain", {"items": [item] * 40}).status == 200
    assert client.post("/v1/explain", {"items": [item] * 41}).status == 413
    assert Limits(max_items=1000).max_explained == 200


def test_explain_refuses_to_ask_members_instead_of_leaving_them_out(client):
    got = client.post("/v1/explain", GOOD | {"members": True})
    assert (got.status, got.error["where"]) == (422, "members")


# Refusals


def item(**changed: Any) -> dict[str, Any]:
    return {"items": [{"x0": 1.0, "x1": 2.0} | changed]}


BAD = {
    "nothing": (b"", 400, None, "not JSON"),
    "text": (b"price=3", 400, None, "not JSON"),
    "cut off": (b'{"items": [{"x0": 1, "x1"', 400, None, "not JSON"),
    "more after the end": (b"{} {}", 400, None, "not JSON"),
    "not a number": (b'{"items": [{"x0": NaN, "x1": 1}]}', 400, None, "not JSON"),
    "infinity": (b'{"items": [{"x0": Infinity, "x1": 1}]}', 400, None, "not JSON"),
    "half a surrogate": (b'{"items": [{"x0": "\\ud800", "x1": 1}]}', 400, None, "not JSON"),
    "deep lists": (b"[" * 100_000, 422, None, "the body is a list; give an object"),
    "deep in items": (b'{"items":' + b"[" * 100_000, 422, "items[0]", "is a list"),
    "deep in a value": (b'{"items":[{"x0":' + b"[" * 100_000, 422, "items[0].x0", "is a list"),
    "deep objects": (b'{"a":' * 30_000, 422, "a", "is not known"),
    "beyond doubles": (b'{"items": [{"x0": 1e400, "x1": 1}]}', 422, "items[0].x0", "too large"),
    "long digits": (
        b'{"items": [{"x0": ' + b"9" * 5000 + b', "x1": 1}]}', 422, "items[0].x0", "too large",
    ),
    "beyond floats": (item(x1=1e300), 400, "items[0].x1", "too far from the training data"),
    "null": (b"null", 422, None, "the body is null"),
    "a list": ([GOOD], 422, None, "the body is a list"),
    "an empty object": ({}, 422, None, "either 'sets'"),
    "both shapes": (GOOD | {"sets": [GOOD]}, 422, None, "either 'sets'"),
    "sets and context": ({"sets": [GOOD], "context": {}}, 422, None, "either 'sets'"),
    "no sets": ({"sets": []}, 422, "sets", "'sets' is empty"),
    "no items": ({"sets": [GOOD, {"items": []}]}, 422, "sets[1].items", "of set 1 is empty"),
    "a set without items": ({"sets": [{}]}, 422, "sets[0].items", "'items' of set 0 is missing"),
    "items of numbers": ({"items": [1, 2]}, 422, "items[0]", "item 0 is a whole number; give an"),
    "text for a number": (
        {"sets": [GOOD, item(x0="3")]}, 422, "sets[1].items[0].x0",
        "'x0' of item 0 of set 1 is text; give a number",
    ),
    "null for a number": (item(x0=None), 422, "items[0].x0", "is null; give a number"),
    "a missing column": (
        {"items": [GOOD["items"][0], {"x0": 1}]}, 422, "items[1].x1",
        "'x1' of item 1 is missing; add it (the model's columns are: x0, x1)",
    ),
    "an unknown column": (
        item(x2=3), 422, "items[0].x2",
        "'x2' of item 0 is not known; leave it out (the model's columns are: x0, x1)",
    ),
    "an unknown field": (GOOD | {"model": "/etc/passwd"}, 422, "model", "is not known"),
    "context of a model without": (GOOD | {"context": {"a": 1}}, 422, "context.a", "not known"),
    "too many sets": ({"sets": [GOOD] * 51}, 413, "sets", "51 sets; send at most 50"),
    "too many items": (
        {"sets": [GOOD, {"items": GOOD["items"] * 14}]}, 413, "sets[1].items",
        "set 1 has 42 items; the service takes at most 40",
    ),
    "ten thousand items": (
        b'{"items": [' + b",".join([b'{"x0":1,"x1":2}'] * 10_000) + b"]}", 413, "items", "items",
    ),
    "too large a body": (b" " * 200_001, 413, None, "larger than 200,000 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_bodies_are_refused_with_a_reason_and_good_ones_still_answered(client, name):
    body, status, where, words = BAD[name]
    before = client.predict(GOOD).body
    got = client.predict(body)
    assert got.status == status, got.body
    assert got.error["where"] == where
    assert words in got.error["message"]
    assert ";" in got.error["message"] or "give either" in got.error["message"]
    assert "Traceback" not in got.body.decode()
    assert client.predict(GOOD).body == before


@pytest.mark.parametrize(
    ("column", "value", "status", "words"),
    [
        ("cost", 0, 400, "is 0.0, and its logarithm is taken: give a positive number"),
        ("cost", -3.5, 400, "is -3.5"),
        ("code", 13, 400, "is 13, which training data did not have; it had: 12, 3, 40"),
        ("code", "x" * 1000, 400, "..., which training data did not have"),
        ("code", None, 422, "is null; give text or a number"),
        ("built", "yesterday", 400, "give a date such as 2026-07-31"),
        ("built", "today", 400, "give a date"),
        ("built", "NaT", 400, "give a date"),
        ("built", "2024-02-30", 400, "give a date"),
        ("built", 20240101, 422, "is a whole number; give text"),
        ("built", None, 422, "is null; give text"),
        ("review", "good", 422, "is text; give a number or null"),
        ("stars", [1], 422, "is a list; give a number"),
    ],
)
def test_values_that_the_model_cannot_take_are_named(rich, column, value, status, words):
    both = records(read_trips(trips(2, seed=9)))
    both[1]["items"][1][column] = value
    got = rich.client.predict({"sets": both})
    assert (got.status, got.error["where"]) == (status, f"sets[1].items[1].{column}")
    assert words in got.error["message"]
    assert f"'{column}' of item 1 of set 1" in got.error["message"]


def test_text_in_another_encoding_is_refused(rich):
    one = records(read_trips(trips(1, seed=9)))[0]
    one["items"][0]["brand"] = "Hotel"
    got = rich.client.predict(json.dumps(one).encode().replace(b"Hotel", b"H\xf4tel"))
    assert got.status == 400
    assert "not JSON in UTF-8" in got.error["message"]


def test_unknown_levels_of_the_context_are_named(rich):
    one = records(read_trips(trips(1, seed=9)))[0]
    one["context"]["purpose"] = "war"
    got = rich.client.predict(one)
    assert (got.status, got.error["where"]) == (400, "context.purpose")
    assert "'war', which training data did not have; it had: fun, work" in got.error["message"]


def test_a_set_without_a_probability_is_refused(client, monkeypatch):
    silent = replace(
        client.service.served.model, log_probabilities=lambda x: x.items[:, 0] * np.nan
    )
    served = replace(client.service.served, model=silent)
    monkeypatch.setitem(client.service.models, "plain", served)
    got = client.predict(GOOD)
    assert got.status == 400
    assert "too far from the training data" in got.error["message"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_other_content_types_are_refused(client, kind):
    got = client.post("/v1/predict", GOOD, content_type=kind)
    assert got.status == 415
    assert client.ask("POST", "/v1/predict", [b"{}"], {}).status == 415


def test_content_types_with_parameters_are_taken(client):
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    assert client.ask("POST", "/v1/predict", [json.dumps(GOOD).encode()], headers).status == 200


def test_bodies_in_parts_are_joined_and_limited(client):
    body = json.dumps(GOOD).encode()
    headers = {"content-type": "application/json"}
    got = client.ask("POST", "/v1/predict", [body[:10], body[10:20], body[20:]], headers)
    assert got.body == client.predict(GOOD).body
    got = client.ask("POST", "/v1/predict", [b" " * 50_000] * 5, headers)
    assert (got.status, got.headers["connection"]) == (413, "close")
    endless = [b" " * 100_000] * 100  # not read to its end
    assert client.ask("POST", "/v1/predict", endless, headers).status == 413


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/predict", 405), ("DELETE", "/v1/model", 405), ("GET", "/v3/predict", 404),
     ("GET", "/docs", 404), ("GET", "/redoc", 404), ("POST", "/", 405)],
)  # fmt: skip
def test_unknown_paths_and_methods_are_errors_in_json(client, method, path, status):
    got = client.ask(method, path, [b""], {})
    assert got.status == status
    assert got.headers["content-type"] == "application/json"
    assert "/openapi.json" in got.error["message"]


def test_a_fault_of_the_service_shows_nothing_of_its_inside(client, monkeypatch, caplog):
    def fail(*_: Any) -> bytes:
        raise RuntimeError("secret")

    served = client.service.served
    failing = replace(served, model=replace(served.model, log_probabilities=fail))
    monkeypatch.setitem(client.service.models, "plain", failing)
    for padding in (b"", b" " * SMALL_BODY):
        got = client.predict(json.dumps(GOOD).encode() + padding)
        assert got.status == 500
        assert b"secret" not in got.body
        assert "its log says why" in got.error["message"]
        assert "secret" in caplog.text
        assert got.headers["x-request-id"] in caplog.text
        caplog.clear()


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["items", "sets", "x0", "x1", "context", "?"]), inner)
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=100)
@given(JSON)
def test_any_json_is_answered_or_refused(client, body):
    got = client.predict(body)
    assert got.status in (200, 400, 413, 422)
    assert got.status == 200 or got.error["message"]


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_any_damage_to_a_good_body_is_answered_or_refused(client, data):
    body = bytearray(json.dumps({"sets": [GOOD]}).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    assert client.predict(bytes(body)).status in (200, 400, 422)


# Limits of time and number


def test_a_body_that_does_not_arrive_is_given_up(plain):
    client = Direct(plain.path, limits={"timeout": 0.05})
    headers = {"content-type": "application/json"}
    got = client.ask("POST", "/v1/predict", [], headers)
    assert (got.status, got.headers["connection"]) == (408, "close")
    assert "within 0.05 s" in got.error["message"]
    assert client.predict(GOOD).status == 200
    client.close()


def test_work_that_takes_too_long_is_given_up(plain, monkeypatch):
    client = Direct(plain.path)
    late = Deadline(0.0, 0.5)
    monkeypatch.setattr("setwise.server.app.Deadline.after", lambda seconds: late)
    for padding in (b"", b" " * SMALL_BODY):
        got = client.predict(json.dumps(GOOD).encode() + padding)
        assert (got.status, got.headers["retry-after"]) == (503, "1")
        assert "longer than 0.5 s" in got.error["message"]
    client.close()


def test_more_requests_than_the_service_may_hold_are_refused(plain, monkeypatch):
    """Requests whose bodies are still arriving do not count."""
    client = Direct(plain.path, limits={"max_waiting": 2, "timeout": 0.3})
    whole = json.dumps(GOOD).encode() + b" " * SMALL_BODY  # these are answered by threads
    scope = {
        "type": "http", "method": "POST", "path": "/v1/predict", "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"host", b"localhost")],
    }  # fmt: skip

    async def together() -> list[Got]:
        chunks = [[], [], [whole], [whole], [whole], []]
        return await asyncio.gather(*(asked(client.app, dict(scope), one) for one in chunks))

    statuses = [got.status for got in client.runner.run(together())]
    assert statuses == [408, 408, 200, 200, 503, 408]
    assert client.predict(GOOD).status == 200
    assert client.get("/healthz").status == 200
    client.close()


@pytest.mark.parametrize("name", [one.name for one in fields(Limits)])
def test_limits_must_leave_something(name):
    with pytest.raises(InputError, match="must be positive and finite"):
        Limits(**{name: 0})


def test_a_limit_of_time_is_a_number():
    with pytest.raises(InputError, match="must be positive and finite"):
        Limits(timeout=float("nan"))


# Who may ask, and headers


def test_a_token_isasked_for(plain):
    client = Direct(plain.path, token="s3cret")
    for path in ("/v1/model", "/metrics", "/openapi.json"):
        assert client.get(path).status == 401
        assert client.get(path, authorization="Bearer wrong").status == 401
        assert client.get(path, authorization="s3cret").status == 401
        assert client.get(path, authorization="Bearer s3cret").status == 200
    for path in ("/v1/model/", "//v1/model", "/page", "/nowhere"):  # not open by accident
        assert client.get(path).status in (401, 404)
    refused = client.predict(GOOD)
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert "s3cret" not in refused.body.decode()
    assert client.post("/v1/predict", GOOD, authorization="Bearer s3cret").status == 200
    for path in ("/healthz", "/readyz", "/"):
        assert client.get(path).status == 200
    assert "s3cret" not in repr(client.service.settings)
    client.close()


@pytest.mark.parametrize("token", ["", "  ", "héllo"])
def test_tokens_that_protect_nothing_are_refused(plain, token):
    with pytest.raises(InputError, match="token"):
        Settings((plain.path,), token=token)


@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/model", "/page/main.js", "/nowhere"])
def test_every_answer_has_the_headers_of_safety(client, path):
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    "path", ["/page/../app.py", "/page/../../../../pyproject.toml", "/page//etc/passwd",
             "/page/..\\app.py", "/page/%2e%2e/app.py", "/page/", "/page/vendor", "/page/\0"],
)  # fmt: skip
def test_no_file_beside_the_page_is_read(client, path):
    got = client.get(path)
    assert got.status in (404, 405), got.body
    assert b"FastAPI" not in got.body


def test_the_page_is_served_whole(client):
    page = client.get("/")
    assert page.status == 200
    assert page.headers["content-type"].startswith("text/html")
    named = re.findall(r'(?:src|href)="(?!https?:|#)([^"]+)"', page.body.decode())
    assert named
    for path in named:
        assert client.get(f"/{path.removeprefix('./').removeprefix('/')}").status == 200, path


# What the service tells of itself


def test_the_model_is_described(plain, client):
    about = client.get("/v1/model").json
    assert about["estimator"] == "LinearContextLogit"
    assert about["version"] == sw.__version__
    assert about["file"] == "plain.setwise"
    assert str(plain.path.parent) not in json.dumps(about)
    assert re.fullmatch("sha256:[0-9a-f]{64}", about["checksum"])
    assert about["outside"] is False
    assert about["reference"] is True
    assert about["limits"]["max_sets"] == 50
    assert about["limits"]["max_explained"] == 40
    assert len(about["samples"]) == 24
    first = np.quantile(plain.choices.columns["x0"].values, [0.005, 0.995], method="nearest")
    column = about["columns"][0]
    assert (column["name"], column["role"], column["kind"]) == ("x0", "item", "number")
    assert [column["min"], column["max"]] == first.tolist()
    for sample in about["samples"]:
        assert 0 <= sample["chosen"] < len(sample["items"])
        assert client.predict(sample).status == 200


def test_every_kind_of_column_is_described(rich):
    columns = {one["name"]: one for one in rich.client.get("/v1/model").json["columns"]}
    assert columns["cost"]["min"] > 0
    assert columns["stars"]["step"] == 1
    assert "step" not in columns["cost"]
    assert columns["review"]["missing"] is True
    assert columns["brand"] == {
        "name": "brand", "role": "item", "kind": "category", "other": True,
        "levels": ["Hôtel «A»", "Ibis", "Ritz", "other"],
    }  # fmt: skip
    assert columns["code"]["levels"] == ["12", "3", "40"]
    assert "other" not in columns["code"]
    assert columns["host"]["levels"] == ["a", "b", "c", "d"]
    assert columns["built"]["kind"] == "date"
    assert columns["built"]["min"] < columns["built"]["max"]
    assert columns["purpose"]["role"] == "context"
    assert columns["purpose"]["levels"] == ["fun", "work"]


def test_a_model_without_a_sample_has_ranges_all_the_same(rich, folder):
    path = folder / "bare.setwise"
    rich.model.save(path)
    client = Direct(path)
    about = client.get("/v1/model").json
    assert about["samples"] == []
    assert about["reference"] is False
    columns = {one["name"]: one for one in about["columns"]}
    costs = rich.choices.columns["cost"].values
    assert 0 < columns["cost"]["min"] < np.median(costs) < columns["cost"]["max"]
    assert (
        "mnl" not in client.predict(records(rich.choices)[0] | {"reference": True}).json["sets"][0]
    )
    client.close()


def test_counts_are_those_of_what_wasasked(plain):
    client = Direct(plain.path)
    client.predict({"sets": [GOOD, GOOD]})
    client.predict(GOOD)
    client.predict({"items": []})
    client.post("/v1/explain", GOOD)
    client.get("/nowhere")
    text = client.get("/metrics").body.decode()
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    asked = 'setwise_requests_total{route="%s",status="%s"}'
    of_model = 'setwise_requests_total{route="%s",model="plain",status="%s"}'
    assert lines[of_model % ("/v1/predict", 200)] == "2"
    assert lines[of_model % ("/v1/predict", 422)] == "1"
    assert lines[of_model % ("/v1/explain", 200)] == "1"
    assert lines[asked % ("other", 404)] == "1"
    assert lines["setwise_sets_scored_total"] == "4"
    assert lines["setwise_model_loads_total"] == "1"
    assert lines["setwise_requests_in_flight"] == "1"  # this one
    assert lines['setwise_request_seconds_count{route="/v1/predict",model="plain"}'] == "3"
    assert (
        lines['setwise_request_seconds_bucket{route="/v1/predict",model="plain",le="+Inf"}'] == "3"
    )
    client.close()


def test_counts_of_several_processes_add_up():
    counts = np.zeros((2, counters(("a",))), np.int64)
    for process in range(2):
        metrics = ServiceMetrics(("a",), counts, process)
        metrics.answered(Series("/v1/predict", "a"), 200, 0.004)
        for event in EVENTS:
            metrics.add(event, 3)
    text = metrics.text()
    assert 'setwise_requests_total{route="/v1/predict",model="a",status="200"} 2' in text
    assert 'le="0.0025"} 0' in text
    assert 'le="0.005"} 2' in text
    assert "setwise_sets_scored_total 6" in text
    assert "setwise_model_loaded_timestamp_seconds 3" in text
    ServiceMetrics(("a",), counts, 0)  # one that died is replaced
    assert "setwise_requests_in_flight 3" in metrics.text()


def test_the_description_has_the_models_columns(client):
    described = client.get("/openapi.json").json
    item = described["components"]["schemas"]["Item"]
    assert set(item["properties"]) == {"x0", "x1"}
    assert item["additionalProperties"] is False
    paths = set(described["paths"])
    ours = {path for path, route in client.app.routes.items() if route.series.route != "/page"}
    assert paths == ours - {"/", "/openapi.json"}


def test_draining_is_told_to_who_asks(plain):
    client = Direct(plain.path)
    assert client.get("/readyz").status == 200
    client.service.draining = True
    assert client.get("/readyz").status == 503
    assert client.get("/healthz").status == 200
    got = client.predict(GOOD)
    assert (got.status, got.headers["connection"]) == (200, "close")
    client.close()
