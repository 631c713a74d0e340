"""Logits with context columns: by hand, against scipy on the written-out formula, and recovery."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from scipy.stats import chi2

import setwise as sw
from setwise._tensorfile import with_arrays
from setwise.choices import Encoded
from setwise.estimators.logit import MNL, LinearContextLogit, WithinSetMNL
from setwise.models import ZOO, Sizes
from setwise.models.within_set import WithinSet, within_set
from setwise.scoring.model_file import Artifact
from setwise.training.likelihood import by_set

RARE = 1e-4  # a right test fails once in ten thousand seeds, and the seeds are fixed


def drawn(phi, weights, sets=4000, features=2, seed=0, shift=0.0):
    """Choices from softmax < weights, phi(x of the set) > over ragged sets."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(sets), rng.integers(2, 7, sets))
    # Sets differ in their means, or there would be no context to learn from.
    x = rng.normal(size=(len(owner), features)) + rng.normal(size=(sets, features))[owner]
    chosen = np.zeros(len(owner), int)
    for one in np.split(np.arange(len(owner)), np.flatnonzero(np.diff(owner)) + 1):
        chosen[one[np.argmax(phi(x[one]) @ weights + rng.gumbel(size=len(one)))]] = 1
    columns = {f"x{j}": x[:, j] + shift for j in range(features)}
    return {"set_id": owner, "chosen": chosen, **columns}


def read(columns, **options):
    items = [name for name in columns if name.startswith("x")]
    return sw.read(columns, set="set_id", chosen="chosen", items=items, **options)


def context_columns(x):
    """x_j, then x_j mean(x)_k: the formula of the linear context logit, one set at a time."""
    mean = x.mean(0)
    return np.stack([np.concatenate([one, np.outer(one, mean).ravel()]) for one in x])


def relative_columns(x):
    """x, z-scores and positions within a set whose items differ."""
    low, high = x.min(0), x.max(0)
    return np.hstack([x, (x - x.mean(0)) / x.std(0), (x - low) / (high - low)])


def by_scipy(phi, columns):
    """Estimate and covariance by BFGS on the likelihood as written, with a numerical Hessian."""
    x = np.stack([columns[name] for name in columns if name.startswith("x")], 1)
    x = (x - x.mean(0)) / x.std(0)
    sets = [np.flatnonzero(columns["set_id"] == one) for one in np.unique(columns["set_id"])]
    rows = [phi(x[one]) for one in sets]
    picked = [int(np.argmax(columns["chosen"][one])) for one in sets]

    def loss(b):
        return sum(
            np.log(np.exp(r @ b).sum()) - r[y] @ b for r, y in zip(rows, picked, strict=True)
        )

    def slope(b):
        total = np.zeros_like(b)
        for r, y in zip(rows, picked, strict=True):
            p = np.exp(r @ b)
            total += p @ r / p.sum() - r[y]
        return total

    start = np.zeros(rows[0].shape[1])
    best = scipy.optimize.minimize(loss, start, jac=slope, options={"gtol": 1e-9}).x
    nudges = 1e-5 * np.eye(len(best))
    hessian = [(slope(best + e) - slope(best - e)) / 2e-5 for e in nudges]
    return best, np.linalg.inv(hessian), -loss(best)


def test_the_linear_context_logit_by_hand():
    x = jnp.array([[1.0, 0.0], [0.0, 2.0], [2.0, 1.0]])  # mean (1, 1)
    arrays = {"w.theta": np.array([0.5, -1.0]), "w.A": np.array([[0.1, 0.2], [0.0, -0.3]])}
    arrays = {name: value.astype(np.float32) for name, value in arrays.items()}
    model = with_arrays(ZOO["lcl"].skeleton(2, Sizes()), arrays)
    # w = (0.5 + 0.1 + 0.2, -1 + 0 - 0.3) = (0.8, -1.3)
    expected = [0.8, -2.6, 0.3]
    np.testing.assert_allclose(model.scores(x, jnp.ones(3, bool)), expected, rtol=1e-6)


def test_within_set_features_by_hand():
    x = jnp.array([[1.0], [2.0], [4.0]])  # mean 7/3, variance (16 + 1 + 25) / 27, range 3
    found = within_set(x, jnp.ones(3, bool))
    np.testing.assert_allclose(found[:, 0], [-1.0690450, -0.2672612, 1.3363062], rtol=1e-6)
    np.testing.assert_allclose(found[:, 1], [0, 1 / 3, 1], rtol=1e-6)
    model = with_arrays(WithinSet(1), {"theta": np.array([[2.0], [-1.0], [3.0]], np.float32)})
    expected = [2 + 1.0690450, 4 + 0.2672612 + 1, 8 - 1.3363062 + 3]
    np.testing.assert_allclose(model.scores(x, jnp.ones(3, bool)), expected, rtol=1e-6)


