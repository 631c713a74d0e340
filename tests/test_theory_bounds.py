"""Bounds: their arithmetic by hand, constants that random pairs never exceed, what is refused."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

import setwise as sw
from setwise.choices import Schema
from setwise.models import ZOO, Ensemble, Sizes
from setwise.models.item_functions import ItemScores
from setwise.models.set_functions import Constant, JointNetwork, Midpoint, PooledNetwork, Vector
from setwise.paper.theory import Bounds, bounds, lipschitz_constants

ORDERS = {"1": 1, "2": 2, "inf": np.inf}


def choices(sets=20, seed=0, context=False):
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "trip": np.repeat(np.arange(sets), 3),
            "cost": rng.normal(size=3 * sets),
            "time": rng.normal(size=3 * sets),
            "income": np.repeat(rng.normal(size=sets) ** 3, 3),
            "taken": [1, 0, 0] * sets,
        }
    )
    extra = {"context": ["income"]} if context else {}
    return sw.read(frame, set="trip", chosen="taken", items=["cost", "time"], **extra)


def fitted(name, data, wiring="joint", seed=0, louder=1.0):
    estimator = sw.ChoiceModel(name)
    estimator.schema_, _ = schema, _ = Schema.learn(data)
    sizes = Sizes(dimension=3, hidden=5, wiring=wiring)
    model = ZOO[name].build(schema.width, sizes, jax.random.key(seed))
    estimator.model_ = jax.tree.map(lambda leaf: louder * leaf, model)
    return estimator


@pytest.mark.parametrize("wiring", ["joint", "shared"])
def test_no_pair_of_sets_moves_a_network_by_more(wiring):
    rng = np.random.default_rng(1)
    model = ZOO["sdw"].build(4, Sizes(dimension=3, hidden=5, wiring=wiring), jax.random.key(2))
    network = jax.tree.map(lambda leaf: 2 * leaf, model.w)
    constants = lipschitz_constants(network)
    n, l = 4, 3  # noqa: E741

    def w(f):
        return network(ItemScores(f, jnp.eye(l)[:, :, None]), jnp.ones(n, bool))

    first = rng.normal(size=(500, n, l)) * np.exp(rng.normal(0, 1, size=(500, 1, 1)))
    second = first + rng.normal(size=(500, n, l)) * np.exp(rng.normal(-3, 2, size=(500, 1, 1)))
    moved = np.asarray(jax.vmap(w)(jnp.asarray(first, jnp.float32))) - np.asarray(
        jax.vmap(w)(jnp.asarray(second, jnp.float32))
    )
    rounding = 1e-5
    for name, order in ORDERS.items():
        apart = np.linalg.norm(first - second, order, axis=2).mean(1)
        assert (np.linalg.norm(moved, order, axis=1) <= constants[name] * apart + rounding).all()


def test_a_network_that_hardly_bends_moves_at_its_constant():
    """One unit a layer and small inputs: tanh is the identity there, and the bound is met."""
    network = PooledNetwork(1, 1, 1, jax.random.key(0))
    weights = [jnp.array([[value]]) for value in (0.5, -2.0, 3.0)]
    for layer, weight in zip(("first", "second", "last"), weights, strict=True):
        network = _with_weight(network, layer, weight)
    function = JointNetwork(network, (1,))
    assert lipschitz_constants(function) == pytest.approx({"1": 3, "2": 3, "inf": 3})
    items = jnp.full((2, 1), 1e-3)
    value = function(ItemScores(items, jnp.ones((1, 1, 1))), jnp.ones(2, bool))
    assert abs(float(value[0])) == pytest.approx(3e-3, rel=1e-4)


def _with_weight(network, layer, weight):
    import equinox as eqx

    return eqx.tree_at(lambda one: getattr(one, layer).weight, network, weight)


def test_norms_are_induced_norms_of_maps_of_rows():
    """x W with W = (1 2; 0 3): columns of Wᵀ sum to 3 and 3, its rows to 1 and 5."""
    network = PooledNetwork(2, 2, 2, jax.random.key(0))
    W = jnp.array([[1.0, 2.0], [0.0, 3.0]])
    for layer, weight in (("first", W), ("second", jnp.eye(2)), ("last", jnp.eye(2))):
        network = _with_weight(network, layer, weight)
    found = lipschitz_constants(JointNetwork(network, (2,)))
    assert found["1"] == 3
    assert found["inf"] == 5
    assert found["2"] == pytest.approx(math.sqrt(7 + math.sqrt(40)))  # of WᵀW: trace 14, det 9


def test_what_does_not_read_the_set_does_not_move():
    for function in (Constant(1.0, (3,)), Vector(jnp.ones(3))):
        assert lipschitz_constants(function) == {"1": 0, "2": 0, "inf": 0}
    with pytest.raises(sw.InputError, match="known for Midpoint"):
        lipschitz_constants(Midpoint())


def test_theorem_2_by_hand():
    """m = 200, d = 2: R = sqrt(2 log 4 / 200) = 0.11774; 4 · 1.5 · 2 · 3² · 2 · R."""
    found = Bounds(2, 200, 2, 0.05, 0.25, 3.0, 1.5, 2.0, {"1": 5.0, "2": 2.0, "inf": 3.0})
    assert found.norm == "2"
    assert found.complexity == pytest.approx(216 * 0.1177410, rel=1e-6)
    assert found.confidence == pytest.approx(0.1223873, rel=1e-6)  # sqrt(2.9957323 / 200)
    assert found.bound == pytest.approx(0.25 + 25.4320555 + 0.1223873, rel=1e-6)
    assert found.vacuous


def test_theorem_3_by_hand():
    """Theta below 1 costs nothing, nor does its infinity norm: 4 · 2.5 · 3 · 1.5 · (1 + 2) · R."""
    found = Bounds(3, 200, 2, 0.05, 0.25, 3.0, 0.5, 9.0, {"1": 2.0, "2": 4.0, "inf": 3.0}, 2.5, 1.5)
    assert found.complexity == pytest.approx(135 * 0.1177410, rel=1e-6)
    assert "|v|_1, slope of mu      2.5, 1.5" in found.describe()


def test_a_bound_shrinks_with_the_root_of_the_sets_until_it_says_something():
    def at(sets):
        return Bounds(2, sets, 2, 0.05, 0.25, 1.0, 1.0, 1.0, {"1": 1.0})

    assert at(400).complexity == pytest.approx(at(100).complexity / 2)
    assert at(400).confidence == pytest.approx(at(100).confidence / 2)
    assert at(100).vacuous
    assert "vacuous" in at(100).describe()
    assert not at(100_000).vacuous
    assert "vacuous" not in at(100_000).describe()


@pytest.mark.parametrize(
    ("name", "theorem", "wiring"),
    [("sdw", 2, "joint"), ("mnl_set", 2, "joint"), ("sde", 3, "shared")],
)
def test_its_parts_are_the_models(name, theorem, wiring):
    data = choices(context=True)
    estimator = fitted(name, data, wiring, louder=2.0)
    found = bounds(estimator, data, delta=0.1)
    encoded = Schema.learn(data)[1].encoded()
    theta = np.asarray(estimator.model_.F.theta, float)[:, :, 0]
    assert (found.theorem, found.sets, found.features, found.delta) == (theorem, 20, 3, 0.1)
    assert found.error == pytest.approx(1 - estimator.evaluate(data).top1)
    assert found.largest_feature == max(np.abs(encoded.items).max(), np.abs(encoded.context).max())
    assert found.theta_1 == pytest.approx(
        max(np.abs(theta[:, i]).sum() for i in range(len(theta.T)))
    )
    assert found.theta_inf == pytest.approx(max(np.abs(row).sum() for row in theta))
    if theorem == 3:
        assert found.v_1 == pytest.approx(float(jnp.abs(estimator.model_.w.value).sum()))
        assert found.mu_slope == pytest.approx(float(estimator.model_.mu.c))
        assert found.lipschitz == lipschitz_constants(estimator.model_.r)
    else:
        assert (found.v_1, found.mu_slope) == (None, None)
        assert found.lipschitz == lipschitz_constants(estimator.model_.w)


def test_mu_is_never_steeper_than_said():
    mu = fitted("sde", choices()).model_.mu
    z = jnp.linspace(-4, 4, 2001)
    slopes = jnp.diff(mu(z)) / jnp.diff(z)
    assert float(slopes.max()) <= max(1.0, float(mu.c)) + 1e-3
    assert float(slopes.max()) > 0.99 * float(mu.c)


@pytest.mark.parametrize("name", ["sda", "sda_difference", "sda_vector", "mnl", "lam", "deep_sets"])
def test_models_that_the_theorems_do_not_cover_are_refused(name):
    data = choices()
    estimator = sw.ChoiceModel(name)
    estimator.schema_, _ = schema, _ = Schema.learn(data)
    estimator.model_ = ZOO[name].skeleton(schema.width, Sizes(dimension=3))
    with pytest.raises(sw.InputError, match="the theorems do not cover ChoiceModel"):
        bounds(estimator, data)


def test_other_refusals():
    data = choices()
    estimator = fitted("sdw", data)
    for delta in (0.0, 1.0, -1.0):
        with pytest.raises(sw.InputError, match="must be a number above 0 and below 1"):
            bounds(estimator, data, delta)
    with pytest.raises(sw.InputError, match="do not cover RandomChoice"):
        bounds(sw.RandomChoice().fit(data), data)
    estimator.model_ = Ensemble.of([estimator.model_] * 2)
    with pytest.raises(sw.InputError, match="not an ensemble"):
        bounds(estimator, data)
