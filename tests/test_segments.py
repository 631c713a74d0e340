"""Operations within sets on flat rows: each against a plain loop over the sets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import rankdata

from setwise import _segments

sizes_of_sets = st.lists(st.integers(1, 5), min_size=1, max_size=6)
seeds = st.integers(0, 2**32 - 1)
LOOPS = {
    "sums": lambda one: one.sum(0),
    "means": lambda one: one.mean(0),
    "maxima": lambda one: one.max(0),
    "minima": lambda one: one.min(0),
    "log_sum_exp": lambda one: logsumexp(one, axis=0),
}
PER_ROW = {
    "centred": lambda one: one - one.mean(0),
    "softmax": lambda one: np.exp(one) / np.exp(one).sum(0),
    "log_softmax": lambda one: one - logsumexp(one, axis=0),
}


def drawn(sizes, seed, columns):
    """Values of all rows, and the same set by set."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(sum(sizes), *columns)).round(1)
    return values, _segments.offsets_of(np.array(sizes)), np.split(values, np.cumsum(sizes)[:-1])


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("columns", [(), (2,)])
@given(sizes=sizes_of_sets, seed=seeds)
@settings(max_examples=25, deadline=None)
def test_a_number_per_set_is_that_of_a_loop(name, columns, sizes, seed):
    values, offsets, sets = drawn(sizes, seed, columns)
    found = getattr(_segments, name)(values, offsets)
    np.testing.assert_allclose(found, [LOOPS[name](one) for one in sets], atol=1e-12)


@pytest.mark.parametrize("name", PER_ROW)
@pytest.mark.parametrize("columns", [(), (2,)])
@given(sizes=sizes_of_sets, seed=seeds)
@settings(max_examples=25, deadline=None)
def test_a_number_per_row_is_that_of_a_loop(name, columns, sizes, seed):
    values, offsets, sets = drawn(sizes, seed, columns)
    found = getattr(_segments, name)(values, offsets)
    expected = np.concatenate([PER_ROW[name](one) for one in sets])
    np.testing.assert_allclose(found, expected, atol=1e-12)


@given(sizes=sizes_of_sets, seed=seeds)
@settings(max_examples=50, deadline=None)
def test_equal_values_share_their_mean_rank(sizes, seed):
    values, offsets, sets = drawn(sizes, seed, ())
    np.testing.assert_array_equal(
        _segments.ranks(values, offsets), np.concatenate([rankdata(-one) for one in sets])
    )


@given(sizes=sizes_of_sets, seed=seeds)
@settings(max_examples=25, deadline=None)
def test_rows_know_their_set_and_their_place(sizes, seed):
    values, offsets, sets = drawn(sizes, seed, ())
    owners = [number for number, one in enumerate(sets) for _ in one]
    assert _segments.owners(offsets).tolist() == owners
    assert _segments.positions(offsets).tolist() == [i for one in sets for i in range(len(one))]
    assert _segments.spread(np.arange(len(sets)), offsets).tolist() == owners
    assert _segments.sums(values > 0, offsets).tolist() == [int((one > 0).sum()) for one in sets]


def test_large_scores_and_sets_without_any_are_handled():
    offsets = np.array([0, 2, 4])
    scores = np.array([1e4, 1e4, -np.inf, -np.inf])
    assert _segments.log_sum_exp(scores, offsets).tolist() == [1e4 + np.log(2), -np.inf]
    assert _segments.softmax(scores[:2], offsets[:2]).tolist() == [0.5, 0.5]
