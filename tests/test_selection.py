"""The weights of an ensemble's members: greedy selection on the validation part."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from setwise.choices import Encoded
from setwise.models import ZOO, Sizes
from setwise.training.evaluation import PICKS, Validation, row_log_probabilities, select


def nll(log_p, weight, sets=None):
    p = np.exp(log_p).T @ weight
    return -np.average(np.log(p), weights=sets)


def test_a_member_that_is_best_everywhere_gets_everything():
    assert select(np.log([[0.2, 0.3], [0.5, 0.6], [0.4, 0.6]])).tolist() == [0.0, 1.0, 0.0]


def test_members_that_complete_each_other_share():
    # Alone 2 is best (.4 * .4 > .9 * .05); half of 0 and half of 1 are better (.475 twice).
    log_p = np.log([[0.9, 0.05], [0.05, 0.9], [0.4, 0.4]])
    weight = select(log_p)
    assert weight[2] < 0.1
    assert weight[0] == pytest.approx(weight[1], abs=1 / PICKS)


def test_sets_count_by_their_weights():
    log_p = np.log([[0.9, 0.1], [0.1, 0.9]])
    # The best share p solves .7 * .8 / (.1 + .8 p) = .3 * .8 / (.9 - .8 p).
    assert select(log_p, np.array([7.0, 3.0]))[0] == pytest.approx(0.75, abs=1 / PICKS)
    assert select(log_p, np.array([1.0, 0.0])).tolist() == [1.0, 0.0]


@settings(deadline=None, max_examples=50)
@given(arrays(np.float64, (4, 12), elements=st.floats(0.01, 1.0)))
def test_the_mixture_is_never_worse_than_the_best_member(p):
    log_p = np.log(p)
    weight = select(log_p)
    assert weight.sum() == pytest.approx(1)
    # The first pick is the best member; each later one maximises, but may still lose a little.
    assert nll(log_p, weight) <= -log_p.mean(1).max() + 0.02


def test_it_comes_close_to_the_best_mixture_there_is():
    """Against expectation maximisation, which finds the best weights."""
    log_p = np.log(np.random.default_rng(0).uniform(0.05, 1, (5, 400)))
    best = np.full(5, 0.2)
    for _ in range(2000):
        joint = best[:, None] * np.exp(log_p)
        best = (joint / joint.sum(0)).mean(1)
    assert nll(log_p, select(log_p)) == pytest.approx(nll(log_p, best), abs=1e-3)


@pytest.mark.parametrize("batch_size", [None, 8])
def test_validation_knows_the_likelihood_of_every_set_in_their_order(batch_size):
    rng = np.random.default_rng(0)
    sizes = rng.permutation(np.repeat([2, 3, 20], 7))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    items = rng.standard_normal((offsets[-1], 2)).astype(np.float32)
    data = Encoded(items, np.zeros((21, 0), np.float32), offsets, rng.integers(0, sizes), None)
    mnl = ZOO["mnl"].build(2, Sizes(), jax.random.key(0))
    others = jax.tree.map(lambda leaf: jnp.stack([leaf, -2 * leaf])[None], mnl)
    (found,) = Validation([data], (0,), batch_size).log_likelihoods([others])
    for factor, log_p in zip((1, -2), found, strict=True):
        rows = row_log_probabilities(jax.tree.map(lambda leaf, by=factor: by * leaf, mnl), data)
        np.testing.assert_allclose(log_p, rows[offsets[:-1] + data.chosen], rtol=1e-4)
