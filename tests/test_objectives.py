"""Objectives by hand arithmetic on a set of three items and one absent place."""

import jax.numpy as jnp
import pytest

from setwise.training.options import cross_entropy, listwise, pairwise

SCORES = jnp.array([1.0, 2.0, 0.0, 50.0])
PRESENT = jnp.array([True, True, True, False])
CHOSEN = jnp.array(1)


def test_cross_entropy():
    # e + e^2 + 1 = 11.107338; log = 2.407606; less 2
    assert float(cross_entropy(SCORES, PRESENT, CHOSEN)) == pytest.approx(0.407606, abs=1e-5)


def test_pairwise():
    # (log(1 + e^-1) + log(1 + e^-2)) / 2 = (0.313262 + 0.126928) / 2
    assert float(pairwise(SCORES, PRESENT, CHOSEN)) == pytest.approx(0.220095, abs=1e-5)


def test_listwise():
    # rank = 1 + sigmoid(-1) + sigmoid(-2) = 1 + 0.268941 + 0.119203 = 1.388144
    # 1 - log 2 / log 2.388144 = 1 - 0.693147 / 0.870517
    assert float(listwise(SCORES, PRESENT, CHOSEN)) == pytest.approx(0.203754, abs=1e-5)


@pytest.mark.parametrize("objective", [cross_entropy, pairwise, listwise])
def test_a_better_score_of_the_chosen_item_lowers_the_loss(objective):
    worse = objective(SCORES, PRESENT, CHOSEN)
    better = objective(SCORES.at[1].add(0.5), PRESENT, CHOSEN)
    assert better < worse
