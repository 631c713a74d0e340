"""Elasticities, diversion, shares and willingness to pay: closed forms and finite differences."""

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

import setwise as sw
from setwise import _masked
from setwise.consequences import (
    Reprice,
    counterfactual,
    diversion_ratios,
    elasticities,
    expected_shares,
    willingness_to_pay,
)
from setwise.consequences.elasticities import arcs
from setwise.models import ZOO
from test_violations import read, table, with_model

QUICK = ("sda",)
ONE_OF_EACH = [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in ZOO]
MODES = ["is_car", "is_train", "is_bus", "is_air"]


def positive(sizes, seed=0, outside=False) -> pl.DataFrame:
    """A table whose cost is a price, and whose choices lean to the cheap."""
    rng = np.random.default_rng(seed)
    frame = table(sizes, seed, outside).with_columns(pl.col("cost").exp() + 0.1)
    utility = -frame["cost"] + pl.Series(rng.gumbel(size=len(frame)))
    frame = frame.with_columns(utility=utility)
    best = pl.col("utility") == pl.col("utility").max().over("trip")
    bought = pl.col("trip") % 3 != 0 if outside else pl.lit(True)
    return frame.with_columns(taken=(best & bought).cast(pl.Int64)).drop("utility")


@pytest.fixture(scope="module")
def nested() -> tuple[sw.NestedLogit, sw.Choices]:
    made = sw.datasets.generate("nested", sets=400, features=2, nests=2)
    columns = dict(made.columns) | {"x0": np.exp(np.asarray(made.columns["x0"]) / 2)}
    items = ["x0", "x1", "category(nest)"]
    choices = sw.read(columns, set="set_id", chosen="chosen", items=items)
    return sw.NestedLogit("nest").fit(choices), choices


def by_set(choices, values):
    return [values[a:b] for a, b in itertools.pairwise(choices.offsets)]


# Closed forms


@pytest.mark.parametrize(
    ("expression", "slope"),
    [
        ("cost", lambda x: x),
        ("log(cost)", np.ones_like),
        ("log1p(cost)", lambda x: x / (1 + x)),
        ("sqrt(cost)", lambda x: np.sqrt(x) / 2),
    ],
)
def test_a_logit_has_its_closed_form_in_the_tables_units(expression, slope):
    choices = read(positive([4, 3] * 40), items=[expression, "time", "brand"])
    model = sw.MNL().fit(choices)
    found, p = elasticities(model, choices, "cost"), model.predict_proba(choices)
    beta = model.coef_[0]
    x = slope(choices.columns["cost"].values)
    for number, (each, share) in enumerate(
        zip(by_set(choices, x), by_set(choices, p), strict=True)
    ):
        wanted = beta * each * (np.eye(len(each)) - share)  # row a, column b
        np.testing.assert_allclose(found.of_set(number), wanted, rtol=1e-4)


def test_a_nested_logit_has_its_closed_form(nested):
    model, choices = nested
    assert (model.lambdas_ < 0.95).all()
    found = elasticities(model, choices, "x0")
    p, x = model.predict_proba(choices), choices.columns["x0"].values
    nest = choices.columns["nest"].values
    parts = (by_set(choices, one) for one in (p, x, nest))
    for number, (share, each, k) in enumerate(zip(*parts, strict=True)):
        same = k[:, None] == k
        within = share / (same * share).sum(1)  # P(b | its nest)
        inverse = 1 / model.lambdas_[k]
        own = np.eye(len(k)) * inverse
        wanted = model.coef_[0] * each * (own - same * (inverse - 1) * within - share)
        np.testing.assert_allclose(found.of_set(number), wanted, rtol=1e-4, atol=1e-6)