def test_within_set_features_are_computed_anew_when_an_item_leaves():
    x = jnp.array([[1.0], [2.0], [4.0]])
    found = within_set(x, jnp.array([True, True, False]))
    np.testing.assert_allclose(found[:2], [[-1, 0], [1, 1]], rtol=1e-6)


@pytest.mark.parametrize(
    ("x", "present"),
    [([[3.0], [3.0], [3.0]], [1, 1, 1]), ([[3.0], [1.0], [2.0]], [1, 0, 0])],
    ids=["max = min", "one item"],
)
def test_without_a_range_within_set_features_are_zero_with_finite_gradients(x, present):
    x, present = jnp.array(x), jnp.array(present, bool)
    np.testing.assert_array_equal(jnp.where(present[:, None], within_set(x, present), 0), 0)
    slopes = jax.jacobian(lambda x: jnp.where(present[:, None], within_set(x, present), 0))(x)
    assert np.isfinite(slopes).all()


def test_flat_within_set_features_agree_with_numpy():
    rng = np.random.default_rng(0)
    offsets = np.array([0, 3, 5, 45, 52])
    x = rng.normal(size=(52, 3)) * [1, 1e-3, 100]
    data = Encoded(x, np.zeros((4, 0)), offsets, None, None)
    expected = [relative_columns(one)[:, 3:] for one in np.split(x, offsets[1:-1])]
    np.testing.assert_allclose(by_set(within_set, data), np.concatenate(expected), rtol=1e-9)


@pytest.mark.parametrize(
    ("estimator", "phi", "size"),
    [(LinearContextLogit, context_columns, 6), (WithinSetMNL, relative_columns, 6)],
)
def test_agrees_with_scipy_on_the_formula_as_written(estimator, phi, size):
    columns = drawn(phi, np.linspace(-1, 1, size), sets=150, seed=1)
    model = estimator().fit(read(columns))
    best, covariance, value = by_scipy(phi, columns)
    units = np.ones(size)
    if estimator is WithinSetMNL:  # which reports x in the table's units
        units[:2] = model.schema_.item_scales
    # WithinSetMNL's columns are rounded to single precision, as its model sees them.
    np.testing.assert_allclose(model.coef_ * units, best, rtol=1e-4, atol=1e-5)
    errors = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(model.standard_errors_ * units, errors, rtol=1e-4)
    assert model.log_likelihood_ == pytest.approx(value, rel=1e-7)
    assert model.converged_


@pytest.mark.parametrize("estimator", [LinearContextLogit, WithinSetMNL])
def test_the_model_is_what_was_solved(estimator):
    """The compiled model's likelihood on the training sets is the optimum's."""
    columns = drawn(context_columns, np.linspace(-1, 1, 6), sets=300, shift=5.0)
    columns["mood"] = np.random.default_rng(0).normal(size=300)[columns["set_id"]]
    choices = read(columns, context=["mood"])
    model = estimator().fit(choices)
    assert model.evaluate(choices).nll * 300 == pytest.approx(-model.log_likelihood_, rel=1e-5)


def test_recovers_the_context_matrix():
    theta, A = np.array([0.8, -0.5]), np.array([[0.5, -0.3], [0.0, 0.4]])
    columns = drawn(context_columns, np.concatenate([theta, A.ravel()]), seed=2)
    model = LinearContextLogit().fit(read(columns))
    # The truth in standardised units: x = m + D u, so u has weights D (theta + A m) + D A D mean(u)
    m = np.array(model.schema_.mean)
    D = np.diag(model.schema_.item_scales)
    truth = np.concatenate([D @ (theta + A @ m), (D @ A @ D).ravel()])
    error = model.coef_ - truth
    assert error @ np.linalg.solve(model.covariance_, error) < chi2.isf(RARE, 6)
    assert np.abs(model.A_ / model.standard_errors_[2:].reshape(2, 2)).max() > 10
    np.testing.assert_array_equal(model.theta_, model.coef_[:2])


def test_recovers_within_set_weights():
    truth = np.array([0.5, -0.5, 1.0, 0.0, 0.0, 2.0])
    model = WithinSetMNL().fit(read(drawn(relative_columns, truth, seed=3)))
    error = model.coef_ - truth
    assert error @ np.linalg.solve(model.covariance_, error) < chi2.isf(RARE, 6)


