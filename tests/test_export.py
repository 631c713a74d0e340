"""ONNX files: onnxruntime gives the model's probabilities for a table's own values."""

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import scored
import setwise as sw
from setwise import scoring
from setwise.choices import Schema
from setwise.cli import app
from setwise.models import ZOO
from setwise.scoring.graph import run
from setwise.scoring.model_file import Artifact
from setwise.scoring.onnx_file import export_onnx, preprocessing
from setwise.scoring.tracing import traced

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

SIZES = [1, 2, 3, 10, 100]


@pytest.fixture(scope="module")
def choices():
    return scored.read(scored.rows([3, 4, 5] * 40))


@pytest.fixture(scope="module")
def schema(choices):
    return Schema.fit(choices)


@pytest.fixture(scope="module")
def numbers():
    """A schema of plain numbers, without context and outside option."""
    drawn = sw.datasets.generate("mnl", sets=50, items=4, features=scored.WIDTH, seed=0)
    return Schema.fit(drawn.choices)


def exported(estimator, folder):
    """A session of the estimator's ONNX file, and its scorer."""
    path = folder / "model.setwise"
    estimator.save(path)
    export_onnx(path, folder / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options)
    return session, scoring.load_scorer(path)


def about(session):
    """What a program in another language reads of the file to know what to give it."""
    return {
        name: json.loads(text)
        for name, text in session.get_modelmeta().custom_metadata_map.items()
        if name in ("items", "context", "outside_option")
    }


def given(session, table):
    """The inputs of a table, made from the file's metadata alone, padded with what is no number."""
    sets = np.unique(table["search"])
    sizes = np.array([(table["search"] == one).sum() for one in sets])
    present = np.arange(sizes.max()) < sizes[:, None]
    inputs = {"present": present}
    for which, columns in about(session).items():
        if which == "outside_option" or not columns:
            continue
        values = np.stack([as_numbers(table[one["column"]], one) for one in columns], 1)
        if which == "items":
            inputs["items"] = np.full((*present.shape, len(columns)), np.nan)
            inputs["items"][present] = values
        else:
            inputs["context"] = values[np.cumsum([0, *sizes[:-1]])]
    return inputs


def as_numbers(values, column):
    if "levels" in column:
        place = {level: number for number, level in enumerate(column["levels"])}
        return np.array([place.get(str(value), -1) for value in values], np.float64)
    if values.dtype.kind == "M":
        return (values - np.datetime64("1970-01-01")).astype("timedelta64[D]").astype(np.float64)
    return values.astype(np.float64)


# Parity


def runs_alike(name, numbers, folder, ensemble):
    session, one = exported(scored.as_fitted(name, numbers, ensemble), folder)
    mean, scale = np.array(one.schema.mean), np.array(one.schema.scale)
    for sizes in (SIZES, [4], [2, 2, 2]):
        standard, present = scored.padded(sizes)
        items = standard * scale + mean
        (found,) = session.run(None, {"items": items, "present": present})
        seen = ((items - mean) / scale).astype(np.float32)
        np.testing.assert_allclose(found, one.probabilities(seen, present), rtol=0, atol=1e-5)
        np.testing.assert_array_equal(found[~present], 0)


@pytest.mark.parametrize("name", scored.TELLING)
def test_onnxruntime_gives_the_same_probabilities(name, numbers, tmp_path):
    runs_alike(name, numbers, tmp_path, ensemble=2)