# Finite differences, in double precision, through the table


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_every_model_agrees_with_finite_differences(name):
    frame = positive([4] * 6, outside=True)
    choices = read(frame, outside=True, items=["log1p(cost)", "time", "brand"])
    estimator = with_model(name, choices, seed=1)
    estimator.model_ = jax.tree.map(lambda leaf: 0.5 * leaf, estimator.model_)
    found = elasticities(estimator, choices, "cost")
    step = 1e-6
    with jax.enable_x64(True):
        model = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), float), estimator.model_)
        logs = jax.jit(
            jax.vmap(
                lambda items: _masked.log_softmax(
                    model.scores(items, jnp.ones(5, bool)), jnp.ones(5, bool)
                )
            )
        )
        for b in range(4):
            factor = np.where(np.arange(24) % 4 == b, 1.0, 0.0)
            sides = []
            for sign in (1, -1):
                cost = frame["cost"].to_numpy() * np.exp(sign * step * factor)
                moved = read(frame.with_columns(cost=cost), outside=True,
                             items=["log1p(cost)", "time", "brand"])  # fmt: skip
                data = estimator.schema_.encode(moved, np.float64)
                whole = np.hstack([data.items, np.repeat(data.context, 5, 0)])
                sides.append(np.asarray(logs(whole.reshape(6, 5, -1))))
            wanted = (sides[0] - sides[1]) / (2 * step)
            got = np.stack([found.of_set(number)[:, b] for number in range(6)])
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_elasticities_between_alternatives_are_those_of_expected_shares():
    frame = positive([4] * 30, outside=True)
    choices = read(frame, outside=True, weight="weight")
    estimator = with_model("mixed_mnl", choices)
    found = elasticities(estimator, choices, "cost", by="brand").between
    assert found.names == ("blue", "green", "red", "outside option")
    for place, brand in enumerate(("blue", "green", "red")):
        shares = [
            counterfactual(
                estimator, choices, Reprice("cost", np.exp(step), {"brand": brand}), by="brand"
            ).shares.after
            for step in (0.01, -0.01)
        ]
        wanted = (np.log(shares[0]) - np.log(shares[1])) / 0.02
        np.testing.assert_allclose(found.values[:, place], wanted, rtol=2e-3, atol=1e-4)


def test_averages_are_weighted_by_probability():
    choices = read(positive([4] * 20), weight="weight")
    estimator = with_model("cdm", choices)
    found, p = elasticities(estimator, choices, "cost"), estimator.predict_proba(choices)
    own, cross, mass, other = 0.0, 0.0, 0.0, 0.0
    for number, share in enumerate(by_set(choices, p)):
        weight, matrix = choices.weight[number], found.of_set(number)
        for a, b in itertools.product(range(len(share)), repeat=2):
            if a == b:
                own, mass = own + weight * share[a] * matrix[a, a], mass + weight * share[a]
            else:
                cross, other = cross + weight * share[a] * matrix[a, b], other + weight * share[a]
    assert found.own == pytest.approx(own / mass, rel=1e-4)
    assert found.cross == pytest.approx(cross / other, rel=1e-4)
    low, high = found.interval()
    assert low < found.own < high
    assert "own: mean over all items of all sets" in str(found)


def test_where_a_value_is_missing_there_is_no_elasticity():
    frame = positive([3] * 20)
    gaps = frame.with_columns(
        cost=pl.when(pl.int_range(pl.len()) % 7 == 1).then(None).otherwise("cost")
    )
    choices = read(gaps, items=["impute(log(cost))", "time"], context=[])
    model = sw.MNL().fit(choices)
    found = elasticities(model, choices, "cost")
    assert np.isnan(found.of_set(0)).tolist() == [[False, True, False]] * 3
    assert np.isfinite(found.own)


@pytest.mark.parametrize(
    ("column", "message"),
    [("brand", "is a category"), ("income", "is context"), ("price", "no item column 'price'")],
)
def test_columns_that_cannot_change_by_a_little_are_refused(column, message):
    choices = read(table([3] * 4))
    with pytest.raises(sw.InputError, match=message):
        elasticities(with_model("mnl", choices), choices, column)


# Diversion


