"""The mixed logit: by hand, against sums over draws in NumPy, known answers, recovered truths."""

import numpy as np
import polars as pl
import pytest

import setwise as sw
from beside import needs, sample
from setwise.choices import Schema
from setwise.estimators.maximum_likelihood import people_of
from setwise.estimators.mixed_logit import NODES, MixedLogit
from setwise.training.draws import SAMPLINGS, STANDARD, standard_draws
from setwise.training.simulated import Simulated, TasteLayout, tastes

KINDS = ("normal", "-lognormal", "triangular")


def panel(sets=120, **options):
    given = {"sets": sets, "items": (2, 4), "features": 3, "choices": 4, "seed": 3}
    return sw.datasets.generate("panel", **(given | options))


def simulated(correlated=False, draws=7, kinds=KINDS, price=None):
    """A likelihood of ragged panels, and what it was made of."""
    choices = panel(sets=23).choices
    _, seen = Schema.learn(choices)
    data, people = seen.encoded(np.float64), people_of(choices)
    z = standard_draws(kinds, int(people.max()) + 1, draws, "halton", 0)
    rows, columns = np.tril_indices(3) if correlated else (np.arange(3), np.arange(3))
    layout = TasteLayout(
        np.append(np.arange(3), rows), np.append(np.zeros(3, int), columns + 1),
        np.array([{"lognormal": 1, "-lognormal": -1}.get(kind, 0) for kind in kinds]), price,
    )  # fmt: skip
    return Simulated(data, people, layout, z), data, people, z, layout


def by_hand(data, people, z, layout, v):
    """log of the mean over draws of the product over a person's sets, one number at a time."""
    found = []
    for person in range(people.max() + 1):
        values = []
        for draw in z[person].T.astype(float):
            C = np.zeros((3, 4))
            C[layout.feature, layout.basis] = v
            beta = C @ np.append(1, draw)
            beta = np.where(layout.sign == 0, beta, layout.sign * np.exp(beta))
            if layout.price is not None:  # V = -scale (price - < wtp, x >)
                scale, price = -beta[layout.price], np.arange(3) == layout.price
                beta = np.where(price, -scale, scale * beta)
            product = 1.0
            for one in np.flatnonzero(people == person):
                e = np.exp(data.items[data.offsets[one] : data.offsets[one + 1]] @ beta)
                product *= e[data.chosen[one]] / e.sum()
            values.append(product)
        found.append(np.log(np.mean(values)))
    return np.array(found)


@pytest.mark.parametrize("price", [None, 0, 1])
@pytest.mark.parametrize("correlated", [False, True])
def test_the_likelihood_is_the_mean_over_draws_of_products_over_sets(correlated, price):
    likelihood, *parts = simulated(correlated, price=price)
    v = np.random.default_rng(1).normal(size=len(parts[-1].feature))
    expected = by_hand(*parts, v)
    np.testing.assert_allclose(likelihood.people(v)[0], expected, rtol=1e-10)
    assert likelihood(v)[0] == pytest.approx(expected.sum(), rel=1e-10)


