"""Counterfactuals: as predictions on changed tables, and surplus by its laws."""

import numpy as np
import polars as pl
import pytest

import setwise as sw
from setwise.consequences import Add, Remove, Reprice, counterfactual
from setwise.consequences.willingness import surplus
from test_consequences import positive
from test_violations import read, with_model

ITEM = {"cost": 1.0, "time": 0.5, "brand": "red"}


def probabilities(estimator, frame: pl.DataFrame) -> dict[int, float]:
    p = estimator.predict_proba(frame.drop("row"))
    return dict(zip(frame["row"].to_list(), p.tolist(), strict=True))


@pytest.fixture
def frame() -> pl.DataFrame:
    """Rows of the sets mixed, so that their order matters."""
    whole = positive([4, 3, 4, 3] * 4)
    return whole.with_columns(kind=pl.int_range(pl.len()) % 3).sample(
        fraction=1, shuffle=True, seed=0
    )


@pytest.fixture
def estimator(frame):
    return with_model("lcl", read(frame))


def test_other_prices_are_a_table_with_other_prices(frame, estimator):
    found = counterfactual(estimator, frame, Reprice("cost", 1.5, {"kind": [0, 2]}))
    numbered = frame.with_row_index("row")
    dearer = numbered.with_columns(
        cost=pl.when(pl.col("kind") != 1).then(pl.col("cost") * 1.5).otherwise("cost")
    )
    before, after = probabilities(estimator, numbered), probabilities(estimator, dearer)
    np.testing.assert_allclose(found.before, [before[row] for row in found.row], atol=1e-7)
    np.testing.assert_allclose(found.after, [after[row] for row in found.row], atol=1e-7)
    assert found.to_frame().columns == ["set", "row", "before", "after"]
    trips = frame["trip"].to_numpy()
    np.testing.assert_array_equal(found.set_ids, trips[found.row])


def test_a_function_may_change_a_column(frame, estimator):
    twice = counterfactual(estimator, frame, Reprice("cost", lambda x: x + x))
    factor = counterfactual(estimator, frame, Reprice("cost", 2))
    np.testing.assert_array_equal(twice.after, factor.after)


def test_items_that_go_are_rows_less(frame, estimator):
    found = counterfactual(estimator, frame, Remove({"kind": 1}))
    after = probabilities(estimator, frame.with_row_index("row").filter(pl.col("kind") != 1))
    np.testing.assert_allclose(found.after, [after.get(row, 0) for row in found.row], atol=1e-7)
    sums = pl.DataFrame({"set": found.set_ids, "p": found.after}).group_by("set").sum()
    np.testing.assert_allclose(sums["p"], 1, atol=1e-6)


def test_an_item_that_comes_is_a_row_more(frame, estimator):
    item = ITEM | {"kind": 7}
    found = counterfactual(estimator, frame, Add(item), by="kind")
    trips = frame["trip"].unique(maintain_order=True)
    rows = frame.group_by("trip", maintain_order=True).first().with_columns(
        **{name: pl.lit(value) for name, value in item.items()}
    )  # fmt: skip
    more = pl.concat([frame, rows.select(frame.columns).cast(dict(frame.schema))])
    p = estimator.predict_proba(more)
    new = dict(zip(trips, p[len(frame) :], strict=True))
    added = found.row == -1
    assert added.sum() == len(trips)
    np.testing.assert_allclose(
        found.after[added], [new[trip] for trip in found.set_ids[added]], atol=1e-7
    )
    assert (found.before[added] == 0).all()
    np.testing.assert_allclose(found.after[~added], p[found.row[~added]], atol=1e-7)
    place = found.shares.names.index("7")
    assert found.shares.before[place] == 0
    assert found.shares.after[place] == pytest.approx(p[len(frame) :].mean(), abs=1e-6)
    assert found.shares.after.sum() == pytest.approx(1, abs=1e-6)


def test_changes_are_made_in_turn(frame, estimator):
    item = ITEM | {"kind": 7}
    found = counterfactual(
        estimator, frame, [Add(item), Reprice("cost", 3, {"kind": 7}), Remove({"kind": 1})]
    )
    dear = counterfactual(estimator, frame, [Remove({"kind": 1}), Add(item | {"cost": 3.0})])
    np.testing.assert_allclose(found.after, dear.after, atol=1e-7)
    assert "then" in str(found)


def test_values_of_an_added_item_may_differ_between_sets(frame, estimator):
    costs = np.linspace(0.5, 2, 16)
    item = {"cost": costs, "time": 0.5, "brand": ["red", "blue"] * 8}
    found = counterfactual(estimator, frame, Add(item))
    alone = counterfactual(
        estimator, frame, Add({"cost": float(costs[3]), "time": 0.5, "brand": "blue"})
    )
    fourth = found.set_ids == estimator.read(frame).set_ids[3]
    np.testing.assert_allclose(found.after[fourth], alone.after[fourth], atol=1e-7)