@pytest.mark.parametrize("column", [None, "cost"])
def test_a_logit_diverts_in_proportion(column):
    choices = read(positive([4, 3] * 6, outside=True), outside=True)
    estimator = with_model("mnl", choices)
    found = diversion_ratios(estimator, choices, column, by="brand")
    p = elasticities(estimator, choices, "cost").probability
    starts = np.cumsum(choices.sizes + 1) - choices.sizes - 1
    for number, size in enumerate(choices.sizes):
        share = p[starts[number] : starts[number] + size + 1]
        wanted = share[:, None] / (1 - share[:size])
        wanted[np.arange(size), np.arange(size)] = -1
        np.testing.assert_allclose(found.of_set(number), wanted, rtol=2e-4)
    np.testing.assert_allclose(found.between.values[:, :3].sum(0), 1, rtol=1e-5)
    assert "from the column to the row" in str(found)


@pytest.mark.parametrize("column", [None, "cost"])
def test_what_leaves_an_item_of_a_context_model_arrives_elsewhere(column):
    choices = read(positive([4] * 12))
    found = diversion_ratios(with_model("cdm", choices), choices, column)
    for number in range(len(choices)):
        matrix = found.of_set(number)
        np.testing.assert_allclose(np.diag(matrix), -1)
        np.testing.assert_allclose(matrix.sum(0), 0, atol=1e-6)  # 1e-16 over P(b)


def test_nobody_leaves_for_a_column_that_does_not_matter():
    choices = read(positive([3, 3]))
    estimator = sw.RandomChoice().fit(choices)
    assert np.isnan(diversion_ratios(estimator, choices, "cost").of_set(0)).all()
    alone = read(positive([1, 2]))
    assert np.isnan(diversion_ratios(estimator, alone).of_set(0)).all()


def test_trees_divert_when_items_leave_or_change():
    pytest.importorskip("lightgbm")
    choices = read(positive([4] * 40))
    trees = sw.LambdaMART(threads=1, rounds=3, min_rows=5).fit(choices)
    found, p = diversion_ratios(trees, choices), trees.predict_proba(choices)[:4]
    assert found.of_set(0)[1, 0] == pytest.approx(p[1] / (1 - p[0]))
    by_cost = diversion_ratios(trees, choices, "cost")
    assert "changed by 10%" in str(by_cost)
    known = ~np.isnan(by_cost.pairs.values)
    assert known.any()
    np.testing.assert_allclose(by_cost.pairs.values[known & by_cost.pairs.same()], -1)


@pytest.mark.parametrize("outside", [False, True])
def test_finite_changes_are_those_of_counterfactuals(outside):
    """Of models with steps: set by set, with only one item changed."""
    pytest.importorskip("lightgbm")
    frame = positive([3, 2, 4] * 20, outside=outside)
    choices = read(frame, outside)
    trees = sw.LambdaMART(threads=1, rounds=5, min_rows=5).fit(choices)
    found = elasticities(trees, choices, "cost", step=0.5)
    assert found.step == 0.5
    assert "arc elasticities" in str(found)
    assert "50%" in str(found)
    cost = frame["cost"].to_numpy()
    for item in range(3):
        ends = []
        for factor in (1.5**-0.5, 1.5**0.5):
            changed = cost.copy()
            changed[item] *= factor
            other = read(frame.with_columns(cost=pl.Series(changed)), outside)
            ends.append(np.log(trees.predict_proba(other)[:3]))
        expected = (ends[1] - ends[0]) / np.log(1.5)
        np.testing.assert_allclose(found.of_set(0)[:3, item], expected, atol=1e-5)


def test_a_long_arc_of_a_smooth_model_is_near_its_derivative():
    choices = read(positive([4, 2] * 40))
    model = sw.MNL().fit(choices)
    exact = elasticities(model, choices, "cost")
    near = arcs(model, choices, "cost", 0.01, relative=True)
    np.testing.assert_allclose(near.pairs.values, exact.pairs.values, atol=2e-3)
    np.testing.assert_allclose(near.probability, exact.probability, atol=1e-6)
    assert exact.step is None
    assert "arc" not in str(exact)


# Shares


def test_a_logit_with_constants_expects_the_shares_that_were_observed():
    choices = sw.datasets.load("modecanada")
    found = expected_shares(sw.MNL().fit(choices), choices, MODES)
    chosen = choices.offsets[:-1] + choices.chosen
    observed = [choices.columns[name].values[chosen].mean() for name in MODES]
    np.testing.assert_allclose(found.values, observed, atol=1e-6)
    assert found["is_car"] == found.values[0]


