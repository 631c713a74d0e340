"""Each part of the equation by hand arithmetic, and the identities of the specification."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from setwise.models import ZOO, Dropout, Sizes, evaluations
from setwise.models.aggregation import Aggregation
from setwise.models.evaluations import Identity, KinkedTanh, Tanh
from setwise.models.item_functions import ItemScores, Linear
from setwise.models.set_functions import Constant, JointNetwork, SharedNetwork, Vector
from setwise.models.within_set import SplitColumns


def linear(theta) -> Linear:
    return eqx.tree_at(
        lambda F: F.theta, Linear(2, 1, 1, jax.random.key(0)), jnp.asarray(theta, jnp.float32)
    )


X = jnp.array([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]])
ALL = jnp.ones(3, bool)


def test_mnl_is_the_dot_product():
    model = Aggregation(
        F=linear([[[0.5]], [[-1.0]]]),
        w=Constant(1.0, (1,)),
        r=Constant(0.0, (1,)),
        mu=Identity(),
        compare=evaluations.difference,
    )
    # x . b with b = (0.5, -1): 0.5, -1, 2
    np.testing.assert_allclose(model.scores(X, ALL), [0.5, -1.0, 2.0])
    # softmax: e^0.5 = 1.648721, e^-1 = 0.367879, e^2 = 7.389056, sum 9.405657
    np.testing.assert_allclose(
        model.probabilities(X, ALL), [0.175291, 0.039113, 0.785597], atol=2e-6
    )


def test_kinked_tanh_around_a_reference_by_hand():
    # f = x1 and x2; r = (1, 0); v = (2, 1); c = 2
    # item 1: f - r = (0, 0)            -> 0
    # item 2: (-1, 1): -2 tanh 1, tanh 1 -> 2 * -1.523188 + 0.761594 = -2.284782
    # item 3: (1, -1): tanh 1, -2 tanh 1 -> 2 * 0.761594 - 1.523188 = 0
    model = Aggregation(
        F=linear([[[1.0], [0.0]], [[0.0], [1.0]]]),
        w=Vector(jnp.array([2.0, 1.0])),
        r=Vector(jnp.array([1.0, 0.0])),
        mu=KinkedTanh(start=2.0),
        compare=evaluations.difference,
    )
    np.testing.assert_allclose(model.scores(X, ALL), [0.0, -2.284782, 0.0], atol=2e-6)


def test_inner_comparison_by_hand():
    # one score function with k = 2 components: f(x) = (x1 + x2, x1); r = (3, -1)
    # items: f = (1, 1), (1, 0), (1, 2) -> 3 - 1 = 2, 3, 3 - 2 = 1
    f = ItemScores(X, jnp.array([[[1.0, 1.0]], [[1.0, 0.0]]]))
    r = jnp.array([[3.0, -1.0]])
    np.testing.assert_allclose(evaluations.inner(f, r)[:, 0], [2.0, 3.0, 1.0])


def test_the_kink_stays_above_one():
    for raw in (-50.0, 0.0, 3.0):
        mu = eqx.tree_at(lambda m: m.raw, KinkedTanh(), jnp.array(raw))
        assert mu.c >= 1


def test_tanh_is_the_kinked_tanh_without_a_kink():
    z = jnp.linspace(-3, 3, 13)
    mu = eqx.tree_at(lambda m: m.raw, KinkedTanh(), jnp.array(-100.0))
    np.testing.assert_allclose(mu(z), Tanh()(z), rtol=1e-6)


@pytest.mark.parametrize("in_pieces", [False, True])
def test_the_cheap_order_equals_the_literal_one(in_pieces):
    """Theta contracted first, or f(x) written out and then multiplied: the same numbers."""
    keys, features = jax.random.split(jax.random.key(0), 4), 30 if in_pieces else 5
    x = jax.random.normal(keys[0], (7, features))
    theta = jax.random.normal(keys[1], (features, 6, 3)) / features
    f = ItemScores.of(SplitColumns(x[:, :9], x[:, 9:]) if in_pieces else x, theta)
    assert f.hidden.shape == ((7, 18) if in_pieces else (7, 5))
    written_out = np.einsum("nd,dlk->nlk", x, theta)
    np.testing.assert_allclose(f.values, written_out, rtol=1e-4, atol=1e-5)
    r, matrix = jax.random.normal(keys[2], (6, 3)), jax.random.normal(keys[3], (18, 4))
    np.testing.assert_allclose(
        f.inner(r), np.einsum("nlk,lk->nl", written_out, r), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(
        f.times(matrix), written_out.reshape(7, 18) @ np.asarray(matrix), rtol=1e-4, atol=1e-4
    )


def test_difference_without_mu_is_exactly_sdw():
    """r shifts all items of a set alike, weighted by w(s), and cancels in the softmax."""
    sda = ZOO["sda_difference"].build(5, Sizes(dimension=6), jax.random.key(1))
    without_mu = eqx.tree_at(lambda m: m.mu, sda, Identity())
    zero = Constant(0.0, (6,))
    sdw = Aggregation(F=sda.F, w=sda.w, r=zero, mu=Identity(), compare=evaluations.difference)
    x, present = jax.random.normal(jax.random.key(2), (8, 5)), jnp.arange(8) < 6
    np.testing.assert_allclose(
        without_mu.probabilities(x, present), sdw.probabilities(x, present), atol=1e-6
    )


def test_shared_wiring_is_one_network_on_each_score_alone():
    model = ZOO["sda_inner"].build(
        5, Sizes(dimension=4, components=3, wiring="shared"), jax.random.key(3)
    )
    x = jax.random.normal(jax.random.key(4), (6, 5))
    f, present = model.F(x), jnp.ones(6, bool)
    values = np.asarray(f.values)
    w, r = np.asarray(model.w(f, present)), np.asarray(model.r(f, present))
    for i in range(4):
        for network, value in ((model.w.network, w[i]), (model.r.network, r[i])):
            hidden = np.tanh(values[:, i] @ network.first.weight + network.first.bias)
            hidden = np.tanh(hidden @ network.second.weight + network.second.bias)
            expected = hidden.mean(0) @ network.last.weight + network.last.bias
            np.testing.assert_allclose(np.ravel(value), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("wiring", "kind"), [("joint", JointNetwork), ("shared", SharedNetwork)])
def test_the_wiring_asked_for_is_built(wiring, kind):
    model = ZOO["sda_inner"].build(5, Sizes(wiring=wiring), jax.random.key(0))
    assert isinstance(model.w, kind)
    assert isinstance(model.r, kind)


def test_the_papers_sizes():
    """l = 24 scores; two hidden layers of 16 in both networks; k = 16 where vectors compare."""
    model = ZOO["sda_inner"].build(8, Sizes(), jax.random.key(0))
    assert model.F.theta.shape == (8, 24, 16)
    assert model.w.network.first.weight.shape == (24 * 16, 16)
    assert model.w.network.second.weight.shape == (16, 16)
    assert model.r.network.last.weight.shape == (16, 24 * 16)


def test_dropout_keeps_the_mean_and_its_share():
    noise = Dropout(jax.random.key(0), 0.8)
    dropped = np.asarray(noise(jnp.ones(20_000)))
    zero = dropped == 0
    np.testing.assert_allclose(dropped[~zero], 1 / 0.8, rtol=1e-6)
    assert abs(zero.mean() - 0.2) < 5 * np.sqrt(0.2 * 0.8 / 20_000)


def test_dropout_that_keeps_all_changes_nothing_and_other_dropout_does():
    model = ZOO["sda_inner"].build(5, Sizes(), jax.random.key(0))
    x, present = jax.random.normal(jax.random.key(1), (6, 5)), jnp.ones(6, bool)
    plain = model.scores(x, present)
    np.testing.assert_allclose(
        model.scores(x, present, Dropout(jax.random.key(2), 1.0)), plain, rtol=1e-5, atol=1e-6
    )
    assert not np.allclose(model.scores(x, present, Dropout(jax.random.key(2), 0.5)), plain)
