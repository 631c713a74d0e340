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
from setwise.training.evaluation import Validation, row_log_probabilities
from setwise.training.mixing import FEW_SETS, PICKS, beyond_chance, mixture, select


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


# What may be chance


FIRST_OR_OTHER = np.array([0.0, 1.0])


def drawn_gain(sets, mean, spread=0.5):
    """log P of two members: the other's gain over the first has this mean and spread, exactly."""
    noise = np.random.default_rng(0).normal(size=sets)
    noise = (noise - noise.mean()) / noise.std()
    return np.stack([np.full(sets, -1.5), -1.5 + mean + spread * noise])


def test_a_sure_gain_of_many_sets_is_kept_whole():
    assert beyond_chance(drawn_gain(FEW_SETS, 0.2), FIRST_OR_OTHER).tolist() == [0.0, 1.0]


def test_a_loss_keeps_the_first_member_alone():
    assert beyond_chance(drawn_gain(1000, -0.3), FIRST_OR_OTHER).tolist() == [1.0, 0.0]


def test_a_gain_in_doubt_is_mixed_by_its_gain_less_one_standard_error():
    log_p = drawn_gain(1000, 0.02)  # 1.3 standard errors
    kept = beyond_chance(log_p, FIRST_OR_OTHER)[1]
    assert 0 < kept < 1

    def sure(share):
        gained = mixture(log_p, np.array([1 - share, share])) - log_p[0]
        return gained.mean() - gained.std(ddof=1) / np.sqrt(len(gained))

    assert all(sure(kept) >= sure(other) for other in np.linspace(0, 1, 21))


@pytest.mark.parametrize("sets", [5, 50, FEW_SETS - 1])
def test_few_sets_never_leave_the_first_member_out(sets):
    """Fifty sets once chose members that predicted others at minus a hundred nats each."""
    first, other = beyond_chance(drawn_gain(sets, 1.0, 0.1), FIRST_OR_OTHER)
    assert first == pytest.approx(10 / (sets + 10))
    assert other == pytest.approx(sets / (sets + 10))


def test_sets_without_weight_say_nothing():
    log_p = drawn_gain(1000, 0.02)
    weight = np.ones(1000)
    weight[log_p[1] > log_p[0]] = 0
    assert beyond_chance(log_p, FIRST_OR_OTHER, weight).tolist() == [1.0, 0.0]


def test_what_was_chosen_and_held_impossible_is_left_to_the_first():
    log_p = drawn_gain(1000, 0.2)
    log_p[1, 0] = -np.inf
    first, other = beyond_chance(log_p, FIRST_OR_OTHER)
    assert first > 0.04
    assert other > 0.5


def test_people_count_not_their_sets():
    """The same gain is sure of 1,000 people, and not of ten who repeat it a hundred times."""
    once = drawn_gain(10, 0.1)
    repeated = np.repeat(once, 100, axis=1)
    people = np.arange(1000) // 100
    assert beyond_chance(repeated, FIRST_OR_OTHER).tolist() == [0.0, 1.0]
    assert beyond_chance(repeated, FIRST_OR_OTHER, people=people)[0] > 0


# In the order of sets


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
