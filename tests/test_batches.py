"""Packing: every set is in exactly one place, and padding stays small."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.choices import bucket, round_up, shuffled_batches

sizes_of_sets = st.lists(
    st.one_of(st.integers(1, 12), st.integers(1, 400), st.integers(1, 5000)),
    min_size=1,
    max_size=80,
).map(np.array)


@settings(deadline=None)
@given(st.integers(1, 10**7))
def test_round_up_wastes_at_most_an_eighth(size):
    assert size <= round_up(size) <= size * 9 / 8
    assert round_up(round_up(size)) == round_up(size)


def test_round_up_has_few_values_and_keeps_order():
    rounded = [round_up(size) for size in range(1, 10_001)]
    assert rounded == sorted(rounded)
    assert len(set(rounded)) < 100


@settings(deadline=None)
@given(sizes_of_sets, st.integers(1, 4), st.sampled_from([0.0, 0.1, 0.2]))
def test_buckets_hold_every_set_once_and_are_wide_enough(sizes, most, overhead):
    buckets = bucket(sizes, most, overhead)
    assert 1 <= len(buckets) <= most
    held = np.concatenate([one.sets for one in buckets])
    assert sorted(held.tolist()) == list(range(len(sizes)))
    assert [one.width for one in buckets] == sorted({one.width for one in buckets})
    for one in buckets:
        assert len(one.sets) > 0
        assert sizes[one.sets].max() <= one.width <= round_up(int(sizes[one.sets].max()))


@settings(deadline=None)
@given(sizes_of_sets)
def test_there_are_at_most_four_buckets_by_default(sizes):
    assert len(bucket(sizes)) <= 4


def brute_force(sizes, most, price):
    """The least cost over every way to cut the distinct widths into at most ``most`` buckets."""
    rounded = np.array([round_up(int(size)) for size in sizes])
    widths = np.unique(rounded)
    best = np.inf
    for inner in range(1 << (len(widths) - 1)):
        cut = [widths[i] for i in range(len(widths) - 1) if inner >> i & 1]
        edges = np.array([*cut, widths[-1]])
        if len(edges) <= most:
            padded = edges[np.searchsorted(edges, rounded)].sum()
            best = min(best, padded + price * (len(edges) - 1))
    return best


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=9).map(np.array),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.1, 0.5]),
)
def test_no_other_buckets_would_pad_less(sizes, most, overhead):
    buckets = bucket(sizes, most, overhead)
    price = overhead * float(sizes.sum())
    cost = sum(one.width * len(one.sets) for one in buckets) + price * (len(buckets) - 1)
    assert cost == pytest.approx(brute_force(sizes, most, price))


@settings(deadline=None)
@given(sizes_of_sets, st.integers(1, 40), st.integers(0, 2**31))
def test_an_epoch_visits_every_set_exactly_once(sizes, batch_size, seed):
    buckets = bucket(sizes)
    sets, numbers = shuffled_batches(buckets, batch_size, np.random.default_rng(seed))
    assert sets.shape == (len(numbers), batch_size)
    assert sorted(sets[sets >= 0].tolist()) == list(range(len(sizes)))
    for batch, number in zip(sets, numbers, strict=True):
        real = batch[batch >= 0]
        if number < 0:
            assert real.size == 0
        else:
            assert np.isin(real, buckets[number].sets).all()
            assert real.size > 0
    full = sum(-(-len(one.sets) // batch_size) for one in buckets)
    assert len(numbers) == (full if len(buckets) == 1 else round_up(full))


def test_an_epochs_order_is_the_generators():
    buckets = bucket(np.full(100, 3))
    one, same, other = (
        shuffled_batches(buckets, 8, np.random.default_rng(seed))[0].tolist() for seed in (1, 1, 2)
    )
    assert one == same != other