@pytest.mark.parametrize("kinds", [KINDS, ("lognormal", "uniform", "truncated")])
@pytest.mark.parametrize("correlated", [False, True])
@pytest.mark.parametrize("price", [None, 0, 1])
def test_derivatives_are_those_of_finite_differences(correlated, kinds, price):
    likelihood, *_, layout = simulated(correlated, kinds=kinds, price=price)
    v, step = 0.5 * np.random.default_rng(2).normal(size=len(layout.feature)), 1e-5
    _, gradient, hessian = likelihood(v)
    ends = [[likelihood._at(v + sign * step * one) for sign in (1, -1)] for one in np.eye(len(v))]
    np.testing.assert_allclose(
        gradient, [(up[0] - down[0]) / (2 * step) for up, down in ends], rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(
        hessian, [(up[1] - down[1]) / (2 * step) for up, down in ends], rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(likelihood.people(v)[1].sum(0), gradient, rtol=1e-9, atol=1e-9)


def test_the_posterior_weighs_draws_by_the_persons_choices():
    likelihood, data, people, z, layout = simulated(kinds=("normal",) * 3)
    v = np.array([1.0, 0, -1, 0.8, 0.5, 0.2])
    beta = v[:3, None] + v[3:, None] * z[4]
    np.testing.assert_allclose(tastes(layout, v, z[4]), beta, rtol=1e-6)
    weight = np.ones(z.shape[2])
    for one in np.flatnonzero(people == 4):
        e = np.exp(data.items[data.offsets[one] : data.offsets[one + 1]] @ beta)
        weight *= e[data.chosen[one]] / e.sum(0)
    np.testing.assert_allclose(likelihood.posterior(v)[4], weight / weight.sum(), rtol=1e-5)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_draws_follow_their_distributions(sampling):
    z = standard_draws(tuple(STANDARD), 4, 500, sampling, 1).astype(float)
    sd = dict.fromkeys(STANDARD, 1.0)
    sd |= {"truncated": 0.8796, "uniform": 3**-0.5, "triangular": 6**-0.5}
    np.testing.assert_allclose(z.mean((0, 2)), 0, atol=0.03)
    np.testing.assert_allclose(z.std((0, 2)), list(sd.values()), rtol=0.03)
    most = np.abs(z).max((0, 2))[4:]
    assert (most <= [2, 1, 1]).all()
    again, other = (standard_draws(("normal",), 4, 50, sampling, seed) for seed in (1, 2))
    np.testing.assert_array_equal(again, standard_draws(("normal",), 4, 50, sampling, 1))
    assert (again != other).any()


@pytest.fixture(scope="module")
def fitted():
    made = panel(sets=1200, features=2, choices=8)
    return made, MixedLogit(draws=100).fit(made.choices)


def test_the_fit_is_a_maximum_and_better_than_the_logit(fitted):
    made, model = fitted
    assert model.converged_
    assert model.log_likelihood_ > sw.MNL().fit(made.choices).log_likelihood_ + 10
    likelihood = model._likelihood(
        model._encoded(made.choices), people_of(made.choices), model.draws_
    )
    value, gradient, hessian = likelihood(model._internal())
    assert value == pytest.approx(model.log_likelihood_)
    assert np.abs(gradient).max() < 1e-4
    factor = model._units()[0]
    expected = np.linalg.inv(-hessian) * np.outer(factor, factor)
    np.testing.assert_allclose(model.covariance_of("classical"), expected, rtol=1e-6)


def test_the_truth_is_within_three_standard_errors(fitted):
    made, model = fitted
    truth = np.append(made.parameters["beta"], np.diag(made.parameters["spread"]))
    assert (np.abs(model.parameters_ - truth) < 3 * model.standard_errors_).all()
    own = model.individual_coefficients()
    assert own.columns == ["person", "x0", "x1", "sd(x0)", "sd(x1)"]
    total = own["x0"].var() + (own["sd(x0)"] ** 2).mean()  # between and within people
    assert total == pytest.approx(model.cholesky_[0, 0] ** 2, rel=0.2)


def test_robust_is_clustered_by_person_and_without_people_each_set_is_one(fitted):
    made, model = fitted
    np.testing.assert_array_equal(model.covariance_of("robust"), model.covariance_of("cluster"))
    assert model.people_ == 150
    alone = sw.read(made.columns, set="set_id", chosen="chosen", items=list(made.items))
    cross = MixedLogit({"x0": "normal"}, draws=30).fit(alone)
    assert list(cross.covariances_) == ["classical", "robust"]
    assert cross.individual_coefficients().columns[0] == "set_id"


def test_the_bootstrap_agrees_with_clustering(fitted):
    _, model = fitted
    drawn = model.bootstrap(30, seed=1).summary(covariance="bootstrap").standard_errors
    np.testing.assert_allclose(drawn, model.standard_errors_, rtol=0.5)


def test_weights_count_as_copies_of_people():
    made = panel(sets=80, items=3, features=2)
    twice = {name: np.concatenate([one, one[:120]]) for name, one in made.columns.items()}
    for name, shift in (("set_id", 80), ("person", 20)):
        twice[name][240:] += shift
    weighted = dict(made.columns) | {"w": np.where(np.arange(240) < 120, 2.0, 1.0)}
    roles = made.roles
    heavy = sw.read(weighted, **roles, weight="w")
    one = MixedLogit({"x0": "normal"}, draws=300, sampling="sobol").fit(heavy)
    other = MixedLogit({"x0": "normal"}, draws=300, sampling="sobol").fit(sw.read(twice, **roles))
    np.testing.assert_allclose(one.parameters_, other.parameters_, atol=0.05)
    uneven = sw.read(dict(made.columns) | {"w": 1.0 + made.columns["set_id"]}, **roles, weight="w")
    with pytest.raises(sw.InputError, match="same weight"):
        MixedLogit(draws=10).fit(uneven)


def test_files_keep_the_model_and_predictions_average_over_its_nodes(fitted, tmp_path):
    made, model = fitted
    model.save(tmp_path / "m")
    again = sw.load(tmp_path / "m")
    assert str(again.summary()) == str(model.summary())
    np.testing.assert_array_equal(
        again.predict_proba(made.choices), model.predict_proba(made.choices)
    )
    assert again.individual_coefficients(made.choices).equals(model.individual_coefficients())
    items = np.stack([made.columns["x0"], made.columns["x1"]], 1)[made.columns["set_id"] == 0]
    z = np.random.default_rng(0).normal(size=(100_000, 2))
    e = np.exp(items @ (model.coef_ + z * np.diag(model.cholesky_)).T)
    expected = (e / e.sum(0)).mean(1)
    np.testing.assert_allclose(model.predict_proba(made.choices)[: len(items)], expected, atol=5e-3)
    assert model.model_.theta.shape == (2, NODES)


def test_log_normal_coefficients_do_not_depend_on_units():
    made = panel(sets=600, features=2, beta=(-1.0, 1.0), spread=(0.5, 0.5), choices=8)
    kinds = {"x0": "-lognormal", "x1": "uniform"}
    model = MixedLogit(kinds, draws=50).fit(made.choices)
    assert model.parameter_names_ == ["mean(log -x0)", "x1", "sd(log -x0)", "half-width(x1)"]
    wider = dict(made.columns) | {"x0": made.columns["x0"] * 100}
    other = MixedLogit(kinds, draws=50).fit(sw.read(wider, **made.roles))
    assert other.log_likelihood_ == pytest.approx(model.log_likelihood_, abs=1e-3)
    np.testing.assert_allclose(other.parameters_[1:], model.parameters_[1:], atol=1e-3)
    assert other.coef_[0] == pytest.approx(model.coef_[0] - np.log(100), abs=1e-3)


def test_correlated_tastes_have_a_triangle():
    spread = [[0.8, 0.0], [0.6, 0.4]]
    made = panel(sets=1600, features=2, choices=8, spread=spread)
    model = MixedLogit(correlated=True, draws=100).fit(made.choices)
    assert model.parameter_names_[2:] == ["L(x0, x0)", "L(x1, x0)", "L(x1, x1)"]
    assert (np.diag(model.cholesky_) >= 0).all()
    truth = [0.8, 0.6, 0.4]
    assert (np.abs(model.parameters_[2:] - truth) < 3 * model.standard_errors_[2:]).all()
    assert model.with_parameters(model.parameters_).cholesky_.tolist() == model.cholesky_.tolist()


def test_an_error_component_has_no_mean():
    made = panel(sets=400, features=2, choices=8)
    model = MixedLogit({"x0": "component"}, draws=50).fit(made.choices)
    assert model.coef_[0] == 0
    assert model.identified_.tolist() == [False, True, True]
    assert "an error component" in str(model.summary())


def test_terms_of_a_formula_are_random_by_name():
    made = panel(sets=200, features=2)
    model = MixedLogit({"I(x0 / 2)": "normal"}, utility="I(x0 / 2) + x1", draws=20)
    assert model.fit(made.choices).parameter_names_ == ["I(x0 / 2)", "x1", "sd(I(x0 / 2))"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"random": {"price": "normal"}}, "'price'.*x0, x1"),
        ({"random": {"x0": "gamma"}}, "gamma.*lognormal"),
        ({"random": {"x0": "uniform"}, "correlated": True}, "cannot be correlated"),
        ({"sampling": "random"}, "halton"),
        ({"draws": 0}, "draws"),
    ],
)
def test_unknown_words_are_refused_with_the_known_ones(arguments, said):
    with pytest.raises(sw.InputError, match=said):
        MixedLogit(**arguments).fit(panel(features=2).choices)


