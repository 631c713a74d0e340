"""Several models in one service, the Open Inference Protocol, and what operations expect."""

import asyncio
import json
import logging
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import setwise as sw
from serving import Direct, Process, asked, read_trips, trips
from setwise._errors import InputError
from setwise.choices.reading import records
from setwise.server import Service, Settings, application
from setwise.server.routes import PAGE

GOOD = {"items": [{"x0": 1.0, "x1": 0.5}, {"x0": -1, "x1": 2}, {"x0": 0.25, "x1": -0.5}]}


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> SimpleNamespace:
    """Two models of the same columns, and one of every kind of column with an outside option."""
    folder = tmp_path_factory.mktemp("models")
    choices = sw.datasets.generate("mnl", sets=300, items=3, features=2, seed=0).choices
    models = {"context": sw.LinearContextLogit().fit(choices), "plain": sw.MNL().fit(choices)}
    for name, model in models.items():
        model.save(folder / f"{name}.setwise")
    rich = read_trips(trips(seed=0))
    models["trips"] = sw.MNL().fit(rich)
    models["trips"].save(folder / "trips.setwise", sample=rich)
    paths = tuple(folder / f"{name}.setwise" for name in models)
    return SimpleNamespace(choices=choices, rich=rich, models=models, paths=paths)


@pytest.fixture(scope="module")
def client(two):
    found = Direct(two.paths[0], others=two.paths[1:])
    yield found
    found.close()


# Several models


def test_each_model_answers_by_its_name_and_the_first_one_without(two, client):
    sets = {"sets": records(two.choices)[:5]}
    some = two.choices.take(np.arange(5))
    for path, name in (
        ("/v1/predict", "context"),
        ("/v1/models/context/predict", "context"),
        ("/v1/models/plain/predict", "plain"),
    ):
        got = client.post(path, sets).json["sets"]
        flat = np.concatenate([one["probabilities"] for one in got])
        np.testing.assert_allclose(flat, two.models[name].predict_proba(some), atol=1e-5)
    assert client.post("/v1/models/gone/predict", sets).status == 404
    assert client.post("/v1/models/plain/explain", GOOD).status == 200
    listed = client.get("/v1/models").json["models"]
    assert [one["name"] for one in listed] == list(two.models)
    assert client.get("/v1/models/trips").json["estimator"] == "MNL"
    assert client.get("/v1/model").json["name"] == "context"
    text = client.get("/metrics").body.decode()
    assert 'setwise_request_seconds_count{route="/v1/predict",model="context"} 2' in text
    assert 'setwise_request_seconds_count{route="/v1/predict",model="plain"} 1' in text


def test_models_are_replaced_one_by_one(two, tmp_path):
    paths = tuple(tmp_path / path.name for path in two.paths[:2])
    for copy, path in zip(paths, two.paths, strict=False):
        copy.write_bytes(path.read_bytes())
    service = Service(Settings(paths))
    before = dict(service.models)

    async def replace() -> None:
        watch = asyncio.create_task(service.watch())
        two.models["plain"].save(paths[0])
        for _ in range(100):
            await asyncio.sleep(0.05)
            if service.models["context"] is not before["context"]:
                break
        watch.cancel()

    asyncio.run(replace())
    assert service.models["context"].about["estimator"] == "MNL"
    assert service.models["plain"] is before["plain"]
    service.close()


