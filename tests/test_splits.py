"""Splits: whole sets, nothing lost, nothing on two sides."""

import inspect
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import setwise as sw
from setwise import InputError

split_as_users_do = inspect.unwrap(sw.split)  # without the checks of types that tests have
WHOLE = st.lists(st.integers(1, 9), min_size=1, max_size=3)
SHARES = WHOLE | WHOLE.map(lambda parts: [part / sum(parts) for part in parts])


def choices_of(groups, times=None):
    """One set of two items for every entry, of this group and this moment."""
    sets = len(groups)
    return sw.read(
        {
            "s": np.repeat(np.arange(sets), 2), "x": np.arange(2.0 * sets),
            "c": np.tile([1, 0], sets), "user": np.repeat(groups, 2),
            "at": np.repeat(groups if times is None else times, 2),
        },
        set="s", chosen="c", items=["x"], group="user", time="at",
    )  # fmt: skip


def split_or_skip(*arguments, **options):
    try:
        return sw.split(*arguments, **options)
    except InputError as error:
        assume("a part of the split is empty" not in str(error))
        raise


units = st.lists(st.integers(0, 12), min_size=8, max_size=60)
seeds = st.integers(0, 2**31)


@settings(deadline=None)
@given(units, SHARES, seeds, st.sampled_from(["set", "group", "time"]))
def test_parts_are_disjoint_complete_and_of_whole_sets(values, sizes, seed, by):
    choices = choices_of(values)
    parts = split_or_skip(choices, sizes, seed, by)
    assert len(parts) == len(sizes)
    found = np.concatenate([part.set_ids for part in parts])
    assert sorted(found.tolist()) == list(range(len(values)))
    for part in parts:
        assert part.sizes.tolist() == [2] * len(part)
        np.testing.assert_array_equal(part.columns["x"].values, part.rows)
        np.testing.assert_array_equal(part.rows[::2], 2 * part.set_ids)


@settings(deadline=None)
@given(units, SHARES, seeds, st.sampled_from(["set", "group", "time"]))
def test_the_same_seed_gives_the_same_parts(values, sizes, seed, by):
    choices = choices_of(values)
    once, twice = (split_or_skip(choices, sizes, seed, by) for _ in range(2))
    assert [p.set_ids.tolist() for p in once] == [p.set_ids.tolist() for p in twice]


@settings(deadline=None)
@given(units, SHARES, seeds)
def test_no_group_is_on_two_sides(values, sizes, seed):
    parts = split_or_skip(choices_of(values), sizes, seed, "group")
    sides = [set(part.group.tolist()) for part in parts]
    assert sum(map(len, sides)) == len(set.union(*sides))


@settings(deadline=None)
@given(units, SHARES, seeds)
def test_by_time_every_part_is_strictly_later_than_the_one_before(values, sizes, seed):
    parts = split_or_skip(choices_of(values), sizes, seed, "time")
    for before, after in pairwise(parts):
        assert before.time.max() < after.time.min()


@settings(deadline=None)
@given(st.integers(8, 300), SHARES, seeds)
def test_parts_by_set_have_the_sizes_asked_for_within_one_set(sets, sizes, seed):
    parts = split_or_skip(choices_of(np.arange(sets)), sizes, seed)
    wanted = np.array(sizes) / sum(sizes) * sets
    np.testing.assert_allclose([len(part) for part in parts], wanted, atol=1.001)


def test_another_seed_gives_other_parts():
    choices = choices_of(np.arange(50))
    first, second = (sw.split(choices, seed=seed)[0].set_ids.tolist() for seed in (0, 1))
    assert first != second


