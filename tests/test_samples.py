"""What a model file brings for a service: sets of its data as plain values, and an MNL beside."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import setwise as sw
from serving import read_trips, trips
from setwise._errors import InputError
from setwise.choices.reading import ROWS_IN_SAMPLE, few, records
from setwise.cli import app
from setwise.estimators import reference_mnl
from setwise.estimators.base import held_out
from setwise.scoring.model_file import Artifact
from setwise.training import shards


@pytest.fixture(scope="module")
def choices() -> sw.Choices:
    return sw.datasets.generate("mnl", sets=200, items=3, features=2, seed=0).choices


def test_records_hold_every_value_of_the_table():
    table = trips(30)
    found = records(read_trips(table))
    rows = [item | one["context"] for one in found for item in one["items"]]
    for name in ("cost", "stars", "brand", "host", "built", "purpose", "nights"):
        values = [str(value) for value in table[name]] if name == "built" else table[name]
        assert [row[name] for row in rows] == values
    assert [row["code"] for row in rows] == [str(value) for value in table["code"]]
    assert [row["review"] is None for row in rows] == [x != x for x in table["review"]]
    begin = 0
    for one in found:
        taken = table["taken"][begin : begin + len(one["items"])]
        assert one["chosen"] == (taken.index(1) if 1 in taken else None)
        begin += len(taken)


def test_records_are_plain_json():
    found = records(read_trips(trips(10)))
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_times_of_the_day_are_kept_and_what_is_not_known_is_left_out():
    at = np.array(["2024-05-06T07:08:09", "2024-05-07T00:00:00"], "datetime64[s]")
    found = records(sw.read({"s": [1, 1], "at": at}, set="s"))
    assert found == [{"items": [{"at": "2024-05-06T07:08:09"}, {"at": "2024-05-07T00:00:00"}]}]


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 24), st.integers(1, 400))
def test_few_sets_are_few(sets, items):
    whole = sw.read({"s": np.repeat(np.arange(30), items), "x": np.arange(30.0 * items)}, set="s")
    found = few(whole, sets)
    assert 1 <= len(found) <= sets
    assert found.offsets[-1] <= ROWS_IN_SAMPLE
    assert len(found) == sets or (len(found) + 1) * items > ROWS_IN_SAMPLE
    assert few(whole, sets).set_ids.tolist() == found.set_ids.tolist()


def test_one_large_set_is_shown_all_the_same():
    size = ROWS_IN_SAMPLE + 1
    assert len(few(sw.read({"s": [0] * size, "x": np.arange(float(size))}, set="s"))) == 1


def test_a_file_keeps_what_it_is_given_and_nothing_else(choices, tmp_path):
    model = sw.LinearContextLogit().fit(choices)
    model.save(tmp_path / "bare.setwise")
    bare = Artifact.read(tmp_path / "bare.setwise")
    assert (bare.sample, bare.reference) == ([], {})
    weights = reference_mnl(model, choices)
    for name in ("one", "two"):
        model.save(tmp_path / name, sample=choices, reference=weights)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    kept = Artifact.read(tmp_path / "one")
    assert kept.sample == records(few(choices))
    np.testing.assert_array_equal(kept.reference["mnl"], weights)
    again = sw.load(tmp_path / "one")
    np.testing.assert_array_equal(again.predict_proba(choices), model.predict_proba(choices))


def test_a_sample_of_other_columns_is_refused(choices, tmp_path):
    model = sw.MNL().fit(choices)
    other = sw.read({"s": [1, 1], "y": [1.0, 2.0], "c": [0, 1]}, set="s", chosen="c")
    with pytest.raises(InputError, match="'x0' is missing"):
        model.save(tmp_path / "a.setwise", sample=other)
    assert not (tmp_path / "a.setwise").exists()


def test_the_mnl_beside_learns_from_the_same_sets(choices):
    model = sw.SDA(seed=3)
    train = held_out(choices, 3)[0]  # as fit does; training itself takes long
    model.schema_ = sw.Schema.fit(train)
    expected = sw.MNL().fit(train)
    found = reference_mnl(model, choices)
    np.testing.assert_allclose(found, expected.coef_ * expected.schema_.item_scales, rtol=1e-6)
    np.testing.assert_array_equal(reference_mnl(model, train), found)
    with pytest.raises(InputError, match="not the sets that the model learned from"):
        reference_mnl(model, choices.take(np.arange(50)))


def test_no_mnl_is_fitted_to_data_that_stay_on_disk(choices, tmp_path, monkeypatch):
    sw.save_choices(choices, tmp_path / "trips.setwise-data")
    stored = sw.open_choices(tmp_path / "trips.setwise-data")
    model = sw.WithinSetMNL().fit(stored)
    np.testing.assert_array_equal(reference_mnl(model, stored), reference_mnl(model, choices))
    monkeypatch.setattr(shards, "ROWS_PER_SHARD", 599)
    with pytest.raises(InputError, match="stay on disk"):
        reference_mnl(model, stored)
    reference_mnl(model, choices)


def test_popularity_beside_is_cross_fitted_like_the_models():
    trip = read_trips(trips(), on_none="drop", items=["cost", "popularity(host)"], context=[])
    model = sw.LinearContextLogit().fit(trip)
    mnl = sw.MNL().fit(trip)
    np.testing.assert_allclose(
        reference_mnl(model, trip), mnl.coef_ * mnl.schema_.item_scales, rtol=1e-6
    )


def test_the_command_keeps_examples_and_an_mnl(tmp_path):
    def fitted(*options: str) -> Artifact:
        out = tmp_path / "trips.setwise"
        done = CliRunner().invoke(app, ["fit", "modecanada", "--out", str(out), *options])
        assert done.exit_code == 0, done.output
        return Artifact.read(out)

    quick = ("--max-sets", "150", "--min-items", "2", "--model")
    kept = fitted(*quick, "mnl_within_set")
    assert len(kept.sample) == 24
    assert len(kept.reference["mnl"]) == len(kept.schema.item_names)
    bound = fitted(*quick, "mnl", "--sample", "3")
    assert len(bound.sample) == 3
    assert bound.reference == {}  # IIA binds the model itself
    nothing = fitted(*quick, "mnl", "--sample", "0")
    assert nothing.sample == []
