"""The cross-nested logit: by hand, against the nested logit, and lambdas above 1."""

import jax
import numpy as np
import pytest
from scipy.stats import chi2

import setwise as sw
from setwise.consequences import willingness_to_pay

RARE = 1e-4
NESTS = {"road": ["bus", "car"], "public": ["bus", "train"]}
MODES = ("bus", "car", "train", "walk")


def probabilities(v, nests, lambdas, alphas):
    """The formula as it is written, nest by nest; an alternative in no nest is one of its own."""
    odds = np.zeros_like(v)
    for k, (name, scale) in enumerate(zip(sorted(nests), lambdas, strict=True)):
        members = nests[name]
        places = [MODES.index(one) for one in members]
        y = (np.exp(v[:, places]) * np.array([alphas[one][k] for one in members])) ** (1 / scale)
        total = y.sum(1, keepdims=True)
        odds[:, places] += total**scale * y / total
    listed = {one for members in nests.values() for one in members}
    alone = [place for place, one in enumerate(MODES) if one not in listed]
    odds[:, alone] = np.exp(v[:, alone])
    return odds / odds.sum(1, keepdims=True)


ALPHAS = {"bus": (0.4, 0.6), "car": (0, 1), "train": (1, 0)}  # in public, on the road


def trips(sets=800, seed=0, lambdas=(0.4, 0.6)):
    rng = np.random.default_rng(seed)
    cost = rng.uniform(0, 3, size=(sets, 4))
    p = probabilities(-1.0 * cost, NESTS, lambdas, ALPHAS)
    chosen = (rng.random((sets, 1)) > p.cumsum(1)).sum(1)
    table = {f"cost.{one}": cost[:, k] for k, one in enumerate(MODES)}
    table |= {"mode": np.array(MODES)[chosen], "person": np.arange(sets) // 4}
    return table, sw.read_wide(table, chosen="mode", items=["cost.{alt}"], group="person")


@pytest.fixture(scope="module")
def fitted():
    table, choices = trips()
    return table, choices, sw.CrossNestedLogit(NESTS, utility="cost | 0").fit(choices)


def test_probabilities_are_those_of_the_formula(fitted):
    table, choices, model = fitted
    alphas = dict(zip(model._nests.alternatives, model.alphas_, strict=True))
    v = model.coef_[0] * np.stack([table[f"cost.{one}"] for one in MODES], 1)
    expected = probabilities(v, NESTS, model.lambdas_, alphas)
    np.testing.assert_allclose(model.predict_proba(choices), expected.ravel(), atol=1e-5)
    chosen = [MODES.index(one) for one in table["mode"]]
    by_hand = np.log(expected[np.arange(len(chosen)), chosen]).sum()
    assert model.log_likelihood_ == pytest.approx(by_hand, rel=1e-9)


def test_recovers_lambdas_and_alphas(fitted):
    _, _, model = fitted
    assert model.parameter_names_ == [
        "cost", "lambda(public)", "lambda(road)", "alpha(bus in public)", "alpha(bus in road)",
    ]  # fmt: skip
    error = model.parameters_[:4] - [-1.0, 0.4, 0.6, 0.4]
    covariance = model.covariance_of("classical")[:4, :4]
    assert error @ np.linalg.solve(covariance, error) < chi2.isf(RARE, 4)
    assert sum(model.alpha_["bus"].values()) == pytest.approx(1)
    assert model.alpha_["car"] == {"road": 1.0}
    assert "one less the other shares" in str(model.summary())


def test_one_lambda_for_all_nests(fitted):
    _, choices, model = fitted
    one = sw.CrossNestedLogit(NESTS, utility="cost | 0", one_lambda=True).fit(choices)
    assert one.parameter_names_[1:] == ["lambda", "alpha(bus in public)", "alpha(bus in road)"]
    assert one.lambdas_[0] == one.lambdas_[1]
    assert 0 <= 2 * (model.log_likelihood_ - one.log_likelihood_) < chi2.isf(RARE, 1)


def test_without_crossing_it_is_the_nested_logit(fitted):
    _, choices, _ = fitted
    nests = {"road": ["bus", "car"]}
    crossed = sw.CrossNestedLogit(nests, utility="cost").fit(choices)
    nested = sw.NestedLogit(nests=nests, utility="cost").fit(choices)
    assert crossed.log_likelihood_ == pytest.approx(nested.log_likelihood_, rel=1e-9)
    np.testing.assert_allclose(crossed.parameters_, nested.parameters_, rtol=1e-4)
    np.testing.assert_allclose(crossed.standard_errors_, nested.standard_errors_, rtol=1e-3)


def test_a_lambda_above_one_is_told():
    """Two of a kind attract more than the MNL says."""
    rng = np.random.default_rng(0)
    cost = rng.uniform(0, 3, size=(800, 4))
    p = probabilities(-cost, {"road": ["bus", "car"]}, [1.8], {"bus": [1], "car": [1]})
    chosen = (rng.random((800, 1)) > p.cumsum(1)).sum(1)
    table = {f"cost.{one}": cost[:, k] for k, one in enumerate(MODES)}
    table["mode"] = np.array(MODES)[chosen]
    choices = sw.read_wide(table, chosen="mode", items=["cost.{alt}"])
    with pytest.warns(UserWarning, match=r"lambda\(road\) = 1\.\d+ is above 1, which is incons"):
        model = sw.CrossNestedLogit({"road": ["bus", "car"]}, utility="cost | 0").fit(choices)
    assert abs(model.lambdas_[0] - 1.8) < 3 * model.standard_errors_[1]
    assert "inconsistent with utility maximisation" in str(model.summary())


def test_files_bootstrap_and_willingness_to_pay(fitted, tmp_path):
    _, choices, model = fitted
    model.save(tmp_path / "model")
    loaded = sw.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(choices), model.predict_proba(choices))
    assert str(loaded.summary()) == str(model.summary())
    scorer = sw.scoring.load_scorer(tmp_path / "model")
    np.testing.assert_allclose(
        scorer.predict_proba(choices), model.predict_proba(choices), atol=1e-6
    )
    assert len(willingness_to_pay(model, "cost").names) == 0
    moved = model.with_parameters(model.parameters_)
    np.testing.assert_allclose(moved.predict_proba(choices), model.predict_proba(choices))