def test_context_moves_the_weights_of_a_linear_context_logit():
    rng = np.random.default_rng(4)
    owner = np.repeat(np.arange(4000), 4)
    x, mood = rng.normal(size=len(owner)), rng.normal(size=4000)[owner]
    noisy = (x * (0.5 + mood) + rng.gumbel(size=len(owner))).reshape(-1, 4)
    chosen = (noisy == noisy.max(1, keepdims=True)).ravel().astype(int)
    columns = {"set_id": owner, "chosen": chosen, "x": x, "mood": mood}
    model = LinearContextLogit().fit(read(columns, context=["mood"]))
    assert model.feature_names_ == ["x", "x × mean(x)", "x × mood"]
    assert model.A_.shape == (1, 2)
    truth = np.array([0.5, 0, 1]) * x.std()
    assert (np.abs(model.coef_ - truth) < 4 * model.standard_errors_).all()


def test_without_context_effects_it_is_the_mnl():
    columns = drawn(lambda x: x, np.array([1.0, -0.5]), sets=1500, seed=5)
    choices = read(columns)
    mnl, lcl = MNL().fit(choices), LinearContextLogit().fit(choices)
    ratio = 2 * (lcl.log_likelihood_ - mnl.log_likelihood_)
    assert 0 <= ratio < chi2.isf(RARE, 4)  # the test of IIA: d² degrees of freedom
    lcl.coef_ = np.append(mnl.coef_ * mnl.schema_.item_scales, np.zeros(4))
    lcl.model_ = lcl._model()
    np.testing.assert_allclose(lcl.predict_proba(choices), mnl.predict_proba(choices), rtol=1e-5)


def test_means_that_never_change_are_references_and_not_noise():
    """Three brands, one of each in every set: a brand's mean is a constant, up to rounding."""
    rng = np.random.default_rng(0)
    columns = {
        "set_id": np.repeat(np.arange(300), 3),
        "chosen": np.eye(3, dtype=int)[rng.integers(3, size=300)].ravel(),
        "x": rng.normal(size=900),
        "xbrand": np.tile(["a", "b", "c"], 300),
    }
    lcl = LinearContextLogit().fit(read(columns))
    names = np.array(lcl.feature_names_)
    assert set(names[~lcl.identified_]) >= {
        "x × mean(xbrand=a)",
        "xbrand=c",
        "xbrand=a × mean(xbrand=b)",
    }
    assert np.abs(lcl.coef_).max() < 2
    within = WithinSetMNL().fit(read(columns))
    assert (
        within.identified_.tolist()
        == [True] * 3 + [False] + [True] + [False] * 3 + [True] + [False] * 3
    )


@pytest.mark.parametrize("estimator", [LinearContextLogit, WithinSetMNL])
def test_weights_count_sets_more_than_once(estimator):
    columns = drawn(context_columns, np.linspace(-1, 1, 6), sets=120)
    weight = np.random.default_rng(0).integers(1, 4, 120)
    weighted = read(columns | {"w": weight[columns["set_id"]].astype(float)}, weight="w")
    repeated = read(columns).take(np.repeat(np.arange(120), weight))
    first, copied = estimator().fit(weighted), estimator().fit(repeated)
    # Copies move the training mean and scale, which the model should not feel. Weights are
    # divided by their mean.
    assert first.log_likelihood_ * weight.mean() == pytest.approx(copied.log_likelihood_, rel=1e-9)
    np.testing.assert_allclose(
        first.predict_proba(weighted), copied.predict_proba(weighted), rtol=1e-3, atol=1e-6
    )


@pytest.mark.parametrize("estimator", [LinearContextLogit, WithinSetMNL])
def test_a_model_file_gives_the_identical_model(estimator, tmp_path):
    choices = read(drawn(context_columns, np.linspace(-1, 1, 6), sets=120))
    model = estimator().fit(choices)
    model.save(tmp_path / "model")
    loaded = estimator.from_artifact(Artifact.read(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict_proba(choices), model.predict_proba(choices))
    assert str(loaded.summary()) == str(model.summary())


@pytest.mark.parametrize("estimator", [LinearContextLogit, WithinSetMNL])
def test_an_outside_option_takes_its_share(estimator):
    columns = drawn(context_columns, np.linspace(-1, 1, 6), sets=300)
    columns["chosen"] = columns["chosen"] * (columns["set_id"] % 4 > 0)
    choices = read(columns, on_none="outside")
    model = estimator().fit(choices)
    total = np.bincount(columns["set_id"], model.predict_proba(choices))
    assert total.max() < 1
    assert model.evaluate(choices).nll * 300 == pytest.approx(-model.log_likelihood_, rel=1e-5)


def test_summaries_state_their_units():
    choices = read(drawn(context_columns, np.linspace(-1, 1, 6), sets=120))
    assert "standardised" in str(LinearContextLogit().fit(choices).summary())
    assert "no unit" in str(WithinSetMNL().fit(choices).summary())
