"""Willingness-to-pay space: the logit's ratios, models that are the same, and recovered truths."""

import numpy as np
import pytest

import setwise as sw
from setwise.consequences import willingness_to_pay

ITEMS = ["cost", "time", "comfort"]


def made(sets=800, choices=8, seed=0):
    """Panels drawn in willingness-to-pay space; scale and worth of time differ between people."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(sets // choices), choices)
    scale = np.exp(0.2 + 0.5 * rng.normal(size=person.max() + 1))[person]
    time = (-1.0 + 0.6 * rng.normal(size=person.max() + 1))[person]
    x = rng.normal(size=(sets, 4, 3)) * [1.0, 2.0, 1.0] + [5.0, 30.0, 0.0]
    paid = x[..., 0] - time[:, None] * x[..., 1] - 0.5 * x[..., 2]
    utility = -scale[:, None] * paid + rng.gumbel(size=paid.shape)
    table = {name: x[..., place].ravel() for place, name in enumerate(ITEMS)} | {
        "s": np.repeat(np.arange(sets), 4), "p": np.repeat(person, 4),
        "y": (utility == utility.max(1, keepdims=True)).astype(int).ravel(),
    }  # fmt: skip
    return sw.read(table, set="s", chosen="y", items=ITEMS, group="p")


@pytest.fixture(scope="module")
def choices():
    return made()


@pytest.mark.parametrize("covariance", ["classical", "cluster"])
def test_without_random_coefficients_it_is_the_logit_with_its_ratios(choices, covariance):
    logit, model = sw.MNL().fit(choices), sw.MixedLogit({}, wtp_space="cost").fit(choices)
    assert model.log_likelihood_ == pytest.approx(logit.log_likelihood_, rel=1e-12)
    worth = willingness_to_pay(logit, "cost", covariance=covariance)
    np.testing.assert_allclose(model.coef_, [logit.coef_[0], *worth.values], rtol=1e-7)
    errors = np.sqrt(np.diag(model.covariance_of(covariance)))
    np.testing.assert_allclose(errors[1:], worth.standard_errors, rtol=1e-5)
    own = willingness_to_pay(model, "cost", covariance=covariance)
    assert own.names == worth.names
    np.testing.assert_allclose(own.values, worth.values, rtol=1e-6)
    np.testing.assert_allclose(own.standard_errors, worth.standard_errors, rtol=1e-4)
    assert "draws per person" not in str(model.summary())


def test_with_one_price_for_all_both_spaces_are_the_same_model(choices):
    """beta = -price * (mean + sd z) is normal too, with the ratios of its mean and sd."""
    both = [
        sw.MixedLogit({"time": "normal", "comfort": "triangular"}, draws=100, wtp_space=one)
        for one in (None, "cost")
    ]
    plain, model = (one.fit(choices) for one in both)
    assert model.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=1e-6)
    scale = np.array([1, *[-1 / plain.coef_[0]] * 4])
    np.testing.assert_allclose(model.parameters_, plain.parameters_ * scale, rtol=1e-4)
    worth = willingness_to_pay(plain, "cost")
    assert worth.names == ("time", "comfort", "sd(time)", "sd(comfort)")
    # A triangular coefficient has a standard deviation of its half-width over the root of 6.
    found = model.parameters_[1:] / [1, 1, 1, 6**0.5]
    np.testing.assert_allclose(worth.values, found, rtol=2e-3)
    errors = model.standard_errors_[1:] / [1, 1, 1, 6**0.5]
    np.testing.assert_allclose(worth.standard_errors, errors, rtol=5e-3)
    np.testing.assert_allclose(
        model.predict_proba(choices), plain.predict_proba(choices), atol=1e-5
    )


def test_correlated_log_normals_are_the_same_model_in_both_spaces(choices):
    """log beta = log scale + log worth is normal, whatever the correlation of the two."""
    flipped = sw.read(
        {name: column.values for name, column in choices.columns.items()} | {
            "time": -choices.columns["time"].values,
            "s": np.repeat(choices.set_ids, choices.sizes), "p": np.repeat(choices.group, 4),
            "y": np.arange(4 * len(choices)) % 4 == np.repeat(choices.chosen, 4),
        },
        set="s", chosen="y", items=["cost", "time"], group="p",
    )  # fmt: skip
    kinds = {"cost": "-lognormal", "time": "lognormal"}
    plain, model = (
        sw.MixedLogit(kinds, correlated=True, draws=100, wtp_space=one).fit(flipped)
        for one in (None, "cost")
    )
    assert model.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=1e-5)
    own, other = (one.cholesky_ @ one.cholesky_.T for one in (plain, model))
    into = np.array([[1, 0], [-1, 1]])
    np.testing.assert_allclose(into @ own @ into.T, other, rtol=1e-3)
    assert model.coef_[1] == pytest.approx(plain.coef_[1] - plain.coef_[0], rel=1e-3)


def test_the_truth_is_recovered_from_data_drawn_in_this_space():
    kinds = {"cost": "-lognormal", "time": "normal"}
    model = sw.MixedLogit(kinds, draws=200, wtp_space="cost").fit(made(sets=2400, seed=1))
    assert model.parameter_names_ == [
        "mean(log -cost)", "time", "comfort", "sd(log -cost)", "sd(time)",
    ]  # fmt: skip
    truth = [0.2, -1.0, 0.5, 0.5, 0.6]
    assert (np.abs(model.parameters_ - truth) < 3 * model.standard_errors_).all()
    worth = willingness_to_pay(model, "cost")
    assert worth.names == ("time", "comfort", "sd(time)")
    np.testing.assert_allclose(worth.values, model.parameters_[[1, 2, 4]], rtol=2e-3)
    errors = model.standard_errors_[[1, 2, 4]]
    np.testing.assert_allclose(worth.standard_errors, errors, rtol=5e-3)
    reach = willingness_to_pay(model, "cost", interval="krinsky_robb", draws=1000).intervals
    np.testing.assert_allclose(np.diff(reach)[:, 0] / 2 / 1.96, errors, rtol=0.1)


@pytest.fixture(scope="module")
def default(choices):
    return sw.MixedLogit(draws=50, wtp_space="cost").fit(choices)


def test_by_default_the_scale_is_log_normal_and_all_else_is_normal(default, choices, tmp_path):
    assert default.parameter_names_[0] == "mean(log -cost)"
    assert "In willingness-to-pay space" in str(default.summary())
    default.save(tmp_path / "m")
    again = sw.load(tmp_path / "m")
    assert str(again.summary()) == str(default.summary())
    assert again.wtp_space == "cost"
    np.testing.assert_array_equal(again.predict_proba(choices), default.predict_proba(choices))


def test_people_pay_what_the_posterior_of_the_parameters_says(default, choices):
    """The worth of a person does not need the person's scale: its points are in the parameters."""
    own = default.individual_willingness_to_pay("cost")
    found = default.posterior(choices)
    z = default._standard_draws(len(found.people), 50)[7].astype(float)
    worth = default.coef_[1] + default.cholesky_[1, 1] * default.signs_[1] * z[1]
    assert own["time"][7] == pytest.approx(worth @ found.weights[7], rel=1e-5)
    beta = default.individual_coefficients()
    assert (beta["cost"] < 0).all()
    scale = np.exp(default.coef_[0] + default.cholesky_[0, 0] * default.signs_[0] * z[0])
    assert beta["time"][7] == pytest.approx((scale * worth) @ found.weights[7], rel=1e-5)