def test_a_file_of_a_nested_logit_keeps_which_lambda_is_whose(fitted, tmp_path):
    _, choices, _ = fitted
    nests = {"wheels": ["bus", "car"], "other": ["train", "walk"]}  # not in alphabetical order
    model = sw.NestedLogit(nests=nests, utility="cost").fit(choices)
    model.save(tmp_path / "model")
    assert sw.load(tmp_path / "model").lambda_ == model.lambda_


def test_absent_items_are_never_read(fitted):
    model = fitted[2].model_
    x = np.random.default_rng(0).normal(size=(4, len(model.theta))).astype(np.float32)
    padded = np.concatenate([x, np.full((2, x.shape[1]), np.nan, np.float32)])
    found = model.probabilities(jax.numpy.asarray(padded), jax.numpy.arange(6) < 4)
    expected = model.probabilities(jax.numpy.asarray(x), jax.numpy.ones(4, bool))
    np.testing.assert_allclose(found[:4], expected, rtol=1e-5)
    assert (found[4:] == 0).all()


def test_wrong_nests_are_refused_with_a_remedy(fitted):
    _, choices, _ = fitted
    with pytest.raises(sw.InputError, match="'plane', which is not an alternative"):
        sw.CrossNestedLogit({"air": ["plane"]}, utility="cost").fit(choices)
    with pytest.raises(sw.InputError, match="goes with a utility"):
        sw.CrossNestedLogit(NESTS).fit(choices)