def test_dates_and_names_split_too():
    days = np.datetime64("2024-01-01") + np.arange(10)
    choices = choices_of([f"user {i // 2}" for i in range(10)], days[::-1].copy())
    early, late = sw.split(choices, (0.7, 0.3), by="time")
    assert early.time.max() == days[6]
    assert late.time.min() == days[7]
    assert len(sw.split(choices, (0.5, 0.5), by="group")[0].group) % 2 == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": (0.5, 0.0)}, r"sizes\[1\]=0.0 must be a number above 0"),
        ({"sizes": (np.nan, 1)}, r"sizes\[0\]=nan must be a number above 0"),
        ({"sizes": (1, np.inf)}, r"sizes\[1\]=inf must be a number above 0"),
        ({"sizes": (1e308, 1e308)}, r"sizes\[0\]=1e\+308 must be .* at most 1e\+09"),
        ({"sizes": (-1, 2)}, r"sizes\[0\]=-1 must be a number above 0"),
        ({"sizes": ("a", "b")}, r"sizes\[0\]='a' must be a number above 0"),
        ({"sizes": (True, True)}, r"sizes\[0\]=True must be a number above 0"),
        ({"sizes": ()}, r"sizes=\(\) must be a list or tuple of at least 1 value"),
        ({"sizes": {0.5, 0.2}}, "must be a list or tuple"),
        ({"sizes": 0.5}, "sizes=0.5 must be a list or tuple"),
        ({"sizes": None}, "sizes=None must be a list or tuple"),
        ({"sizes": (0.8,)}, r"sizes=\(0.8,\) add up to 0.8; fractions must add up to 1"),
        ({"sizes": (0.5, 0.5, 0.5)}, "add up to 1.5; fractions must add up to 1"),
        ({"by": "user"}, "by='user' must be one of: set, group, time"),
        ({"by": None}, "by=None must be one of: set, group, time"),
        (
            {"sizes": (1.0, 1.0, 1.0), "by": "group"},
            "2 units of group .* use fewer parts or more data",
        ),
        ({"seed": -1}, "seed=-1 must be a whole number of at least 0"),
        ({"seed": None}, "seed=None must be a whole number"),
        ({"seed": True}, "seed=True must be a whole number"),
        ({"seed": 1.5}, "seed=1.5 must be a whole number"),
        ({"seed": 2**40}, "seed=1099511627776 must be .* at most 4294967295"),
        ({"seed": np.random.RandomState(0)}, "seed=RandomState.* must be a whole number"),
    ],
)
def test_impossible_splits_say_why(options, message):
    with pytest.raises(InputError, match=message):
        split_as_users_do(choices_of([1, 1, 1, 2]), **options)


@pytest.mark.parametrize(
    "table",
    [pl.DataFrame({"s": [1]}), pd.DataFrame({"s": [1]}), {"s": [1]}, np.ones((4, 2)), None, "t"],
)
def test_tables_are_not_split_since_that_would_tear_sets_apart(table):
    with pytest.raises(InputError, match=r"split needs Choices, not .* setwise.read\(table, set="):
        split_as_users_do(table)


def test_numpy_shares_and_seeds_are_numbers_too():
    choices = choices_of(np.arange(20))
    plain = sw.split(choices, (0.5, 0.5), 3)
    arrays = split_as_users_do(choices, np.array([0.5, 0.5]), np.int64(3))
    for one, other in zip(plain, arrays, strict=True):
        assert one.set_ids.tolist() == other.set_ids.tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda sample, _: sample("a"), "sets='a' must be a whole number of at least 1"),
        (lambda sample, _: sample(2.5), "sets=2.5 must be"),
        (lambda sample, _: sample(True), "sets=True must be"),
        (lambda sample, _: sample(2, None), "seed=None must be"),
        (lambda sample, _: sample(2, 2**40), "seed=1099511627776 must be"),
        (lambda _, limit: limit("a"), "max_items='a' must be a whole number of at least 1"),
        (lambda _, limit: limit(2.5), "max_items=2.5 must be"),
        (lambda _, limit: limit(-1), "max_items=-1 must be"),
        (lambda _, limit: limit(None, "b"), "min_items='b' must be"),
    ],
)
def test_samples_and_limits_are_whole_numbers(call, message):
    choices = choices_of([1, 2, 3])
    bound = [
        partial(inspect.unwrap(method), choices) for method in (sw.Choices.sample, sw.Choices.limit)
    ]
    with pytest.raises(InputError, match=message):
        call(*bound)


@pytest.mark.parametrize("by", ["group", "time"])
def test_a_column_that_was_not_read_is_asked_for(by):
    plain = sw.datasets.generate("mnl", sets=10).choices
    with pytest.raises(InputError, match=f"read\\({by}=.*--{by}"):
        sw.split(plain, by=by)
