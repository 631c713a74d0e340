"""The network baselines: each formula by hand or in NumPy, sizes, and what they learn."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import setwise as sw
from setwise.estimators.networks import ChoiceModel
from setwise.models import ZOO, Dropout, Sizes
from setwise.models.zoo import NETWORKS

X = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]], np.float32)
ALL = jnp.ones(3, bool)
WITH_CONTEXT = [name for name in NETWORKS if not NETWORKS[name].about.satisfies_iia]


def built(name: str, **sizes):
    """Two features; weights and biases are multiples of 1/4 between -1 and 1, fixed by a seed."""
    model = ZOO[name].build(2, Sizes(**sizes), jax.random.key(0))
    rng = np.random.default_rng(7)
    leaves, tree = jax.tree.flatten(model)
    quarters = [jnp.asarray(rng.integers(-4, 5, leaf.shape) / 4, jnp.float32) for leaf in leaves]
    return jax.tree.unflatten(tree, quarters)


# One program instead of one per operation.
scores = eqx.filter_jit(lambda model, x, present: model.scores(x, present))


def relu(z):
    return np.maximum(z, 0)


def layer(one, x):
    return x @ np.asarray(one.weight) + np.asarray(one.bias)


def close(found, wanted):
    assert np.ptp(wanted) > 0.1  # the numbers tell items apart
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


# Formulas


def test_mlp_by_hand():
    # first:  relu(x1 - x2, x2 + 1/2)      -> (1, 0.5), (0, 1.5), (3, 0)
    # second: relu(h1 + h2 - 1, 2 h2 - h1) -> (0.5, 0), (0.5, 3), (2, 0)
    # v = (2, -1)                          -> 1, -2, 4
    model = eqx.tree_at(
        lambda m: [getattr(one, part) for one in m.hidden.layers for part in ("weight", "bias")]
        + [m.v],
        ZOO["mlp"].build(2, Sizes(hidden=2), jax.random.key(0)),
        [
            jnp.array([[1.0, 0.0], [-1.0, 1.0]]), jnp.array([0.0, 0.5]),
            jnp.array([[1.0, -1.0], [1.0, 2.0]]), jnp.array([-1.0, 0.0]),
            jnp.array([2.0, -1.0]),
        ],
    )  # fmt: skip
    np.testing.assert_allclose(scores(model, X, ALL), [1.0, -2.0, 4.0])


def test_ranknet_is_an_mlp_whose_first_layer_is_twice_as_wide():
    model = built("ranknet", hidden=3)
    first, second = model.hidden.layers
    assert first.weight.shape == (2, 6)
    assert second.weight.shape == (6, 3)
    wanted = relu(layer(second, relu(layer(first, X)))) @ np.asarray(model.v)
    close(scores(model, X, ALL), wanted)


def test_deep_sets_written_out():
    model = built("deep_sets", hidden=6)
    first, second, third, fourth = (np.asarray(weight) for weight in model.weights)
    h = relu(relu(X @ first) @ second)
    h = relu((h - h.mean(0)) @ third)
    h = relu((h - h.mean(0)) @ fourth)
    close(scores(model, X, ALL), h @ np.asarray(model.v))


def test_fate_written_out():
    model = built("fate", hidden=4)
    phi = X
    for one in model.phi.layers:
        phi = relu(layer(one, phi))
    h = np.hstack([X, np.tile(phi.mean(0), (3, 1))])
    for one in model.evaluate.hidden.layers:
        h = relu(layer(one, h))
    close(scores(model, X, ALL), h @ np.asarray(model.evaluate.v))


def test_set_transformer_written_out():
    """Item by item and head by head: 6 units make gcd(4, 6) = 2 heads of 3."""
    model = built("set_transformer", hidden=6)
    h = X
    for block in (model.first, model.second):
        q, k, v = layer(block.query, h), layer(block.key, h), layer(block.value, h)
        o = q.copy()
        for x in range(3):
            for head in (slice(0, 3), slice(3, 6)):
                likeness = [q[x, head] @ k[z, head] / np.sqrt(3) for z in range(3)]
                weight = np.exp(likeness) / np.exp(likeness).sum()
                o[x, head] += sum(weight[z] * v[z, head] for z in range(3))
        h = o + relu(layer(block.feed, o))
    close(scores(model, X, ALL), h @ np.asarray(model.v))


def context_dependent():
    # theta = (1, 2), A x = x1 + x2, B z = 3 z1 - z2, rank 1
    return eqx.tree_at(
        lambda m: [m.theta, m.A, m.B],
        ZOO["cdm"].build(2, Sizes(components=1), jax.random.key(0)),
        [jnp.array([1.0, 2.0]), jnp.array([[1.0, 1.0]]), jnp.array([[3.0, -1.0]])],
    )


def test_cdm_by_hand():
    # <theta, x>: 1, 2, 0; A x: 1, 1, 1; B z: 3, -1, 7; means of the others' B z: 3, 5, 1
    model = context_dependent()
    np.testing.assert_allclose(scores(model, X, ALL), [4.0, 7.0, 1.0])
    # without the third: the others' B z are -1 and 3
    two = jnp.array([True, True, False])
    np.testing.assert_allclose(model.scores(jnp.asarray(X), two)[:2], [0.0, 5.0])


def test_cdm_of_one_item_is_linear():
    one = jnp.array([False, True, False])
    np.testing.assert_allclose(context_dependent().scores(jnp.asarray(X), one)[1], 2.0)


def test_cdm_starts_near_mnl_but_not_where_gradients_vanish():
    model = ZOO["cdm"].build(5, Sizes(), jax.random.key(1))
    x = jax.random.normal(jax.random.key(2), (4, 5))
    linear = x @ model.theta
    assert jnp.abs(model.scores(x, jnp.ones(4, bool)) - linear).max() < 0.1 * jnp.ptp(linear)
    gradient = jax.grad(lambda m: m.scores(x, jnp.ones(4, bool))[0])(model)
    assert jnp.abs(gradient.A).min() > 0
    assert jnp.abs(gradient.B).min() > 0


# Sizes


@pytest.mark.parametrize("features", [8, 17])
def test_deep_sets_has_the_papers_parameters(features):
    count = ZOO["deep_sets"].parameters(features, Sizes(hidden=256))
    assert count == 196_864 + 256 * features


@pytest.mark.parametrize("features", [8, 17])
def test_ranknet_has_the_papers_layers(features):
    """The paper's 525,312 + 1024 d has two outputs and no biases; a score has one, and we do."""
    count = ZOO["ranknet"].parameters(features, Sizes(hidden=512))
    assert count == 525_312 + 1024 * features - 512 + (1024 + 512)


