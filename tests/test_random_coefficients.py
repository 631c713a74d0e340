"""Fitted mixed logits in the table's units, against a simulated likelihood in plain NumPy."""

import numpy as np
import pytest

import setwise as sw
from setwise.training.draws import standard_draws


@pytest.fixture(scope="module")
def table():
    """Ragged panels whose columns have units; who has more income minds time more."""
    rng = np.random.default_rng(5)
    people = 60
    income = rng.uniform(1, 3, people)
    sizes = rng.integers(2, 5, 6 * people)
    person = np.repeat(np.repeat(np.arange(people), 6), sizes)
    s = np.repeat(np.arange(6 * people), sizes)
    cost, time = rng.uniform(2, 12, len(s)), rng.uniform(10, 60, len(s))
    beta = -0.05 - 0.03 * income + 0.04 * rng.normal(size=people)
    utility = -0.4 * cost + beta[person] * time + rng.gumbel(size=len(s))
    rail = rng.integers(0, 2, len(s))
    utility += 0.8 * rng.normal(size=people)[person] * rail
    best = np.array([utility[s == one].max() for one in range(6 * people)])
    return {
        "s": s, "p": person, "y": (utility == best[s]).astype(int), "cost": cost, "time": time,
        "rail": rail, "income": income[person],
    }  # fmt: skip


def read(table):
    return sw.read(
        table, set="s", chosen="y", items=["cost", "time", "rail"], context=["income"], group="p"
    )


def simulated(table, columns, model):
    """log of the mean over draws of the product of the logits of a person, added up."""
    kinds = [(model.random or {}).get(name) for name in columns]
    some = [name for name in columns if name in (model.random or {})]
    people = len(np.unique(table["p"]))
    z = standard_draws([model.random[name] for name in some], people, model.draws, "halton", 0)
    at = {name: place for place, name in enumerate(some)}
    total = 0.0
    for person in range(people):
        draws = z[person] * model.signs_[:, None]
        beta = np.empty((len(columns), model.draws))
        for k, (name, kind) in enumerate(zip(columns, kinds, strict=True)):
            beta[k] = model.coef_[k]
            if kind is not None:
                beta[k] += model.cholesky_[at[name]] @ draws
            if kind in ("lognormal", "-lognormal"):
                beta[k] = np.exp(beta[k]) * (1 if kind == "lognormal" else -1)
        if model.wtp_space is not None:
            price = list(columns).index(model.wtp_space)
            scale = -beta[price]
            beta *= scale
            beta[price] = -scale
        rows = np.flatnonzero(table["p"] == person)
        product = np.ones(model.draws)
        for one in np.unique(table["s"][rows]):
            own = rows[table["s"][rows] == one]
            e = np.exp(sum(b * np.outer(x[own], np.ones(model.draws)) * 1.0
                           for b, x in zip(beta, columns.values(), strict=True)))  # fmt: skip
            product *= (e / e.sum(0))[table["y"][own] == 1][0]
        total += np.log(product.mean())
    return total


CASES = {
    "normal": {"random": {"time": "normal"}},
    "lognormal": {"random": {"cost": "-lognormal", "rail": "lognormal"}},
    "truncated": {"random": {"time": "truncated"}},
    "uniform": {"random": {"time": "uniform", "cost": "normal"}},
    "triangular": {"random": {"time": "triangular"}},
    "component": {"random": {"rail": "component", "time": "normal"}},
    "correlated": {"random": {"cost": "-lognormal", "time": "normal"}, "correlated": True},
    "wtp": {"random": {"cost": "-lognormal", "time": "normal"}, "wtp_space": "cost"},
    "wtp of one price": {"random": {"time": "-lognormal"}, "wtp_space": "cost"},
    "correlated wtp": {"random": {"cost": "-lognormal", "time": "normal"}, "wtp_space": "cost",
                       "correlated": True},
}  # fmt: skip


@pytest.mark.parametrize("formula", ["cost + time + rail", "cost + time + time:income + rail"])
@pytest.mark.parametrize("case", CASES)
def test_the_likelihood_of_reported_parameters_is_the_one_by_hand(table, case, formula):
    """The mean of random time depends on income where the formula says so."""
    model = sw.MixedLogit(draws=40, utility=formula, **CASES[case]).fit(read(table))
    columns = {name: table[name].astype(float) for name in ("cost", "time", "rail")}
    if "income" in formula:
        columns["time:income"] = table["time"] * table["income"]
    assert sorted(model.feature_names_) == sorted(columns)
    columns = {name: columns[name] for name in model.feature_names_}
    assert simulated(table, columns, model) == pytest.approx(model.log_likelihood_, abs=2e-4)
    # It is a maximum: no step of a tenth of a standard error is better.
    for place in np.flatnonzero(model.identified_):
        step = 0.1 * np.sqrt(model.covariance_of("classical")[place, place])
        for sign in (1, -1):
            moved = model.parameters_.copy()
            moved[place] += sign * step
            other = simulated(table, columns, model.with_parameters(moved))
            assert other < model.log_likelihood_ + 1e-4


def test_a_mean_that_depends_on_income_is_found(table):
    formula = "cost + time + time:income + rail"
    kinds = {"time": "normal", "rail": "component"}
    model = sw.MixedLogit(kinds, draws=200, utility=formula).fit(read(table))
    truth = {"cost": -0.4, "time": -0.05, "time:income": -0.03, "sd(time)": 0.04, "sd(rail)": 0.8}
    names = model.parameter_names_
    for name, value in truth.items():
        place = names.index(name)
        assert abs(model.parameters_[place] - value) < 3 * model.standard_errors_[place]
    assert model.coef_[names.index("rail")] == 0


def test_a_log_normal_column_that_others_account_for_counts_as_zero(table):
    """The logit cannot identify it; what is estimated and what is predicted leave it out."""
    double = dict(table) | {"twice": 2 * table["cost"]}
    items = ["cost", "time", "rail", "twice"]
    roles = {"set": "s", "chosen": "y", "group": "p"}
    plain = sw.MixedLogit({"time": "normal"}, draws=30).fit(
        sw.read(double, items=items[:3], **roles)
    )
    kinds = {"time": "normal", "twice": "lognormal"}
    choices = sw.read(double, items=items, **roles)
    model = sw.MixedLogit(kinds, draws=30).fit(choices)
    assert model.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=1e-6)
    np.testing.assert_allclose(model.coef_, [*plain.coef_, 0], rtol=1e-4)
    np.testing.assert_allclose(
        model.predict_proba(choices), plain.predict_proba(choices), atol=2e-3
    )  # the points of two random coefficients are not those of one
    own, other = (one.individual_coefficients() for one in (model, plain))
    np.testing.assert_allclose(own["time"], other["time"], atol=1e-4)
    assert (own["twice"] == 0).all()