def test_shares_and_their_errors_are_means_over_sets():
    frame = positive([4, 3] * 10, outside=True).with_columns(kind=pl.int_range(pl.len()) % 2)
    choices = read(frame, outside=True)
    estimator = with_model("cdm", choices)
    found = expected_shares(estimator, frame, "kind")  # a column that is no feature
    p, kind = estimator.predict_proba(frame), frame["kind"].to_numpy()
    each = np.array([
        [share[k == 0].sum(), share[k == 1].sum(), 1 - share.sum()]
        for share, k in zip(by_set(choices, p), by_set(choices, kind), strict=True)
    ])  # fmt: skip
    assert found.names == ("0", "1", "outside option")
    np.testing.assert_allclose(found.values, each.mean(0), atol=1e-6)
    np.testing.assert_allclose(found.standard_errors, each.std(0, ddof=1) / 20**0.5, atol=1e-6)
    assert "20 sets" in str(found)


# Willingness to pay


def by_gradient(values, covariance, place, k):
    """The delta method with a numerical gradient."""

    def worth(b):
        return -b[k] / b[place]

    slope = np.zeros(len(values))
    for i in range(len(values)):
        step = np.zeros(len(values))
        step[i] = 1e-6 * max(1, abs(values[i]))
        slope[i] = (worth(values + step) - worth(values - step)) / (2 * step[i])
    return np.sqrt(slope @ covariance @ slope)


def test_what_an_hour_is_worth_and_its_error():
    model = sw.MNL().fit(sw.datasets.load("modecanada"))
    found, names = willingness_to_pay(model, "cost"), model.feature_names_
    place, k = names.index("cost"), names.index("ivt")
    assert found["ivt"] == pytest.approx(-model.coef_[k] / model.coef_[place])
    error = by_gradient(model.coef_, np.nan_to_num(model.covariance_), place, k)
    assert found.standard_errors[found.names.index("ivt")] == pytest.approx(error, rel=1e-4)
    assert "cost" not in found.names
    assert np.isnan(found.standard_errors[found.names.index("is_air")])  # the reference
    assert "(reference: not identified by itself)" in str(found)


def test_a_nested_logit_has_its_worth(nested):
    model, _ = nested
    place = int(np.argmin(model.coef_))
    found = willingness_to_pay(model, f"x{place}")
    assert found[f"x{1 - place}"] == pytest.approx(-model.coef_[1 - place] / model.coef_[place])
    error = by_gradient(model.coef_, model.covariance_[:2, :2], place, 1 - place)
    assert found.standard_errors[0] == pytest.approx(error, rel=1e-4)


def test_a_mixed_logit_has_a_worth_in_each_class():
    choices = read(positive([4] * 150), items=["cost", "time"], context=[])
    mixed = sw.MixedMNL(classes=1).fit(choices)
    single = willingness_to_pay(sw.MNL().fit(choices), "cost")
    found = willingness_to_pay(mixed, "cost")
    assert found.names == ("time (class 1)",)
    np.testing.assert_allclose(found.values, single.values, rtol=1e-4)
    np.testing.assert_allclose(found.standard_errors, single.standard_errors, rtol=1e-3)


def test_a_context_logit_has_a_worth_in_each_context():
    choices = read(positive([4] * 150), items=["cost", "time"])
    model = sw.LinearContextLogit().fit(choices)
    one = choices.take(np.array([3]))
    found = willingness_to_pay(model, "cost", at=one)
    data = model.schema_.encode(one, np.float64)
    mean = np.concatenate([data.items.mean(0), data.context[0]])
    w = (model.theta_ + model.A_ @ mean) / model.schema_.item_scales
    assert found["time"] == pytest.approx(-w[1] / w[0])
    assert found.standard_errors[0] > 0
    assert found["time"] != willingness_to_pay(model, "cost", at=choices)["time"]
    with pytest.raises(sw.InputError, match="say in which, with at="):
        willingness_to_pay(model, "cost")