def test_units_do_not_matter(default, choices):
    table = {name: column.values for name, column in choices.columns.items()} | {
        "cost": choices.columns["cost"].values * 100,
        "s": np.repeat(choices.set_ids, 4), "p": np.repeat(choices.group, 4),
        "y": np.arange(4 * len(choices)) % 4 == np.repeat(choices.chosen, 4),
    }  # fmt: skip
    cents = sw.read(table, set="s", chosen="y", items=ITEMS, group="p")
    model = sw.MixedLogit(draws=50, wtp_space="cost").fit(cents)
    assert model.log_likelihood_ == pytest.approx(default.log_likelihood_, abs=1e-6)
    assert model.coef_[0] == pytest.approx(default.coef_[0] - np.log(100), abs=1e-5)
    np.testing.assert_allclose(model.coef_[1:], 100 * default.coef_[1:], rtol=1e-5)
    np.testing.assert_allclose(
        np.diag(model.cholesky_)[1:], 100 * np.diag(default.cholesky_)[1:], rtol=1e-4
    )


def test_a_scale_that_changes_its_sign_or_is_unknown_is_refused(choices):
    for arguments, said in (
        ({"wtp_space": "price"}, "wtp_space='price' is not a column.*cost, time, comfort"),
        ({"wtp_space": "cost", "random": {"cost": "normal"}}, "must keep its sign"),
    ):
        with pytest.raises(sw.InputError, match=said):
            sw.MixedLogit(draws=5, **arguments).fit(choices)
    table = {"s": [1, 1, 2, 2], "y": [1, 0, 0, 1], "cost": [1.0, 1, 2, 2], "x": [1.0, 2, 3, 4]}
    same = sw.read(table, set="s", chosen="y", items=["cost", "x"])
    with pytest.raises(sw.InputError, match="'cost' is not identified"):
        sw.MixedLogit({}, wtp_space="cost").fit(same)
    model = sw.MixedLogit({"cost": "normal"}, draws=20).fit(choices)
    with pytest.raises(sw.InputError, match=r"'comfort' is .*, not negative"):
        willingness_to_pay(model, "comfort")
    wide = model.with_parameters(np.array([-1.0, -1.0, 0.5, 1.0]))  # 16 % like to pay
    with pytest.raises(sw.InputError, match=r"'cost' is not negative for 15\.9% of people"):
        willingness_to_pay(wide, "cost")