def test_operations_beyond_the_zoo_are_onnx_too(tmp_path):
    drawn = sw.datasets.generate("mnl", sets=50, items=4, features=2, seed=0)
    schema, path = Schema.fit(drawn.choices), tmp_path / "a.setwise"
    Artifact("MNL", {}, schema, {}, {}).with_graph(*traced(scored.everything(), 2)).write(path)
    export_onnx(path, tmp_path / "a.onnx")
    session, one = onnxruntime.InferenceSession(tmp_path / "a.onnx"), scoring.load_scorer(path)
    items, present = scored.padded([4, 2, 1], width=2)
    items *= present[..., None]  # this model looks at padding: the file has zeros there
    seen = ((items - schema.mean) / schema.scale).astype(np.float32) * present[..., None]
    (found,) = session.run(None, {"items": items.astype(np.float64), "present": present})
    np.testing.assert_allclose(found, one.probabilities(seen, present), rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("ensemble", [1, 3])
@pytest.mark.parametrize("name", ZOO)
def test_every_model_of_the_zoo_runs_as_onnx(name, ensemble, numbers, tmp_path):
    runs_alike(name, numbers, tmp_path, ensemble)


def test_a_table_goes_in_as_it_is(choices, tmp_path):
    session, one = exported(sw.MNL().fit(choices), tmp_path)
    table = scored.rows([1, 6, 30], seed=8)
    table["brand"][2] = "violet"  # known as "other"
    table["hotel"][3] = "never seen"
    inputs = given(session, table)
    probability, outside = session.run(["probability", "outside"], inputs)
    wanted = one.predict_proba(table)
    np.testing.assert_allclose(probability[inputs["present"]], wanted, rtol=0, atol=1e-5)
    np.testing.assert_allclose(probability.sum(1) + outside, 1, rtol=1e-5)
    assert (probability[~inputs["present"]] == 0).all()


def test_context_and_the_outside_option_matter_as_in_the_model(schema, tmp_path):
    session, one = exported(scored.as_fitted("sda", schema, 2), tmp_path)
    table = scored.rows([2, 9], seed=9)
    (found,) = session.run(["probability"], given(session, table))
    wanted = one.predict_proba(table)
    np.testing.assert_allclose(found[found > 0], wanted, rtol=0, atol=1e-5)
    (other,) = session.run(["probability"], given(session, table | {"age": table["age"] + 20}))
    assert np.abs(other - found).max() > 1e-3


# Preprocessing


def test_weeks_and_months_are_those_of_the_calendar():
    days = np.arange(-60_000, 60_000, 7)  # 1805 to 2134
    dates = np.datetime64("1970-01-01") + days
    choices = sw.read(
        {"s": np.repeat(np.arange(len(days) // 2), 2), "day": dates[: len(days) // 2 * 2]}, set="s"
    )
    schema = Schema.fit(choices)
    encode = preprocessing(schema, "items")
    raw = days[: len(days) // 2 * 2].astype(np.float64).reshape(-1, 2, 1)
    found = run(encode.graph, encode.arrays | {"items": raw})
    np.testing.assert_array_equal(found.reshape(-1, 2), schema.encode(choices).items)
    january = preprocessing(Schema.fit(choices), "items").arrays | {"mean": np.zeros(2)}
    january["scale"] = np.ones(2)
    new_year = np.array([[[18628.0], [18629.0]]])  # Friday 1 and Saturday 2.1.2021
    plain = run(encode.graph, january | {"items": new_year})
    assert plain.tolist() == [[[53, 1], [53, 1]]]  # ISO: still the last week of 2020


def test_what_is_missing_has_its_level():
    brand = np.array(["red", None, "blue", "red", None, "grey"] * 10, object)
    table = {"s": np.repeat(np.arange(20), 3), "brand": brand}
    choices = sw.read(table, set="s", items=["impute(other(brand))"])
    schema = Schema.fit(choices)
    assert schema.item_names == [
        "brand=blue", "brand=grey", "brand=red", "brand=other", "brand=missing",
    ]  # fmt: skip
    encode = preprocessing(schema, "items")
    place = {"blue": 0.0, "grey": 1.0, "red": 2.0, None: np.nan}
    raw = np.array([place[one] for one in brand], np.float64).reshape(20, 3, 1)
    found = run(encode.graph, encode.arrays | {"items": raw})
    np.testing.assert_array_equal(found.reshape(60, -1), schema.encode(choices).items)
    (other,) = run(encode.graph, encode.arrays | {"items": raw[:1] * 0 - 1}).argmax(-1)
    assert other[0] == 3


LARGE = {
    "unix times": ("seen", lambda z: 1.7e9 + 3600 * z),
    "logarithms of unix times": ("log(seen)", lambda z: 1.7e9 + 3600 * z),
    "logarithms of single numbers": ("log(seen)", lambda z: (1.7e9 + 1e5 * z).astype(np.float32)),
    "amounts far from zero": ("seen", lambda z: 1e9 + z),
    "amounts in a small unit": ("log1p(seen)", lambda z: 1e12 + 1e6 * z),
    "a root": ("sqrt(seen)", lambda z: 1e9 + z),
    "missing ones": ("impute(seen)", lambda z: np.where(z * 100 % 7 < 1, np.nan, 1.7e9 + 60 * z)),
}


@pytest.mark.parametrize("name", LARGE)
def test_all_ways_to_score_agree_on_large_numbers(name, tmp_path):
    """In single precision, probabilities would be wrong by 1e-2 and some choices would change."""
    feature, make = LARGE[name]
    rng = np.random.default_rng(0)
    z, sets = rng.normal(size=(400, 3)), np.repeat(np.arange(400), 3)
    taken = (np.argmax(3 * z + rng.gumbel(size=z.shape), 1)[:, None] == np.arange(3)).ravel()
    table = {"search": sets, "seen": make(z).ravel(), "booked": taken * 1}
    table["age"] = np.repeat(1.7e9 + rng.integers(0, 90, 400), 3)
    choices = sw.read(table, set="search", chosen="booked", items=[feature], context=["age"])
    estimator = sw.LinearContextLogit().fit(choices)
    session, one = exported(estimator, tmp_path)
    inputs = given(session, table)
    (found,) = session.run(None, inputs)
    wanted = estimator.predict_proba(choices)
    np.testing.assert_allclose(found.ravel(), wanted, rtol=0, atol=2e-6)
    np.testing.assert_allclose(one.predict_proba(table), wanted, rtol=0, atol=2e-6)
    assert (found.argmax(1) == wanted.reshape(-1, 3).argmax(1)).all()
    single, exact = (estimator.schema_.encode(choices, one) for one in (np.float32, np.float64))
    np.testing.assert_allclose(single.items, exact.items, rtol=1e-6, atol=1e-7)
    if make(z).dtype == np.float64:
        inputs["items"] = inputs["items"].astype(np.float32).astype(np.float64)
        (blurred,) = session.run(None, inputs)
        assert np.abs(blurred - found).max() > 1e-4


def test_large_numbers_keep_their_digits(tmp_path):
    """Standardisation is in double precision: years are not blurred by single precision."""
    rng = np.random.default_rng(0)
    year = rng.integers(2000, 2010, 60)
    table = {"search": np.repeat(np.arange(20), 3), "year": 1e6 + year, "booked": [1, 0, 0] * 20}
    choices = sw.read(table, set="search", chosen="booked")
    session, one = exported(sw.MNL().fit(choices), tmp_path)
    (found,) = session.run(None, given(session, table))
    np.testing.assert_allclose(found.ravel(), one.predict_proba(table), rtol=0, atol=1e-6)


def test_what_training_did_not_know_gives_no_probability(tmp_path):
    table = {
        "search": np.repeat(np.arange(30), 2), "cost": np.arange(60.0) % 7,
        "brand": np.array(["red", "blue"] * 30), "booked": np.array([1, 0] * 15 + [0, 1] * 15),
    }  # fmt: skip
    choices = sw.read(table, set="search", chosen="booked")
    session, _ = exported(scored.as_fitted("mnl", Schema.fit(choices)), tmp_path)
    inputs = given(session, {name: column[:4] for name, column in table.items()})
    (good,) = session.run(None, inputs)
    assert np.isfinite(good).all()
    for column, value in ((1, 2.0), (1, -1.0), (1, np.nan), (0, np.nan)):
        spoiled = inputs | {"items": inputs["items"].copy()}
        spoiled["items"][0, 0, column] = value
        (found,) = session.run(None, spoiled)
        assert np.isnan(found[0]).all()
        np.testing.assert_array_equal(found[1], good[1])  # other sets do not suffer


# The file and the command


def test_the_file_is_valid_and_the_same_each_time(schema, tmp_path):
    estimator = scored.as_fitted("sdw", schema)
    estimator.save(tmp_path / "a.setwise")
    for name in ("a.onnx", "b.onnx"):
        export_onnx(tmp_path / "a.setwise", tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    model = onnx.load(tmp_path / "a.onnx")
    onnx.checker.check_model(model, full_check=True)
    shapes = {
        value.name: [size.dim_param or size.dim_value for size in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    assert shapes == {
        "items": ["sets", "items", 6], "context": ["sets", 2], "present": ["sets", "items"],
        "probability": ["sets", "items"], "outside": ["sets"],
    }  # fmt: skip
    assert {one.domain for one in model.opset_import} == {""}


def test_the_command_says_what_goes_where(schema, tmp_path):
    scored.as_fitted("mnl", schema).save(tmp_path / "a.setwise")
    arguments = ["export", str(tmp_path / "a.setwise"), "--out", str(tmp_path / "a.onnx")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0
    assert "brand" in done.output
    assert "blue, green, red, other" in done.output
    told = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert [one["column"] for one in told["items"]] == [
        "cost", "stars", "review", "brand", "hotel", "day",
    ]  # fmt: skip
    assert [one["column"] for one in told["context"]] == ["age", "city"]
    assert told["outside"] is True


def test_without_onnx_the_command_says_what_to_install(schema, tmp_path):
    scored.as_fitted("mnl", schema).save(tmp_path / "a.setwise")
    script = (
        "import sys; sys.modules['onnx'] = None\nfrom setwise.cli import main\n"
        f"sys.argv = ['setwise', 'export', {str(tmp_path / 'a.setwise')!r}, '--out', "
        f"{str(tmp_path / 'a.onnx')!r}]\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "error: writing ONNX needs the package onnx: pip install 'setwise[export]'"
    )
    assert not (tmp_path / "a.onnx").exists()
