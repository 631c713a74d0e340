"""The logit against independent solvers: scipy on the written-out likelihood, and statsmodels."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning
from statsmodels.discrete.conditional_models import ConditionalLogit
from threadpoolctl import ThreadpoolController

import setwise as sw
from setwise.choices import Encoded
from setwise.training import maximise, separation
from setwise.training.newton import NARROW, few_threads


def drawn(items, sets=1500, features=4, seed=0):
    """Choices in the table's own units: shifted, scaled, far from standardised."""
    made = sw.datasets.generate("mnl", sets=sets, items=items, features=features, seed=seed)
    columns = dict(made.columns)
    for i, name in enumerate(made.items):
        columns[name] = columns[name] * 10.0 ** (i - 1) + 7 * i
    return columns, list(made.items)


def arrays(columns, names):
    x = np.stack([columns[name] for name in names], 1)
    return x, columns["set_id"], columns["chosen"]


def negative_log_likelihood(b, x, sets, chosen):
    """Written out set by set, as the formula has it."""
    total = 0.0
    for one in np.unique(sets):
        v = x[sets == one] @ b
        total -= v[chosen[sets == one] == 1][0] - np.log(np.exp(v - v.max()).sum()) - v.max()
    return total


def score(b, x, sets, chosen):
    total = np.zeros(len(b))
    for one in np.unique(sets):
        rows = x[sets == one]
        v = rows @ b
        p = np.exp(v - v.max())
        p /= p.sum()
        total -= rows[chosen[sets == one] == 1][0] - p @ rows
    return total


@pytest.mark.parametrize("items", [5, (2, 9)], ids=["same size", "ragged"])
def test_coefficients_and_standard_errors_agree_with_scipy_to_six_digits(items):
    columns, names = drawn(items, sets=300, features=3)
    model = sw.MNL().fit(sw.read(columns, set="set_id", chosen="chosen", items=names))
    x, sets, chosen = arrays(columns, names)
    # scipy works on scaled columns (its stopping rule is not scale-free); the units are undone here
    scale = x.std(0)
    z = (x - x.mean(0)) / scale
    solved = scipy.optimize.minimize(
        negative_log_likelihood, np.zeros(3), args=(z, sets, chosen), jac=score, method="BFGS",
        options={"gtol": 1e-9},
    )  # fmt: skip
    step = 1e-5
    information = np.stack(
        [
            (
                score(solved.x + step * e, z, sets, chosen)
                - score(solved.x - step * e, z, sets, chosen)
            )
            / (2 * step)
            for e in np.eye(3)
        ]
    )
    errors = np.sqrt(np.diag(np.linalg.inv(information))) / scale
    np.testing.assert_allclose(model.coef_, solved.x / scale, rtol=1e-6)
    np.testing.assert_allclose(model.standard_errors_, errors, rtol=1e-6)
    assert model.log_likelihood_ == pytest.approx(-solved.fun, rel=1e-9)


@pytest.mark.parametrize("items", [5, (2, 9)], ids=["same size", "ragged"])
def test_agrees_with_statsmodels_to_six_digits(items):
    columns, names = drawn(items)
    model = sw.MNL().fit(sw.read(columns, set="set_id", chosen="chosen", items=names))
    x, sets, chosen = arrays(columns, names)
    scale = x.std(0)
    fitted = ConditionalLogit(chosen, (x - x.mean(0)) / scale, groups=sets).fit(
        method="newton", tol=1e-12, disp=False
    )
    np.testing.assert_allclose(model.coef_, fitted.params / scale, rtol=1e-6)
    np.testing.assert_allclose(model.standard_errors_, fitted.bse / scale, rtol=1e-6)
    assert model.log_likelihood_ == pytest.approx(fitted.llf, rel=1e-9)
    np.testing.assert_allclose(model.summary().p, fitted.pvalues, rtol=1e-5, atol=1e-300)


def test_recovers_known_coefficients():
    made = sw.datasets.generate("mnl", sets=20_000, items=(2, 8), features=6, seed=3)
    model = sw.MNL().fit(made.choices)
    z = (model.coef_ - made.parameters["beta"]) / model.standard_errors_
    # chi-square with 6 degrees of freedom exceeds 27.9 once in 10,000
    assert z @ z < 27.9