def test_models_and_columns_without_a_worth_are_refused():
    choices = read(positive([4] * 40), items=["cost", "time"], context=[])
    logarithm = read(positive([4] * 40), items=["log(cost)", "time"], context=[])
    flipped = read(
        positive([4] * 40).with_columns(-pl.col("cost")), items=["cost", "time"], context=[]
    )
    cases = [
        (sw.WithinSetMNL().fit(choices), "place among the others"),
        (sw.AdaRank(rounds=2).fit(choices), "ranks: its scores are not utilities"),
        (with_model("sda", choices), "has no coefficient of price"),
        (sw.MNL().fit(logarithm), r"the model reads log\(cost\)"),
        (sw.MNL().fit(flipped), "people like to pay"),
    ]
    for model, message in cases:
        with pytest.raises(sw.InputError, match=message):
            willingness_to_pay(model, "cost")
    with pytest.raises(sw.InputError, match="no number column 'price'"):
        willingness_to_pay(sw.MNL().fit(choices), "price")


# Columns that are made of others


def by_hand(**columns) -> pl.DataFrame:
    """A table with columns that someone made of its cost."""
    return positive([3] * 60).with_columns(**columns)


INCOME = pl.col("cost") * pl.col("income").exp()


@pytest.mark.parametrize(
    ("column", "relation"),
    [
        (INCOME, "'cost' × "),
        (pl.col("cost") * pl.col("time"), "'cost' × 'time'"),
        (pl.col("cost").log(), "the logarithm of 'cost'"),
        (pl.when(pl.col("brand") == "red").then("cost").otherwise(0.0), "'cost' × (brand = red)"),
    ],
)
def test_a_column_that_stays_while_what_it_is_made_of_moves_is_told(column, relation):
    frame = by_hand(made=column)
    choices = read(frame, items=["cost", "time", "brand", "made"], context=["income"])
    model = with_model("mnl", choices)
    match = re.escape(f"column 'made' is {relation}")
    for question in (
        lambda: elasticities(model, choices, "cost"),
        lambda: diversion_ratios(model, choices, "cost"),
        lambda: counterfactual(model, choices, Reprice("cost", 1.1)),
        lambda: counterfactual(model, frame, Reprice("cost", 1.1)),
    ):
        with pytest.warns(sw.DataWarning, match=match):
            question()
    # Nothing to tell: both move, none does, or the model does not read the column.
    counterfactual(model, choices, [Reprice("cost", 1.1), Reprice("made", 1.1)])
    diversion_ratios(model, choices)
    elasticities(model, choices, "time") if "time" not in relation else None
    less = read(frame, items=["cost", "time", "brand"], context=["income"])
    elasticities(with_model("mnl", less), choices, "cost")


def test_what_a_column_is_worth_is_told_to_depend_on_those_made_of_it(tmp_path):
    frame = by_hand(made=INCOME)
    choices = read(frame, items=["cost", "time", "made"], context=["income"])
    model = sw.MNL().fit(choices)
    model.save(tmp_path / "model")
    for one in (model, sw.load(tmp_path / "model")):
        with pytest.warns(sw.DataWarning, match="'made' is 'cost' × .*'cost' alone does not tell"):
            willingness_to_pay(one, "cost")
    few = choices.take(np.arange(2))  # too few rows to see it in them: the model remembers
    with pytest.warns(sw.DataWarning, match="'made' is 'cost' × "):
        counterfactual(model, few, Reprice("cost", 1.1))
    squared = read(by_hand(made=pl.col("time") ** 2), items=["cost", "time", "made"], context=[])
    with pytest.warns(sw.DataWarning, match="'made' is 'time'².*'time' alone does not tell"):
        willingness_to_pay(sw.MNL().fit(squared), "cost")


def test_without_such_columns_nothing_is_told():
    choices = sw.datasets.load("modecanada").sample(300)
    model = sw.MNL().fit(choices)
    assert model.derived_ == []
    elasticities(model, choices, "cost")
    counterfactual(model, choices, Reprice("cost", 1.1), price="cost")
    willingness_to_pay(model, "cost")
