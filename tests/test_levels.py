"""Levels that all parts of the data have in common."""

import numpy as np
import pytest

import setwise as sw
from setwise.choices import Schema
from setwise.choices.schema import common_levels


@pytest.fixture
def choices():
    """Brand c is in 3 of 120 rows, city y in 3 of 60 sets; one brand is missing."""
    sets = 60
    brands = np.array(["a", "b"] * sets, dtype=object)
    brands[[0, 40, 80]], brands[17] = "c", None
    city = np.where(np.arange(sets) % 20 == 0, "y", "x")
    table = {
        "set": np.repeat(np.arange(sets), 2),
        "chosen": np.tile([1, 0], sets),
        "brand": brands.tolist(),
        "price": np.arange(2.0 * sets),
        "city": np.repeat(city, 2).tolist(),
    }
    return sw.read(
        table, set="set", chosen="chosen", items=["impute(brand)", "price"], context=["city"]
    )


def test_rare_levels_are_grouped_and_the_rest_stays(choices):
    grouped = common_levels(choices, least=4)
    brand = grouped.columns["brand"]
    assert brand.levels == ("a", "b", "other")
    assert brand.text().tolist()[:4] == ["other", "b", "a", "b"]
    assert brand.text().tolist()[17] is None
    assert grouped.context["city"].levels == ("x", "other")
    assert grouped.columns["price"] is choices.columns["price"]
    assert grouped.chosen is choices.chosen


def test_parts_then_have_the_same_columns(choices):
    """By themselves they have not: some training parts lack a level."""
    plain, grouped = (
        {tuple(Schema.fit(sw.split(one, seed=seed)[0]).item_names) for seed in range(20)}
        for one in (choices, common_levels(choices, least=4))
    )
    assert len(plain) > 1
    assert len(grouped) == 1


def test_numbers_and_popularity_need_nothing():
    table = {
        "set": [1, 1, 2, 2], "chosen": [1, 0, 0, 1], "hotel": ["a", "b", "a", "c"],
        "price": [1.0, 2.0, 3.0, 4.0],
    }  # fmt: skip
    choices = sw.read(table, set="set", chosen="chosen", items=["popularity(hotel)", "price"])
    assert common_levels(choices) is choices


def test_choices_on_disk_are_loaded(choices, tmp_path):
    path = tmp_path / "some.setwise-data"
    sw.save_choices(choices, path)
    stored, plain = (common_levels(one, least=4) for one in (sw.open_choices(path), choices))
    assert stored.columns["brand"].text().tolist() == plain.columns["brand"].text().tolist()


def test_rare_alternatives_are_not_merged_without_a_word():
    rng = np.random.default_rng(0)
    mode = np.tile(["bus", "car"], 300).astype("<U4")
    mode[-2] = "boat"
    table = {"s": np.arange(300).repeat(2), "mode": mode, "cost": rng.uniform(1, 5, 600),
             "taken": np.tile([1, 0], 300)}  # fmt: skip
    table["taken"][::4], table["taken"][1::4] = 0, 1
    roles = {"set": "s", "chosen": "taken"}
    with pytest.warns(sw.DataWarning, match="column 'mode' seems to name the alternatives, and 'b"):
        sw.Schema.fit(sw.read(table, **roles, items=["cost", "mode"]))
    kept = sw.Schema.fit(sw.read(table, **roles, items=["cost", "mode"], rare=0.0))
    assert "mode=boat" in kept.item_names
    repeated = table | {"mode": np.where(mode == "car", "bus", mode)}  # a kind, not a name
    sw.Schema.fit(sw.read(repeated, **roles, items=["cost", "mode"]))


def test_rare_nests_are_never_merged():
    made = sw.datasets.generate("nested", sets=300, features=2, nests=2)
    nest = np.array(made.columns["nest"]).astype(object)
    nest[:2] = "rare"
    columns = dict(made.columns) | {"nest": nest.astype(str)}
    choices = sw.read(columns, set="set_id", chosen="chosen", items=[*made.items, "category(nest)"])
    assert "rare" in sw.NestedLogit("nest").fit(choices).nests_