def electricity():
    columns = [f"{name}{{alt}}" for name in ("pf", "cl", "loc", "wk", "tod", "seas")]
    path = sample("electricity_wide.csv")
    return sw.read_wide(str(path), chosen="choice", items=columns, group="id")


MEANS = [-0.997, -0.220, 2.290, 1.694, -9.675, -9.696]
SPREADS = [0.221, 0.412, 1.784, 1.230, 2.276, 1.486]


@needs("electricity_wide.csv")
def test_electricity_is_xlogits():
    """-3888.4 with xlogit's draws; over ten seeds ours are -3890.6 with a standard deviation
    of 3.6. Estimates move with the draws too, by up to about one of their standard errors.
    """
    model = MixedLogit(draws=600).fit(electricity())
    assert model.log_likelihood_ == pytest.approx(-3888.4, abs=8)
    errors = np.sqrt(np.diag(model.covariance_of("classical")))
    assert (np.abs(model.parameters_ - [*MEANS, *SPREADS]) < 2 * errors).all()


UTILITY = sw.Utility("I(TT / 100) + I(CO * (1 - GA * only(TRAIN, SM)) / 100)", reference="SM")


@pytest.mark.slow
@needs("swissmetro_raw.tsv")
@pytest.mark.parametrize(("group", "known"), [("ID", -4360.2), (None, -5215.1)])
def test_swissmetro_is_biogemes(group, known):
    table = pl.read_csv(sample("swissmetro_raw.tsv"), separator="\t").filter(
        pl.col("PURPOSE").is_in([1, 3]), pl.col("CHOICE") != 0
    )
    choices = sw.read_wide(
        table, chosen="CHOICE", alternatives={1: "TRAIN", 2: "SM", 3: "CAR"},
        items=["{alt}_TT", "{alt}_CO"], available="{alt}_AV", context=["GA"], group=group,
    )  # fmt: skip
    model = MixedLogit({"I(TT / 100)": "normal"}, utility=UTILITY, draws=500).fit(choices)
    assert model.log_likelihood_ == pytest.approx(known, abs=3)


