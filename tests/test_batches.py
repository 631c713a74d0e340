"""Packing: every set is in exactly one place, and padding stays small."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.choices import bucket, round_up, shuffled_batches
from setwise.choices.batches import common_order, steps_of

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
    sets, numbers = shuffled_batches(buckets, batch_size, np.random.default_rng(seed), epoch=3)
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
        shuffled_batches(buckets, 8, np.random.default_rng(seed), epoch=0)[0].tolist()
        for seed in (1, 1, 2)
    )
    assert one == same != other


counts_of_buckets = st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(sum)


@settings(deadline=None)
@given(counts_of_buckets, counts_of_buckets, st.integers(0, 300))
def test_all_orders_of_an_epoch_are_parts_of_one(some, others, epoch):
    """Leaving out the batches that only the others have leaves the order as it was."""
    length = max(len(some), len(others))
    padded = [np.array([0] * (length - len(counts)) + counts) for counts in (some, others)]
    whole = list(zip(*common_order(epoch, np.maximum(*padded).tolist()), strict=True))
    for counts, given_counts in zip(padded, (some, others), strict=True):
        shift = length - len(given_counts)
        part = [(b + shift, j) for b, j in zip(*common_order(epoch, given_counts), strict=True)]
        assert part == [(b, j) for b, j in whole if j < counts[b]]


def test_the_order_of_buckets_changes_with_the_epoch_and_not_with_the_seed():
    buckets = bucket(np.repeat([3, 30], 80))
    orders = {
        (seed, epoch): shuffled_batches(buckets, 8, np.random.default_rng(seed), epoch)
        for seed in (1, 2)
        for epoch in (0, 1)
    }
    numbers = {key: order[1].tolist() for key, order in orders.items()}
    assert numbers[1, 0] == numbers[2, 0] != numbers[1, 1] == numbers[2, 1]
    assert orders[1, 0][0].tolist() != orders[2, 0][0].tolist()


def test_narrow_and_wide_batches_are_mixed():
    """Ten of each: all orders are equally likely, so on average five wide ones come first."""
    first_half = [(common_order(epoch, [10, 10])[0][:10] == 1).sum() for epoch in range(200)]
    assert 4.7 < np.mean(first_half) < 5.3  # its standard error is 1.15 / sqrt(200)
    assert min(first_half) < 4
    assert max(first_half) > 6


def test_steps_of_buckets():
    assert steps_of(bucket(np.repeat([3, 30], [17, 16])), 8) == [3, 2]