def test_weights_count_sets_more_than_once():
    columns, names = drawn(4, sets=200)
    weight = np.random.default_rng(0).integers(1, 4, 200)
    weighted = sw.MNL().fit(
        sw.read(
            columns | {"w": weight[columns["set_id"]].astype(float)},
            set="set_id", chosen="chosen", items=names, weight="w",
        )
    )  # fmt: skip
    copies = np.repeat(np.arange(200), weight)
    choices = sw.read(columns, set="set_id", chosen="chosen", items=names)
    repeated = sw.MNL().fit(choices.take(copies))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-8)
    classical = (one.covariance_of("classical") for one in (weighted, repeated))
    np.testing.assert_allclose(next(classical), next(classical) * weight.mean(), rtol=1e-8)


def test_a_full_set_of_dummies_has_a_reference_and_the_same_fit():
    table = sw.datasets.table("swissmetro")
    items = ["time", "cost", "headway", "seats", "is_train", "is_sm", "is_car"]
    full = sw.MNL().fit(sw.read(table, set="set_id", chosen="chosen", items=items))
    less = sw.MNL().fit(sw.read(table, set="set_id", chosen="chosen", items=items[:-1]))
    assert full.identified_.tolist() == [True] * 6 + [False]
    assert full.coef_[-1] == 0
    np.testing.assert_allclose(full.coef_[:-1], less.coef_, rtol=1e-8)
    np.testing.assert_allclose(full.standard_errors_[:-1], less.standard_errors_, rtol=1e-8)
    assert full.log_likelihood_ == pytest.approx(less.log_likelihood_, rel=1e-12)


def test_a_feature_that_never_differs_within_a_set_is_not_identified():
    columns, names = drawn(4, sets=100)
    columns["income"] = np.random.default_rng(0).normal(size=100)[columns["set_id"]]
    model = sw.MNL().fit(sw.read(columns, set="set_id", chosen="chosen", items=["income", *names]))
    assert model.identified_.tolist() == [False] + [True] * len(names)


def test_context_cancels_and_leaves_the_fit_alone():
    columns, names = drawn(4, sets=100)
    columns["income"] = np.random.default_rng(0).normal(size=100)[columns["set_id"]]
    options = {"set": "set_id", "chosen": "chosen", "items": names}
    plain = sw.MNL().fit(sw.read(columns, **options))
    with_context = sw.MNL().fit(sw.read(columns, **options, context=["income"]))
    np.testing.assert_array_equal(plain.coef_, with_context.coef_)
    choices = sw.read(columns, **options, context=["income"])
    np.testing.assert_allclose(
        with_context.predict_proba(choices), plain.predict_proba(choices), rtol=1e-5
    )


def test_perfect_separation_is_told():
    columns, names = drawn(4, sets=100)
    columns["leak"] = columns["chosen"] * 2.0
    with (
        pytest.warns(sw.DataWarning, match="'leak' is 2 where an item was chosen"),
        pytest.warns(sw.DataWarning, match="tells the training choices without error"),
        pytest.warns(ConvergenceWarning, match=r"'leak'.*check it for a leak"),
    ):
        sw.MNL().fit(sw.read(columns, set="set_id", chosen="chosen", items=[*names, "leak"]))


def fitted(x, sizes, chosen, **options):
    """An MNL of columns x0, x1, ... of sets of these sizes, by the place of the chosen item."""
    x = np.asarray(x, float)
    sizes = np.asarray(sizes)
    columns = {f"x{j}": x[:, j] for j in range(x.shape[1])}
    columns["set_id"] = np.repeat(np.arange(len(sizes)), sizes)
    columns["chosen"] = np.zeros(len(x), int)
    columns["chosen"][np.cumsum(sizes) - sizes + chosen] = 1
    return sw.MNL().fit(sw.read(columns, set="set_id", chosen="chosen", **options))