@pytest.mark.slow
def test_true_means_spreads_and_correlations_are_recovered():
    """Intervals of 1.96 standard errors hold the truth in 95 % of 100 panels, up to chance.

    Intervals of one panel depend on each other, but panels do not: the mean over panels of the
    share that holds the truth is normal around 0.95, and four of its standard errors are rare.
    Measured: 467 of 500 intervals, 93.4 %; with 400 panels, 1,881 of 2,000.
    """
    L, shares = np.array([[0.8, 0.0], [0.4, 0.6]]), []
    truth = np.array([-1.0, 1.0, *_spreads_and_correlation(L[np.tril_indices(2)])])
    for seed in range(100):
        made = panel(sets=2000, items=4, features=2, choices=10, spread=L, seed=seed)
        model = MixedLogit(correlated=True, draws=200, sampling="sobol").fit(made.choices)
        found = np.append(model.coef_, _spreads_and_correlation(model.parameters_[2:]))
        slopes = np.eye(5)
        slopes[2:, 2:] = np.transpose(
            [
                (_spreads_and_correlation(model.parameters_[2:] + step)
                 - _spreads_and_correlation(model.parameters_[2:] - step)) / 2e-6
                for step in 1e-6 * np.eye(3)
            ]
        )  # fmt: skip
        errors = np.sqrt(np.diag(slopes @ model.covariance_ @ slopes.T))
        shares.append((np.abs(found - truth) < 1.96 * errors).mean())
    chance = np.std(shares, ddof=1) / len(shares) ** 0.5
    assert np.mean(shares) == pytest.approx(0.95, abs=4 * chance)


def _spreads_and_correlation(triangle):
    """Of two correlated coefficients with the lower triangle L00, L10, L11."""
    first, cross, second = triangle
    own = np.hypot(cross, second)
    return np.array([first, own, cross / own])