@pytest.mark.parametrize(("hidden", "heads"), [(16, 4), (6, 2), (7, 1), (1, 1)])
def test_heads_divide_the_units(hidden, heads):
    model = ZOO["set_transformer"].build(3, Sizes(hidden=hidden), jax.random.key(0))
    assert model.first.heads == model.second.heads == heads
    assert model.scores(jnp.ones((2, 3)), jnp.ones(2, bool)).shape == (2,)


# Behaviour


@pytest.mark.parametrize("name", NETWORKS)
def test_removing_an_item_changes_the_others_if_and_only_if_there_is_context(name):
    model = built(name, hidden=6, components=3)
    before = scores(model, X, ALL)
    after = model.scores(jnp.asarray(X), jnp.array([True, True, False]))
    moved = abs((before[0] - before[1]) - (after[0] - after[1]))
    assert moved > 0.01 if name in WITH_CONTEXT else moved == 0


@pytest.mark.parametrize("name", NETWORKS)
def test_dropout_is_noise_around_hidden_units(name):
    model = ZOO[name].build(5, Sizes(), jax.random.key(0))
    x, present = jax.random.normal(jax.random.key(1), (6, 5)), jnp.ones(6, bool)
    plain = model.scores(x, present)
    noisy = [model.scores(x, present, Dropout(jax.random.key(seed), 0.5)) for seed in (0, 1)]
    if name == "cdm":  # it has no hidden units
        np.testing.assert_array_equal(noisy[0], plain)
    else:
        assert jnp.abs(noisy[0] - noisy[1]).max() > 1e-3
        assert jnp.abs(noisy[0] - plain).max() > 1e-3
    kept = model.scores(x, present, Dropout(jax.random.key(0), 1.0))
    np.testing.assert_allclose(kept, plain, rtol=1e-6)


@pytest.fixture(scope="module")
def decoys():
    drawn = sw.datasets.generate("decoy", sets=3000, attraction=2.0)
    train, valid, test = sw.split(drawn.choices)
    return train, valid, test, sw.MNL().fit(train).evaluate(test).nll


@pytest.mark.slow
@pytest.mark.parametrize("name", ["deep_sets", "fate", "set_transformer"])
def test_networks_with_context_learn_decoys(name, decoys):
    train, valid, test, mnl = decoys
    training = sw.Training(epochs=40, learning_rate=5e-3)
    model = ChoiceModel(name, hidden=32, training=training).fit(train, valid, progress=False)
    assert model.evaluate(test).nll < mnl - 0.05