def test_with_an_outside_option_a_set_may_lose_all_its_items():
    frame = positive([3, 1] * 4, outside=True).with_columns(
        kind=pl.int_range(pl.len()).cum_count().over("trip")
    )
    choices = read(frame, outside=True)
    estimator = with_model("mnl", choices)
    found = counterfactual(estimator, frame, Remove({"kind": 1}), by="kind", price=None)
    assert found.shares.names[-1] == "outside option"
    assert found.shares.after.sum() == pytest.approx(1, abs=1e-6)
    assert found.shares.after[found.shares.names.index("1")] == 0
    alone = np.isin(found.set_ids, choices.set_ids[choices.sizes == 1])
    assert (found.after[alone] == 0).all()


def test_a_set_without_an_item_is_refused(frame, estimator):
    with pytest.raises(sw.InputError, match="nothing would be left in set 'trip'"):
        counterfactual(estimator, frame, Remove({"kind": [0, 1, 2]}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Reprice("brand", 2), "no number column 'brand'"),
        (Reprice("cost", 2, {"kind": 9}), "no item is one where kind=9"),
        (Reprice("cost", lambda x: x + np.inf), "which the model cannot read"),
        (Remove({"colour": "red"}), "'colour' is not in the table"),
        (Add({"cost": 1.0}), "no value of time, brand"),
        (Add(ITEM | {"brand": "pink"}), "brand=pink, which training data did not have"),
        (Add(ITEM | {"cost": "cheap"}), "column 'cost' is a number"),
        (Add(ITEM | {"cost": [1.0, 2.0]}), "2 values of 'cost', and there are 16 sets"),
    ],
)
def test_impossible_changes_are_refused(frame, estimator, change, message):
    with pytest.raises(sw.InputError, match=message):
        counterfactual(estimator, frame, change)


def test_a_logarithm_of_nothing_is_refused():
    frame = positive([3] * 4)
    estimator = with_model("mnl", read(frame, items=["log(cost)"], context=[]))
    with pytest.raises(sw.InputError, match="makes 'cost' 0 at row 0"):
        counterfactual(estimator, frame, Reprice("cost", 0))


def test_trees_have_counterfactuals_too():
    pytest.importorskip("lightgbm")
    frame = positive([4] * 40)
    trees = sw.LambdaMART(threads=1, rounds=3, min_rows=5).fit(read(frame))
    found = counterfactual(trees, frame, Remove({"brand": "red", "trip": 0}))
    assert (found.after[found.set_ids > 0] == found.before[found.set_ids > 0]).all()


# Surplus

MODELS = {
    "mnl": sw.MNL,
    "nested": lambda: sw.NestedLogit("brand"),
    "mixed": lambda: sw.MixedMNL(classes=2, starts=1),
}


@pytest.fixture(scope="module")
def priced() -> tuple[pl.DataFrame, dict]:
    """Two kinds of people, so that two classes are to be found."""
    frame = positive([4] * 300, seed=1)
    rng = np.random.default_rng(2)
    taste = np.where(np.arange(300) % 2 == 0, -2.0, 2.0)[frame["trip"].to_numpy()]
    utility = -frame["cost"].to_numpy() + taste * frame["time"].to_numpy()
    best = (utility + rng.gumbel(size=len(frame))).reshape(-1, 4).argmax(1)
    taken = (np.arange(4) == best[:, None]).ravel().astype(int)
    frame = frame.with_columns(taken=taken)
    choices = read(frame, items=["cost", "time", "brand"], context=[])
    return choices, {name: make().fit(choices) for name, make in MODELS.items()}


@pytest.mark.parametrize("name", MODELS)
def test_when_all_prices_rise_by_one_everyone_loses_one(priced, name):
    choices, models = priced
    found = counterfactual(models[name], choices, Reprice("cost", lambda x: x + 1), price="cost")
    np.testing.assert_allclose(found.surplus.of_sets, -1, atol=1e-9)
    assert "consumer surplus per choice -1.0000" in str(found)


def test_a_little_dearer_costs_those_who_buy_it(priced):
    """Roy's identity: the surplus falls by P times the rise."""
    choices, models = priced
    step, first = 1e-4, choices.offsets[:-1]
    moved = np.zeros(int(choices.offsets[-1]))
    moved[first] = step
    for model in models.values():
        found = counterfactual(model, choices, Reprice("cost", lambda x: x + moved), price="cost")
        np.testing.assert_allclose(
            found.surplus.of_sets / step, -model.predict_proba(choices)[first], atol=2e-4
        )


def test_a_logits_surplus_is_its_logsum(priced):
    choices, models = priced
    model = models["mnl"]
    coefficients = dict(zip(model.feature_names_, model.coef_, strict=True))
    columns = {name: column.text() for name, column in choices.columns.items()}
    utility = coefficients["cost"] * columns["cost"] + coefficients["time"] * columns["time"]
    utility += np.array([coefficients[f"brand={one}"] for one in columns["brand"]])
    logsum = np.log(np.exp(utility).reshape(-1, 4).sum(1))
    found = surplus(model, choices, "cost")
    np.testing.assert_allclose(
        found - found[0], (logsum - logsum[0]) / -coefficients["cost"], atol=1e-9
    )


def test_models_without_a_surplus_are_refused(frame, estimator):
    with pytest.raises(sw.InputError, match="has no consumer surplus"):
        counterfactual(estimator, frame, Reprice("cost", 2), price="cost")
