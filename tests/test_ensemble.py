"""Ensembles: the mean of probabilities, trained as a population, used and saved as one model."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone

import setwise as sw
from setwise.models import ZOO, Ensemble, Sizes
from setwise.training.options import OBJECTIVES

QUICK = sw.Training(epochs=4, batch_size=32, learning_rate=3e-2)
MODELS = {
    "sdw": sw.SDW(2, hidden=4, training=QUICK, ensemble=2),
    "sde": sw.SDE(2, hidden=4, training=QUICK, ensemble=2),
    "sda": sw.SDA.paper(
        2, components=2, hidden=4, training=replace(QUICK, dropout=0.1), ensemble=2
    ),
    "lam": sw.ChoiceModel("lam", dimension=2, training=QUICK, ensemble=2),
}


# One program instead of one per operation.
probabilities = eqx.filter_jit(lambda model, x, present: model.probabilities(x, present))


def logits(*coefficients):
    """An ensemble of MNLs of one feature, with these coefficients."""
    empty = ZOO["mnl"].build(1, Sizes(), jax.random.key(0))
    return Ensemble.of(
        [eqx.tree_at(lambda m: m.F.theta, empty, jnp.full_like(empty.F.theta, one))
         for one in coefficients]
    )  # fmt: skip


def log_odds(model, x):
    """Between the first two of these items."""
    p = probabilities(model, jnp.asarray(x)[:, None], jnp.ones(len(x), bool))
    return float(jnp.log(p[0] / p[1]))


# The model


def test_probabilities_are_the_mean_by_hand():
    # One member: 1/3 and 2/3; the other, with twice the coefficient: 1/5 and 4/5.
    model = logits(np.log(2.0), 2 * np.log(2.0))
    p = probabilities(model, jnp.array([[0.0], [1.0]]), jnp.ones(2, bool))
    np.testing.assert_allclose(p, [(1 / 3 + 1 / 5) / 2, (2 / 3 + 4 / 5) / 2], rtol=1e-6)
    # Three items, one of them absent: as if it were not there, whatever stands in its place.
    for garbage in (0.0, 7.0, np.nan):
        items = jnp.array([[0.0], [garbage], [1.0]])
        padded = probabilities(model, items, jnp.array([True, False, True]))
        np.testing.assert_allclose(padded, [p[0], 0, p[1]], rtol=1e-6)


def test_members_may_be_of_different_kinds():
    models = [
        ZOO[name].build(2, Sizes(dimension=3, hidden=4), jax.random.key(seed))
        for seed, name in enumerate(("sdw", "sde", "mnl", "sdw"))
    ]
    models[2] = eqx.tree_at(lambda one: one.F.theta, models[2], jnp.ones((2, 1, 1)))
    items, present = jax.random.normal(jax.random.key(9), (4, 2)), jnp.array([True] * 3 + [False])
    each = np.array([probabilities(one, items, present) for one in models])
    for weight in (None, np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.0, 0.6, 0.0, 0.4])):
        shares = np.full(4, 0.25) if weight is None else weight
        model = Ensemble.of(models, weight)
        np.testing.assert_allclose(probabilities(model, items, present), shares @ each, rtol=1e-5)
        kept = [one for one, share in zip(models, shares, strict=True) if share]
        like = Ensemble.skeleton(eqx.filter_eval_shape(lambda kept: kept, kept), weight is not None)
        assert jax.tree.map(jnp.shape, model) == jax.tree.map(lambda leaf: leaf.shape, like)


def test_an_ensemble_of_logits_breaks_iia():
    """A mean of logits is a mixture: one item more, and the odds of the others move."""
    for coefficient in (0.5, 2.0):
        one = logits(coefficient)
        assert log_odds(one, [0.0, 1.0, 3.0]) == pytest.approx(log_odds(one, [0.0, 1.0]), abs=1e-5)
    # By hand for coefficients -1 and 1: 1 : 1 between 0 and 1, as the members mirror each other ...
    both = logits(-1.0, 1.0)
    assert log_odds(both, [0.0, 1.0]) == pytest.approx(0, abs=1e-6)
    # ... until an item at 3 takes most from the second member, which preferred 1 to 0.
    e = np.exp
    shares = [
        (1 / (1 + e(-1) + e(-3)) + 1 / (1 + e(1) + e(3))) / 2,
        (e(-1) / (1 + e(-1) + e(-3)) + e(1) / (1 + e(1) + e(3))) / 2,
    ]
    assert log_odds(both, [0.0, 1.0, 3.0]) == pytest.approx(np.log(shares[0] / shares[1]), abs=1e-5)
    assert log_odds(both, [0.0, 1.0, 3.0]) > 0.5


def test_extreme_members_have_finite_gradients():
    """One is certain of an item, the other of another: no logarithm of zero."""

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def loss(model, items):
        present = jnp.array([True, True, False])
        return OBJECTIVES["cross_entropy"](model.scores(items, present), present, jnp.array(0))

    value, gradient = loss(logits(1e4, -1e4), jnp.array([[0.0], [1.0], [0.0]]))
    assert value == pytest.approx(np.log(2), rel=1e-5)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


# The estimator


@pytest.fixture(scope="module")
def parts():
    choices = sw.datasets.generate("mnl", sets=200, items=(5, 6), features=3).choices
    return sw.split(choices, (0.6, 0.2, 0.2))


@pytest.fixture(scope="module")
def fitted(parts):
    return {name: clone(model).fit(*parts[:2]) for name, model in MODELS.items()}


every_model = pytest.mark.parametrize("name", MODELS)


@every_model
def test_every_estimator_can_be_an_ensemble(name, fitted, parts):
    model = fitted[name]
    assert isinstance(model.model_, Ensemble)
    np.testing.assert_allclose(
        np.bincount(parts[2].in_table_order(np.repeat(np.arange(40), parts[2].sizes)),
                    model.predict_proba(parts[2])), 1, atol=1e-5
    )  # fmt: skip
    assert len(model.history_) == len(model.best_epoch_) == 2
    for history, best in zip(model.history_, model.best_epoch_, strict=True):
        losses = [epoch["nll"] for epoch in history]
        assert losses.index(min(losses)) == best
    assert not model.interrupted_


@every_model
def test_an_ensemble_is_saved_and_loaded_as_one_model(name, fitted, parts, tmp_path):
    model = fitted[name]
    model.save(tmp_path / "model")
    loaded = sw.load(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    assert (loaded.history_, loaded.best_epoch_) == (model.history_, model.best_epoch_)
    np.testing.assert_array_equal(loaded.predict_proba(parts[2]), model.predict_proba(parts[2]))


def test_the_members_are_the_models_of_the_next_seeds(fitted, parts):
    """The first is the model alone; the ensemble predicts the mean of all."""
    alone = [clone(MODELS["sda"]).set_params(ensemble=1, seed=seed) for seed in (0, 1)]
    for number, one in enumerate(alone):
        one.fit(*parts[:2])
        assert isinstance(one.history_[0], dict)
        assert fitted["sda"].best_epoch_[number] == one.best_epoch_
        member = jax.tree.map(lambda leaf, at=number: leaf[at], fitted["sda"].model_.members)
        pairs = zip(jax.tree.leaves(member), jax.tree.leaves(one.model_), strict=True)
        for ours, theirs in pairs:
            np.testing.assert_allclose(ours, theirs, atol=2e-5)
    mean = sum(one.predict_proba(parts[2]) for one in alone) / 2
    np.testing.assert_allclose(fitted["sda"].predict_proba(parts[2]), mean, atol=1e-5)


def test_an_ensemble_of_one_is_the_plain_model(parts):
    plain = sw.SDW(2, hidden=4, training=QUICK).fit(*parts[:2])
    one = clone(MODELS["sdw"]).set_params(ensemble=1).fit(*parts[:2])
    np.testing.assert_array_equal(plain.predict_proba(parts[2]), one.predict_proba(parts[2]))
    assert type(one.model_) is type(plain.model_)


def test_the_size_is_a_parameter_like_any_other(fitted):
    assert clone(fitted["sda"]).get_params()["ensemble"] == 2
    assert sw.SDA().get_params()["ensemble"] == 6


@pytest.mark.parametrize("size", [0, -3])
def test_a_size_below_one_is_refused(size, parts):
    with pytest.raises(sw.InputError, match=f"ensemble={size} must be a whole number"):
        sw.SDE(ensemble=size).fit(parts[0])


def test_a_member_that_diverges_is_told_with_its_remedy(parts):
    model = clone(MODELS["sdw"]).set_params(training=replace(QUICK, learning_rate=1e30), seed=3)
    with pytest.raises(sw.InputError, match=r"seed 3 diverged.*learning rate below 1e\+30"):
        model.fit(*parts[:2])


class Stop(Exception):
    """A kill, as far as the loop can tell."""


def interrupt(monkeypatch, calls, error):
    """Let training go on for so many epochs."""
    from setwise.training.trainer import Trainer

    left, plain = iter([True] * calls), Trainer.after

    def after(*arguments):
        if not next(left, False):
            raise error
        return plain(*arguments)

    monkeypatch.setattr("setwise.training.trainer.Trainer.after", after)


def test_an_ensemble_resumes_to_the_same_bits(fitted, parts, tmp_path, monkeypatch):
    monkeypatch.setattr("setwise.training.checkpoint.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    with monkeypatch.context() as patch:
        interrupt(patch, 2, Stop())
        with pytest.raises(Stop):
            clone(MODELS["sda"]).fit(*parts[:2], checkpoint=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["0.checkpoint"]
    interrupt(monkeypatch, 2, Stop())  # two epochs are left, no more
    resumed = clone(MODELS["sda"]).fit(*parts[:2], checkpoint=tmp_path)
    assert resumed.history_ == fitted["sda"].history_
    np.testing.assert_array_equal(
        resumed.predict_proba(parts[2]), fitted["sda"].predict_proba(parts[2])
    )


def test_ctrl_c_keeps_the_best_ensemble_and_warns(fitted, parts, monkeypatch):
    interrupt(monkeypatch, 2, KeyboardInterrupt())
    with pytest.warns(UserWarning, match="interrupted; keeping the model"):
        model = clone(MODELS["sda"]).fit(*parts[:2])
    assert model.interrupted_
    assert model.history_ == [history[:2] for history in fitted["sda"].history_]


DEFAULT = sw.SDA(2, hidden=4, training=QUICK, weight_decays=(0.01, 1.0), ensemble=4)


@pytest.mark.parametrize("epochs", [2, 4, 5])
def test_ctrl_c_keeps_the_members_that_have_a_model(parts, monkeypatch, tmp_path, epochs):
    """Members with pieces train first, for four epochs; then those without."""
    monkeypatch.setattr("setwise.training.population.layouts_at_once", lambda *_: 1)
    interrupt(monkeypatch, epochs, KeyboardInterrupt())
    with pytest.warns(UserWarning, match="interrupted; keeping the model"):
        model = clone(DEFAULT).fit(*parts[:2])
    assert model.interrupted_
    lengths = [len(history) for history in model.history_]
    assert lengths == 2 * [min(epochs, 4)] + 2 * [max(0, epochs - 4)]
    trained = np.array(lengths) > 0
    assert np.sum(model.weights_) + model.logit_weight_ == pytest.approx(1)
    assert not np.array(model.weights_)[~trained].any()
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        sw.load(tmp_path / "model").predict_proba(parts[2]), model.predict_proba(parts[2])
    )


def test_ctrl_c_before_the_first_epoch_is_an_interrupt(parts, monkeypatch):
    interrupt(monkeypatch, 0, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        clone(DEFAULT).fit(*parts[:2])
