"""Metrics by hand, ties by expectation, and the law that array order decides nothing."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise import InputError
from setwise.metrics import Ranks, measure, predicted


def test_measures_by_hand():
    # set 1: P = .5, .3, .2, chosen the second (rank 2); set 2: P = .9, .1, chosen the first
    log_p = np.log([0.5, 0.3, 0.2, 0.9, 0.1])
    m = measure(log_p, np.array([0, 3, 5]), np.array([1, 0]))
    assert m.top1 == 0.5
    assert m.top5 == 1
    assert m.mean_rank == 1.5
    assert m.mrr == 0.75
    # -(log .3 + log .9) / 2 = (1.203973 + 0.105361) / 2
    assert m.nll == pytest.approx(0.654667, abs=1e-6)
    # equal chances: (log 3 + log 2) / 2 = 0.895880
    assert m.rho2 == pytest.approx(1 - 0.654667 / 0.895880, abs=1e-6)
    # standard error of (0, 1): sd 0.707107 / sqrt 2
    assert m.standard_errors["top1"] == pytest.approx(0.5)


def test_ties_count_by_expectation():
    # four equal items: rank uniform on 1..4
    log_p = np.log(np.full(4, 0.25))
    m = measure(log_p, np.array([0, 4]), np.array([3]))
    assert m.top1 == 0.25
    assert m.mean_rank == 2.5
    assert m.mrr == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)


def test_a_constant_score_gets_the_accuracy_of_chance():
    """The field's trap: argmax of equal scores is the first item, where the chosen may be."""
    offsets = np.arange(0, 101, 10)
    m = measure(np.full(100, -np.log(10)), offsets, np.zeros(10, int))
    assert m.top1 == pytest.approx(0.1)
    assert m.top5 == pytest.approx(0.5)


def test_weights_count_sets_more_than_once():
    log_p = np.log([0.5, 0.3, 0.2, 0.9, 0.1])
    offsets, chosen = np.array([0, 3, 5]), np.array([1, 0])
    weighted = measure(log_p, offsets, chosen, np.array([2.0, 1.0]))
    repeated = measure(
        np.log([0.5, 0.3, 0.2, 0.5, 0.3, 0.2, 0.9, 0.1]),
        np.array([0, 3, 6, 8]),
        np.array([1, 1, 0]),
    )
    for name in ("top1", "top5", "mean_rank", "mrr", "nll", "rho2"):
        assert weighted[name] == pytest.approx(repeated[name])


def test_calibration_error_of_a_calibrated_and_an_overconfident_forecast():
    rng = np.random.default_rng(0)
    sets = 20_000
    p = rng.uniform(0.5, 1, sets)
    chosen = (rng.uniform(size=sets) > p).astype(int)
    offsets = np.arange(0, 2 * sets + 1, 2)
    honest = np.log(np.stack([p, 1 - p], 1).ravel())
    # of 15 bins each with 1333 sets the mean gap is about sqrt(2/pi) * 0.43 / sqrt(1333) = 0.009
    assert measure(honest, offsets, chosen).calibration_error < 0.02
    sure = np.log(np.stack([np.full(sets, 0.99), np.full(sets, 0.01)], 1).ravel())
    # right in 3/4 of cases, sure of 0.99
    assert measure(sure, offsets, chosen).calibration_error == pytest.approx(0.24, abs=0.01)


@given(
    st.lists(st.lists(st.integers(-3, 3), min_size=1, max_size=6), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
)
def test_the_order_of_items_decides_nothing(sets, random):
    offsets = np.cumsum([0] + [len(one) for one in sets])
    chosen = np.array([random.randrange(len(one)) for one in sets])
    scores = np.concatenate([np.array(one, float) for one in sets])
    shuffled, moved = [], []
    for one, place in zip(sets, chosen, strict=True):
        order = list(range(len(one)))
        random.shuffle(order)
        shuffled += [float(one[i]) for i in order]
        moved.append(order.index(place))
    first = Ranks.of(scores, offsets, chosen)
    second = Ranks.of(np.array(shuffled), offsets, np.array(moved))
    for k in (1, 2, 5):
        np.testing.assert_array_equal(first.top(k), second.top(k))
    np.testing.assert_array_equal(first.mean_rank(), second.mean_rank())
    np.testing.assert_allclose(first.reciprocal(), second.reciprocal())


@given(st.lists(st.lists(st.integers(-3, 3), min_size=1, max_size=6), min_size=1, max_size=5))
def test_exactly_one_item_of_each_set_is_predicted_and_it_is_a_best_one(sets):
    offsets = np.cumsum([0] + [len(one) for one in sets])
    scores = np.concatenate([np.array(one, float) for one in sets])
    picked = predicted(scores, offsets)
    for begin, end in itertools.pairwise(offsets):
        assert picked[begin:end].sum() == 1
        assert scores[begin:end][picked[begin:end]][0] == scores[begin:end].max()


@pytest.mark.parametrize(
    ("offsets", "chosen", "said"),
    [
        ([0, 2, 4], [0, 2], r"chosen\[1\]=2 is not a place in set 1, which has 2 items"),
        ([0, 2, 4], [-1, 0], r"chosen\[0\]=-1 is not a place"),
        ([0, 2, 3], [0, 0], "must rise from 0 to 4, the number of rows"),
        ([0, 4], [0, 0], "one more value than chosen has"),
    ],
)
def test_places_outside_their_set_are_refused(offsets, chosen, said, unchecked_types):
    """Place 2 of the first of two pairs would be an item of the second."""
    with pytest.raises(InputError, match=said):
        measure(np.log([0.7, 0.3, 0.5, 0.5]), np.array(offsets), np.array(chosen))