def test_requests_for_several_models_at_the_same_time_get_their_own_answers(two, client):
    """They are scored together, each with the requests for its own model."""
    body = [json.dumps(one).encode() for one in records(two.choices)[:8]]
    paths = [f"/v1/models/{('context', 'plain')[number % 2]}/predict" for number in range(8)]
    bad = json.dumps({"items": [{"x0": 1e300, "x1": 1.0}]}).encode()
    jobs = [*zip(paths, body, strict=True), ("/v1/predict", bad), ("/v1/predict", b"{")]

    async def together() -> list:
        scope = {
            "type": "http",
            "method": "POST",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json"), (b"host", b"localhost")],
        }
        calls = (asked(client.app, scope | {"path": path}, [body]) for path, body in jobs)
        return await asyncio.gather(*calls)

    *good, far, broken = client.runner.run(together())
    alone = [client.post(path, body) for path, body in jobs[:8]]
    for one, other in zip(good, alone, strict=True):
        got, expected = (a.json["sets"][0]["probabilities"] for a in (one, other))
        np.testing.assert_allclose(got, expected, atol=1e-6)
    assert (far.status, broken.status) == (400, 400)
    assert "too far from the training data" in far.error["message"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"models": ()}, "no model to serve"),
        ({"models": (Path("a/x.setwise"), Path("b/x.setwise"))}, "two model files are named 'x'"),
        ({"models": (Path("a"), Path("b")), "reference": Path("c")}, "goes with one model"),
        ({"models": (Path("a"),), "drain": -1.0}, "--drain must be"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        Settings(**settings)


# The Open Inference Protocol, as in the specification "Open Inference Protocol (V2)"


def test_health_and_metadata_are_those_of_the_protocol(client):
    assert client.get("/v2/health/live").json == {"live": True}
    assert client.get("/v2/health/ready").json == {"ready": True}
    server = client.get("/v2").json
    assert server == {"name": "setwise", "version": sw.__version__, "extensions": []}
    assert client.get("/v2/models/plain/ready").json == {"name": "plain", "ready": True}
    about = client.get("/v2/models/trips").json
    assert set(about) == {"name", "platform", "inputs", "outputs"}
    kinds = {one["name"]: (one["datatype"], one["shape"]) for one in about["inputs"]}
    assert kinds["trip"] == ("INT64", [-1])
    assert kinds["cost"] == ("FP64", [-1])
    assert kinds["brand"] == kinds["purpose"] == ("BYTES", [-1])
    assert [one["name"] for one in about["outputs"]] == ["probability", "outside"]


def test_a_service_that_is_ending_is_not_ready(two):
    client = Direct(two.paths[0])
    client.service.draining = True
    for path in ("/v2/health/ready", "/v2/models/context/ready"):
        got = client.get(path)
        assert (got.status, got.json["ready"]) == (503, False)
    assert client.get("/v2/health/live").status == 200
    client.close()


def tensor(name: str, data: list, datatype: str = "FP64", shape: list | None = None) -> dict:
    return {"name": name, "shape": shape or [len(data)], "datatype": datatype, "data": data}


def test_inference_gives_a_probability_for_every_row(two, client):
    some = two.choices.take(np.arange(6))
    ids = np.repeat(np.arange(6), 3)
    order = np.random.default_rng(0).permutation(18)  # rows of a set need not be together
    given = [
        tensor("set_id", ids[order].tolist(), "INT64"),
        *(tensor(n, some.columns[n].values[order].tolist()) for n in ("x0", "x1")),
    ]
    got = client.post("/v2/models/plain/infer", {"id": "42", "inputs": given})
    assert got.status == 200, got.body
    expected = two.models["plain"].predict_proba(some)[order]
    assert {name: got.json[name] for name in ("id", "model_name")} == {
        "id": "42", "model_name": "plain",
    }  # fmt: skip
    (output,) = got.json["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == ("probability", "FP32", [18])
    np.testing.assert_allclose(output["data"], expected, atol=1e-5)


def test_inference_takes_every_kind_of_column_and_gives_the_outside_option(two, client):
    table = trips(20, seed=1)
    new = read_trips(table)
    kinds = {one["name"]: one for one in client.get("/v2/models/trips").json["inputs"]}
    given = []
    for name, about in kinds.items():
        values = table[name]
        if name == "built":
            values = [str(value)[:10] for value in np.array(values, "datetime64[D]")]
        data = [None if value != value else value for value in values]
        given.append(tensor(name, [[one] for one in data], about["datatype"], [len(data), 1]))
    asks = {"inputs": given, "outputs": [{"name": "outside"}, {"name": "probability"}]}
    got = client.post("/v2/models/trips/infer", asks)
    assert got.status == 200, got.body
    outputs = {one["name"]: np.array(one["data"]) for one in got.json["outputs"]}
    expected = two.models["trips"].predict_proba(new)
    np.testing.assert_allclose(outputs["probability"], expected, atol=1e-5)
    totals = np.add.reduceat(expected, new.offsets[:-1])
    np.testing.assert_allclose(outputs["outside"], 1 - totals, atol=1e-5)


def test_rows_without_ids_are_one_set(two, client):
    rows = GOOD["items"]
    given = [tensor(name, [row[name] for row in rows]) for name in ("x0", "x1")]
    got = client.post("/v2/models/plain/infer", {"inputs": given}).json["outputs"][0]["data"]
    expected = client.post("/v1/models/plain/predict", GOOD).json["sets"][0]["probabilities"]
    np.testing.assert_allclose(got, expected, atol=1e-6)


X0, X1 = tensor("x0", [1.0, 2.0]), tensor("x1", [1.0, 2.0])
WRONG = {
    "no inputs": ({"inputs": []}, "'x0' is missing"),
    "a missing column": ({"inputs": [X0]}, "'x1' is missing; add it"),
    "an unknown column": ({"inputs": [X0, X1, tensor("x2", [1, 2])]}, "'x2' is not known"),
    "twice": ({"inputs": [X0, X0, X1]}, "the same name"),
    "another length": ({"inputs": [X0, tensor("x1", [1.0])]}, "same number of values"),
    "nothing in them": ({"inputs": [tensor("x0", []), tensor("x1", [])]}, "same number of values"),
    "another shape": ({"inputs": [X0, tensor("x1", [1, 2], shape=[1, 2])]}, "in the shape [items]"),
    "fewer than said": ({"inputs": [X0, tensor("x1", [1, 2], shape=[3])]}, "has 2 values"),
    "text": ({"inputs": [X0, tensor("x1", ["a", "b"])]}, "is text; give a number"),
    "lists as ids": (
        {"inputs": [X0, X1, tensor("set_id", [[[1]], [[2]]], "INT64")]}, "not a number or text",
    ),
    "an unknown output": ({"inputs": [X0, X1], "outputs": [{"name": "x"}]}, "'x' is not known"),
    "no protocol": ({"sets": []}, "does not follow the Open Inference Protocol"),
    "no JSON": (b"{", "not JSON"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_those_of_the_protocol(client, name):
    body, words = WRONG[name]
    got = client.post("/v2/models/plain/infer", body)
    assert 400 <= got.status < 500
    assert set(got.json) == {"error"}
    assert words in got.json["error"]


def test_an_unknown_model_is_an_error_of_the_protocol(client):
    got = client.post("/v2/models/gone/infer", {"inputs": [X0, X1]})
    assert (got.status, set(got.json)) == (404, {"error"})
    assert isinstance(got.json["error"], str)


# What operations expect


def test_requests_have_ids_which_clients_may_choose(client):
    own = client.post("/v1/predict", GOOD, x_request_id="abc-1").headers["x-request-id"]
    assert own == "abc-1"
    made = [client.post("/v1/predict", GOOD).headers["x-request-id"] for _ in range(2)]
    assert made[0] != made[1]
    for bad in ("a b", "x" * 101, "a\r\nset-cookie: b", "é"):
        assert client.get("/nowhere", x_request_id=bad).headers["x-request-id"] != bad


def test_every_request_has_a_line_of_json_in_the_access_log(two, caplog):
    client = Direct(two.paths[0], access_log=True)
    with caplog.at_level(logging.INFO, "setwise.server.access"):
        client.post("/v1/predict", GOOD, x_request_id="mine")
        client.get('/no"where')
    first, second = (json.loads(record.getMessage()) for record in caplog.records)
    assert first.items() >= {
        "id": "mine", "method": "POST", "path": "/v1/predict", "model": "context", "status": 200,
        "client": "test",
    }.items()  # fmt: skip
    assert first["ms"] > 0
    assert first["bytes"] > 50
    assert (second["status"], second["path"]) == (404, '/no"where')
    client.close()


def test_the_access_log_is_on_standard_output(two):
    with Process(two.paths[0], "--access-log") as service:
        service.post("/v1/predict", GOOD)
        _, said = service.stop()
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [line["status"] for line in lines if line["path"] == "/v1/predict"] == [200]


def test_head_is_get_without_the_body(client):
    for path in ("/", "/v1/model", "/healthz", "/page/main.js", "/nowhere"):
        got, head = (client.ask(method, path, [b""], {}) for method in ("GET", "HEAD"))
        assert (head.status, head.body) == (got.status, b"")
        assert head.headers["content-length"] == str(len(got.body))
    assert client.ask("HEAD", "/v1/predict", [b""], {}).status == 405


def test_a_method_that_a_path_does_not_take_is_told_which_it_takes(client):
    assert client.ask("DELETE", "/v1/model", [b""], {}).headers["allow"] == "GET, HEAD"
    assert client.get("/v1/predict").headers["allow"] == "POST"


def test_a_file_of_the_page_is_sent_once(client):
    first = client.get("/page/main.js")
    assert first.headers["cache-control"] == "no-cache"
    again = client.get("/page/main.js", if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert client.get("/page/main.js", if_none_match='"other"').body == first.body
    assert first.body == (PAGE / "main.js").read_bytes()


def test_limits_in_the_description_are_those_that_hold(two):
    client = Direct(two.paths[1], limits={"max_items": 300, "max_sets": 4})
    schemas = client.get("/openapi.json").json["components"]["schemas"]
    explained = schemas["ExplainedSet"]["properties"]["items"]["maxItems"]
    predicted = schemas["OneSet"]["properties"]["items"]["maxItems"]
    several = schemas["ManySets"]["properties"]["sets"]["maxItems"]
    assert (explained, predicted, several) == (200, 300, 4)
    item = GOOD["items"][0]
    for path, most in (("/v1/explain", explained), ("/v1/predict", predicted)):
        assert client.post(path, {"items": [item] * most}).status == 200
        assert client.post(path, {"items": [item] * (most + 1)}).status == 413
    assert client.predict({"sets": [GOOD] * several}).status == 200
    assert client.predict({"sets": [GOOD] * (several + 1)}).status == 413
    client.close()


def test_another_server_may_run_the_application(two):
    """Its start and its end, and what is not HTTP."""
    service = Service(Settings(two.paths))
    app = application(service)
    sent: list = []

    async def live() -> None:
        steps = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

        async def receive() -> dict:
            return steps.pop(0)

        async def send(message: dict) -> None:
            sent.append(message["type"])

        await app({"type": "lifespan"}, receive, send)
        await app({"type": "websocket"}, receive, send)

    asyncio.run(live())
    assert sent == [
        "lifespan.startup.complete", "lifespan.shutdown.complete", "websocket.close",
    ]  # fmt: skip
