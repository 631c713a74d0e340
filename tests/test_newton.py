"""The logit against independent solvers: scipy on the written-out likelihood, and statsmodels."""

import numpy as np
import pytest
import scipy.optimize
from sklearn.exceptions import ConvergenceWarning
from statsmodels.discrete.conditional_models import ConditionalLogit

import setwise as sw


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
    np.testing.assert_allclose(weighted.standard_errors_, repeated.standard_errors_, rtol=1e-8)


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
    with pytest.warns(ConvergenceWarning, match=r"'leak'.*check it for a leak"):
        sw.MNL().fit(sw.read(columns, set="set_id", chosen="chosen", items=[*names, "leak"]))


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