SEPARATED = {
    # x0 is larger for the chosen item of both sets; x1 is not.
    "by one column": ([[1, 3], [0, 1], [1, 2], [0, 4]], [2, 2], [0, 0], "'x0' tells"),
    # Neither alone, but x0 + x1 is 2 for each chosen item and at most 1 for the others.
    "by two together": (
        [[2, 0], [0, 1], [0, 2], [1, 0], [3, -1], [-1, 2], [-1, 3], [2, -1]],
        [2, 2, 2, 2], [0, 0, 0, 0], "'x0', 'x1' together tell the chosen items from the rest",
    ),
    # x1 marks an item of the first set only, which is chosen; x0 is undecided.
    "in one set of three": (
        [[1, 1], [0, 0], [1, 0], [0, 0], [1, 0], [0, 0]],
        [2, 2, 2], [0, 0, 1], "'x1' tells chosen items from others without error in 1 of 3 sets",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SEPARATED)
def test_separation_is_told_with_its_columns(name):
    x, sizes, chosen, message = SEPARATED[name]
    with pytest.warns(ConvergenceWarning, match=rf"{message}.*are penalised \(l2="):
        model = fitted(x, sizes, chosen)
    assert not model.converged_
    assert model.l2_ >= 1
    assert np.abs(model.coef_).max() < 5
    assert "no maximum" in str(model.summary())


def test_what_is_not_separated_is_not_accused():
    """One choice against it makes the maximum finite: log(2) where two of three choose x0 = 1."""
    x = [[1, 1], [0, 0], [1, 0], [0, 0], [1, 0], [0, 0], [1, 1], [0, 0]]
    model = fitted(x, [2, 2, 2, 2], [0, 0, 1, 1])
    assert model.converged_
    np.testing.assert_allclose(model.coef_, [0, 0], atol=1e-6)


@pytest.mark.parametrize("apart", [1e-2, 1e-4])
def test_near_collinear_columns_are_not_accused_of_separation(apart):
    """Their coefficients are enormous and their standard errors larger: the maximum is finite."""
    rng = np.random.default_rng(5)
    x0 = rng.normal(size=600)
    x = np.stack([x0, x0 + apart * rng.normal(size=600)], 1)
    model = fitted(x, [3] * 200, rng.integers(3, size=200))
    size = np.abs(model.coef_ * model.schema_.item_scales)
    assert size.max() > 5
    assert (model.standard_errors_ > np.abs(model.coef_)).any()
    assert model.converged_


def test_the_linear_context_logit_of_shipped_data_has_a_maximum():
    model = sw.LinearContextLogit().fit(sw.datasets.load("swissmetro"))
    assert model.converged_


def test_many_rows_are_looked_at_few_at_a_time(monkeypatch):
    """Of 4,000 rows only one, late, tells that x0 does not separate."""
    monkeypatch.setattr(separation, "ROWS_PER_ROUND", 20)
    rng = np.random.default_rng(0)
    x = np.stack([np.tile([1.0, 0], 2000), rng.normal(size=4000)], 1)
    chosen = np.zeros(2000, int)
    with (
        pytest.warns(sw.DataWarning),
        pytest.warns(ConvergenceWarning, match="'x0' tells the chosen items from the rest"),
    ):
        fitted(x, [2] * 2000, chosen)
    chosen[1500] = 1
    assert fitted(x, [2] * 2000, chosen).converged_


def linear_programme(x, sizes, chosen):
    """The largest sum of margins in the unit box, all rows at once: above 0 if separated."""
    starts = np.cumsum(sizes) - sizes
    owner = np.repeat(np.arange(len(sizes)), sizes)
    margins = x[(starts + chosen)[owner]] - x
    found = linprog(-margins.sum(0), A_ub=-margins, b_ub=np.zeros(len(x)), bounds=(-1, 1))
    return -found.fun > 1e-7


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_separation_agrees_with_the_whole_linear_programme(seed):
    """Small whole numbers, which are separated, quasi-separated or collinear every other time."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, size=rng.integers(2, 9))
    x = rng.integers(-1, 2, size=(sizes.sum(), rng.integers(1, 4))).astype(float)
    chosen = rng.integers(sizes)
    data = Encoded(x, np.empty((len(sizes), 0)), np.append(0, np.cumsum(sizes)), chosen, None)
    assert bool(maximise(data).separation) == linear_programme(x, sizes, chosen)


def test_dropped_columns_are_called_what_they_are():
    columns, names = drawn(4, sets=100)
    mode = np.tile(["bus", "car", "rail"], 400)[: len(columns["set_id"])]
    columns |= {
        "income": np.random.default_rng(0).normal(size=100)[columns["set_id"]],
        "twice": 2 * columns[names[0]] + columns["set_id"],
        "sum": columns[names[0]] - 3 * columns[names[1]],
        "mode": mode,
        "is_bus": (mode == "bus") * 1.0,
    }
    items = [*names[:3], "income", "twice", "sum", "mode", "is_bus"]
    model = sw.MNL().fit(sw.read(columns, set="set_id", chosen="chosen", items=items))
    assert model.dropped_ == {
        "income": "constant within sets",
        "twice": f"a multiple of {names[0]} within sets",
        "sum": f"a combination of {names[0]}, {names[1]} within sets",
        "mode=rail": "reference: not identified by itself",
        "is_bus": "a multiple of mode=bus within sets",
    }
    table = str(model.summary())
    for name, reason in model.dropped_.items():
        assert f"{name}".ljust(9) in table
        assert f"0 ({reason})" in table
    assert table.count("(reference") == 1
    assert model.summary().to_json()["fixed"] == model.dropped_


def test_an_outside_option_leaves_a_full_set_of_dummies_one():
    columns, names = drawn(4, sets=100)
    columns["mode"] = np.tile(["bus", "car"], 400)[: len(columns["set_id"])]
    columns["chosen"] = columns["chosen"] * (columns["set_id"] % 3 > 0)
    choices = sw.read(
        columns, set="set_id", chosen="chosen", items=[names[0], "mode"], on_none="outside"
    )
    assert sw.MNL().fit(choices).dropped_ == {"mode=car": "reference: not identified by itself"}


def test_only_columns_that_are_constant_within_sets_are_refused():
    with pytest.raises(sw.InputError, match=r"nothing to learn from 'x0'.*differ between"):
        fitted([[3], [3], [5], [5]], [2, 2], [0, 1])
    columns, _ = drawn(4, sets=20)
    columns["income"] = columns["set_id"] * 1.0
    choices = sw.read(columns, set="set_id", chosen="chosen", items=["income"])
    for estimator in (sw.LinearContextLogit(), sw.WithinSetMNL()):
        with pytest.raises(sw.InputError, match="nothing to learn"):
            estimator.fit(choices)


def test_a_summary_says_that_context_is_not_used():
    columns, names = drawn(4, sets=100)
    columns |= {"income": columns["set_id"] % 5 * 1.0, "age": columns["set_id"] % 7 * 1.0}
    options = {"set": "set_id", "chosen": "chosen", "items": names[:2]}
    choices = sw.read(columns, **options, context=["income", "age"])
    assert "Context 'income', 'age' are not used" in str(sw.MNL().fit(choices).summary())
    assert "not used" not in str(sw.LinearContextLogit().fit(choices).summary())
    assert "not used" not in str(sw.MNL().fit(sw.read(columns, **options)).summary())


def test_large_values_do_not_overflow():
    columns, names = drawn(4, sets=100)
    columns[names[0]] = columns[names[0]] * 1e8 + 1e12
    model = sw.MNL().fit(sw.read(columns, set="set_id", chosen="chosen", items=names))
    assert np.isfinite(model.coef_).all()
    assert model.converged_


def test_summary_by_hand():
    """Two sets of two items, x = 1 or 0; the item with x = 1 is chosen three times in four."""
    columns = {
        "set_id": np.repeat(np.arange(4), 2),
        "x": np.tile([1.0, 0.0], 4),
        "chosen": np.array([1, 0, 1, 0, 1, 0, 0, 1]),
    }
    summary = sw.MNL().fit(sw.read(columns, set="set_id", chosen="chosen")).summary()
    # b = log(3/1); information = 4 * 3/4 * 1/4 = 3/4; log L = 3 log .75 + log .25
    assert summary.coefficients[0] == pytest.approx(1.0986122887)
    assert summary.standard_errors[0] == pytest.approx((4 / 3) ** 0.5)
    assert summary.z[0] == pytest.approx(1.0986122887 / 1.1547005384)
    assert summary.p[0] == pytest.approx(0.341389, abs=1e-5)
    assert summary.log_likelihood == pytest.approx(-2.2493405, abs=1e-6)
    assert summary.null_log_likelihood == pytest.approx(-2.7725887, abs=1e-6)
    assert summary.rho2 == pytest.approx(0.1887219, abs=1e-6)
    assert summary.aic == pytest.approx(6.498681, abs=1e-5)
    assert summary.bic == pytest.approx(5.884975, abs=1e-5)
    assert "x" in str(summary)
    assert summary.to_json()["coefficients"][0]["name"] == "x"


UNIX = 1.6e9  # seconds from 1970 to September 2020
DECADE = 3e8  # seconds


def departures(base, span, sets=800, seed=0, weights=((-0.002, -1.0),)):
    """Choices by when to leave: within a set minutes apart, between sets years."""
    rng = np.random.default_rng(seed)
    begin = base + np.round(rng.uniform(0, span, sets))
    later = 60.0 * rng.integers(0, 30, (sets, 4))
    cost = rng.normal(size=(sets, 4))
    of_time, of_cost = np.array(weights)[rng.integers(len(weights), size=sets)].T
    utility = of_time[:, None] * later + of_cost[:, None] * cost + rng.gumbel(size=(sets, 4))
    chosen = utility.argmax(1)
    return (begin[:, None] + later).ravel(), later.ravel(), cost.ravel(), chosen


def of_columns(chosen, *columns, weight=None):
    n = len(columns[0]) // len(chosen)
    offsets = np.arange(0, len(columns[0]) + 1, n)
    return Encoded(np.stack(columns, 1), np.empty((len(chosen), 0)), offsets, chosen, weight)


@pytest.mark.parametrize("penalty", [None, np.array([0.0, 3.0])], ids=["maximum", "penalised"])
@pytest.mark.parametrize(
    ("base", "span", "unit"), [(UNIX, 0, 1), (UNIX, DECADE, 1), (1e6, 0, 1e-4), (-1e9, 1e6, 1)]
)
def test_a_column_with_a_large_mean_is_estimated_as_without_it(base, span, unit, penalty):
    _, later, cost, chosen = departures(0, 0)
    begin = np.repeat(base + np.round(np.linspace(0, span, len(chosen))), 4)
    near = maximise(of_columns(chosen, later * unit, cost), penalty)
    far = maximise(of_columns(chosen, begin + later * unit, cost), penalty)
    assert far.identified.all()
    assert far.converged
    assert not far.separation
    # Adding the base rounds the times: to 2e-7 s, or 1e-10 of 1e6, against steps of 60 or 0.006.
    np.testing.assert_allclose(far.coefficients, near.coefficients, rtol=1e-6)
    np.testing.assert_allclose(far.covariance, near.covariance, rtol=1e-6, atol=0)
    assert far.log_likelihood == pytest.approx(near.log_likelihood, abs=1e-5)


@pytest.mark.parametrize("kind", ["MNL", "nested", "two classes"])
def test_times_in_unix_seconds_of_a_decade_have_their_coefficient(kind):
    two = ((-0.01, -0.5), (0.002, -3.0)) if kind == "two classes" else ((-0.002, -1.0),)
    time, later, cost, chosen = departures(UNIX, DECADE, weights=two)
    table = {
        "set": np.repeat(np.arange(len(chosen)), 4),
        "time": time,
        "later": later,
        "cost": cost,
        "line": ["a", "a", "b", "b"] * len(chosen),
        "chosen": (np.arange(4) == chosen[:, None]).ravel(),
    }

    def fitted(column):
        model = {
            "MNL": sw.MNL(), "nested": sw.NestedLogit("line"), "two classes": sw.MixedMNL(2)
        }[kind]  # fmt: skip
        items = [column, "cost", "line"] if kind == "nested" else [column, "cost"]
        return model.fit(sw.read(table, set="set", chosen="chosen", items=items))

    near = fitted("later")
    with pytest.warns(sw.DataWarning, match="'time' differs within sets by little.* subtract"):
        far = fitted("time")
    assert not far.dropped_
    assert far.log_likelihood_ == pytest.approx(near.log_likelihood_, abs=1e-4)
    np.testing.assert_allclose(far.coef_, near.coef_, rtol=1e-4)
    np.testing.assert_allclose(far.standard_errors_, near.standard_errors_, rtol=1e-3)
    # What the warning says of predictions: 2**-24 of 1.8 standard deviations of 9e7 s is 9 s, and
    # as much again for their utility. Of two items, that is 36 s; P changes by at most a quarter.
    most = 36 * np.abs(near.coef_[..., 0]).max() / 4
    np.testing.assert_allclose(far.predict_proba(table), near.predict_proba(table), atol=most)


def test_collinear_columns_with_a_large_mean_are_still_named():
    time, later, cost, chosen = departures(UNIX, DECADE)
    begin = time - later
    table = {
        "set": np.repeat(np.arange(len(chosen)), 4),
        "time": time,
        "cost": cost,
        "minutes": time / 60,
        "begin": begin,
        "both": time + 1000 * cost,
        "chosen": (np.arange(4) == chosen[:, None]).ravel(),
    }
    items = ["time", "cost", "minutes", "begin", "both"]
    with pytest.warns(sw.DataWarning, match="'time' differs within sets by little"):
        model = sw.MNL().fit(sw.read(table, set="set", chosen="chosen", items=items))
    assert model.dropped_ == {
        "minutes": "a multiple of time within sets",
        "begin": "constant within sets",
        "both": "a combination of time, cost within sets",
    }


def test_units_of_columns_do_not_decide_what_is_identified():
    _, later, cost, chosen = departures(0, 0)
    plain = maximise(of_columns(chosen, later, cost))
    tiny = maximise(of_columns(chosen, later * 1e12, cost * 1e-9))
    assert tiny.identified.all()
    np.testing.assert_allclose(tiny.coefficients, plain.coefficients * [1e-12, 1e9], rtol=1e-6)
    errors = [np.sqrt(np.diag(one.covariance)) for one in (plain, tiny)]
    np.testing.assert_allclose(errors[1], errors[0] * [1e-12, 1e9], rtol=1e-6)


def test_separation_by_a_column_with_a_large_mean_is_found_and_named():
    time, later, cost, chosen = departures(UNIX, DECADE)
    soonest = time.reshape(-1, 4).argmin(1)
    found = maximise(of_columns(soonest, time, cost)).separation
    assert found.columns.tolist() == [True, False]
    # A set with two soonest items is no error: it is not told.
    alone = (later.reshape(-1, 4) == later.reshape(-1, 4).min(1, keepdims=True)).sum(1) == 1
    assert found.sets >= alone.sum()
    assert not maximise(of_columns(chosen, time, cost)).separation


@pytest.mark.parametrize("penalty", [None, np.array([3.0, 0.5, 1.0])], ids=["plain", "penalised"])
def test_what_a_fit_leaves_at_its_optimum_is_what_would_be_found_there(penalty):
    made = sw.datasets.generate("mnl", sets=200, items=(2, 6), features=3, seed=5).choices
    data = sw.Schema.fit(made).encode(made, np.float64)
    found = maximise(data, penalty)
    anew = replace(found)  # a copy knows nothing but its fields
    np.testing.assert_allclose(found.scores, anew.scores, atol=1e-12)
    np.testing.assert_allclose(found.information, anew.information, rtol=1e-12)
    np.testing.assert_allclose(found.within, anew.within, rtol=1e-12)
    assert found.growing == anew.growing


@pytest.mark.parametrize("shift", [0.0, 1e4], ids=["moderate", "far out"])
def test_a_constant_in_all_utilities_changes_no_fit(shift):
    made = sw.datasets.generate("mnl", sets=200, items=(2, 6), features=3, seed=5).choices
    data = sw.Schema.fit(made).encode(made, np.float64)
    far = replace(data, offset=np.full(len(data.items), shift))
    np.testing.assert_allclose(maximise(far).coefficients, maximise(data).coefficients, rtol=1e-8)


def test_a_fit_uses_one_thread_for_few_columns_and_gives_the_others_back():
    libraries = ThreadpoolController()

    def threads():
        return [one["num_threads"] for one in libraries.info() if one["user_api"] == "blas"]

    with libraries.limit(limits=2, user_api="blas"):
        with few_threads(NARROW):
            assert set(threads()) == {1}
        with few_threads(NARROW + 1):
            assert set(threads()) == {2}
        sw.MNL().fit(sw.datasets.generate("mnl", sets=50, items=3, features=2).choices)
        assert set(threads()) == {2}
