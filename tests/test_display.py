"""How columns and items are shown: groups of 0/1 columns, names of items, ranges, and refusals."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import setwise as sw
from setwise import InputError
from setwise.choices import Display
from setwise.choices.reading import records
from setwise.cli import app
from setwise.scoring.members import Members
from setwise.scoring.model_file import Artifact

SETS = 100


def table(**more):
    """Sets of a train, a bus and a car, with 0/1 columns for each of them."""
    rng = np.random.default_rng(0)
    mode = np.tile(np.arange(3), SETS)
    return {
        "trip": np.repeat(np.arange(SETS), 3),
        "taken": np.eye(3, dtype=int)[rng.integers(0, 3, SETS)].reshape(-1),
        "cost": rng.integers(1, 50, 3 * SETS),
        "is_train": (mode == 0).astype(int),
        "is_bus": (mode == 1).astype(int),
        "is_car": (mode == 2).astype(int),
        "wifi": rng.integers(0, 2, 3 * SETS),
    } | more


def shown(given, **options):
    return Display.of(sw.read(given, set="trip", chosen="taken"), **options)


def test_neighbouring_columns_that_exclude_each_other_are_one_choice():
    found = shown(table())
    assert found.one_hot == (("is_train", "is_bus", "is_car"),)
    assert found.item_name == "{is_train}"


def test_a_level_that_was_left_out_is_seen_by_how_names_begin():
    given = table()
    del given["is_car"]
    assert shown(given).one_hot == (("is_train", "is_bus"),)
    assert shown(given).item_name is None  # a car has no name of its own
    given["bus"] = given.pop("is_bus")
    assert shown(given).one_hot == ()


def test_columns_that_seldom_are_one_may_be_apart_by_chance():
    """Of 300 rows two have a pool and two a spa: by chance they would meet in 0.013 rows."""
    has = np.zeros((2, 3 * SETS), int)
    has[0, :2] = has[1, 5:7] = 1
    assert shown(table(has_pool=has[0], has_spa=has[1])).one_hot == (
        ("is_train", "is_bus", "is_car"),
    )


def test_items_are_named_by_their_alternative_then_by_a_category():
    modes = np.tile(["Train", "Bus", "Car"], SETS)
    named = sw.read(
        table(mode=modes), set="trip", chosen="taken", items=["cost"], alternative="mode"
    )
    assert Display.of(named).item_name is None  # the records have the names
    assert {tuple(one["names"]) for one in records(named)} == {("Train", "Bus", "Car")}
    assert shown(table(mode=modes)).item_name == "{mode}"
    assert "names" not in records(sw.read(table(), set="trip", chosen="taken"))[0]


def test_ranges_are_the_central_part_of_the_data():
    cost = np.concatenate([[1e6], np.arange(1, 3 * SETS)]).astype(float)
    found = shown(table(cost=cost, share=cost / 7, same=np.ones(3 * SETS))).ranges
    low, high = np.quantile(cost, [0.005, 0.995], method="nearest")
    assert found["cost"] == (low, high, True)
    assert high < 300
    assert found["share"][2] is False
    assert "same" not in found


def test_labels_have_units_at_their_end():
    found = shown(table(), labels={"cost": "price per night (€)", "wifi": "Wi-Fi"})
    assert found.labelled("cost") == ("price per night", "€")
    assert found.labelled("wifi") == ("Wi-Fi", None)
    assert found.labelled("is_bus") == ("is_bus", None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": {"price": "price"}}, "there is no column 'price' to show; the columns are: co"),
        ({"labels": {"cost": 3}}, "labels"),
        ({"item_name": "{brand}"}, "there is no column 'brand' to show"),
        ({"item_name": "a hotel"}, "must name columns in braces"),
        ({"item_name": "{cost:.2f}"}, "must name columns in braces and nothing else"),
        ({"item_name": "{cost"}, "has unpaired braces"),
    ],
)
def test_what_cannot_be_shown_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        shown(table(), **options)


def test_a_display_is_kept_in_the_file(tmp_path):
    choices = sw.read(table(), set="trip", chosen="taken")
    display = Display.of(choices, {"cost": "cost (€)"}, "{is_train} for {cost}")
    assert Display.from_json(json.loads(json.dumps(display.to_json()))).labels == display.labels
    model = sw.MNL().fit(choices)
    model.save(tmp_path / "a.setwise", display=display)
    kept = Artifact.read(tmp_path / "a.setwise").display
    assert kept.item_name == "{is_train} for {cost}"
    assert kept.one_hot == display.one_hot
    assert {name: tuple(one) for name, one in kept.ranges.items()} == display.ranges
    model.save(tmp_path / "b.setwise", sample=choices)
    assert Artifact.read(tmp_path / "b.setwise").display.item_name == "{is_train}"
    model.save(tmp_path / "c.setwise")
    assert Artifact.read(tmp_path / "c.setwise").display is None


@pytest.mark.parametrize(
    "plain", [{"labels": 3}, {"ranges": {"cost": [1, 2]}}, {"one_hot": [3]}, {"item_name": 3}]
)
def test_a_display_of_another_shape_is_refused(plain):
    with pytest.raises(InputError):
        Display.from_json(plain)


def test_the_command_keeps_labels_and_no_range_without_a_sample(tmp_path):
    for sample in (24, 0):
        path = tmp_path / f"{sample}.setwise"
        line = ["fit", "swissmetro", "--model", "mnl", "--sample", str(sample), "--out", str(path)]
        line += ["--label", "time=minutes (min)", "--item-name", "{is_sm}"]
        done = CliRunner().invoke(app, line)
        assert done.exit_code == 0, done.output
        kept = Artifact.read(path).display
        assert (kept.labels["time"], kept.labels["is_sm"]) == ("minutes (min)", "Swissmetro")
        assert kept.item_name == "{is_sm}"
        assert bool(kept.ranges) == (sample > 0)


# Members of an ensemble


@pytest.fixture(scope="module")
def choices():
    return sw.datasets.generate("mnl", sets=120, items=3, features=2, seed=0).choices


def artifact_of(model, folder):
    model.save(folder / "model.setwise")
    return Artifact.read(folder / "model.setwise")


def test_members_are_what_each_model_says_alone(choices, tmp_path):
    few = sw.Training(epochs=2)
    both = sw.ChoiceModel("sdw", dimension=2, ensemble=2, training=few).fit(choices)
    arrays, rest = eqx.partition(both.model_.members[0], eqx.is_array)
    artifact = artifact_of(both, tmp_path)
    members = Members.of(artifact, "model.setwise")
    assert members.weights == pytest.approx(both.weights_)
    encoded = both.schema_.encode(choices)
    found = members.probabilities(encoded)
    assert found.shape == (2, len(encoded.items))
    for place in range(2):
        alone = eqx.combine(jax.tree.map(lambda one, place=place: one[place], arrays), rest)
        sets = jnp.asarray(encoded.items.reshape(-1, 3, 2))
        expected = jax.vmap(lambda x, alone=alone: alone.probabilities(x, jnp.ones(3, bool)))(sets)
        np.testing.assert_allclose(found[place], np.ravel(expected), atol=1e-5)
    assert np.abs(found[0] - found[1]).max() > 1e-3


def test_a_model_alone_and_classes_of_people_are_no_members(choices, tmp_path):
    """The classes of a mixture differ because people do, not because the model is unsure."""
    for model in (sw.MNL(), sw.MixedMNL(classes=2)):
        assert Members.of(artifact_of(model.fit(choices), tmp_path), "model.setwise") is None
