"""Intervals over people: where one person makes many choices, people are drawn again, not sets."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from setwise.metrics.pairs import LevelMatrix
from setwise.metrics.set_means import bootstrap, error_of_mean, numbered, respondents
from setwise.violations import (
    SetMean,
    Violations,
    bootstrap_interval,
    influence,
    soft_violations,
    violation_capacity,
)


def width(interval):
    return interval[1] - interval[0]


def trips(sets=60, each=3) -> pl.DataFrame:
    """Sets of three, ``each`` in a row of one traveller."""
    rng = np.random.default_rng(0)
    number = np.repeat(np.arange(sets), 3)
    return pl.DataFrame(
        {
            "trip": number,
            "who": [f"t{(sets - one) // each}" for one in number],
            "age": (number // each) % 2 + 30.0,
            "mode": ["car", "bus", "air"] * sets,
            "cost": rng.normal(size=len(number)),
            "time": rng.normal(size=len(number)),
            "taken": (rng.integers(3, size=sets)[:, None] == np.arange(3)).ravel(),
        }
    )


def read(table, **roles):
    return sw.read(table, set="trip", chosen="taken", items=["cost", "time"], **roles)


# The bootstrap


@pytest.mark.parametrize("k", [4, 9])
def test_with_k_equal_choices_each_the_interval_is_sqrt_k_as_wide(k):
    once = np.random.default_rng(0).exponential(size=300)
    weight = np.random.default_rng(1).random(300) + 0.5
    who = np.repeat(np.arange(300), k)
    found = SetMean(np.repeat(once, k), np.repeat(weight, k))
    by_set = found.interval(resamples=4000)
    by_person = found.interval(resamples=4000, group=who)
    # A width from 4,000 draws has an error of 1.5 %, the quotient of two 2 %: three times that.
    assert width(by_person) / width(by_set) == pytest.approx(np.sqrt(k), rel=0.06)
    np.testing.assert_allclose(by_person, SetMean(once, weight).interval(resamples=4000))


def test_without_a_group_the_draws_are_those_of_sets():
    rng = np.random.default_rng(5)
    values, weight = rng.random(40), rng.random(40)
    again = np.random.default_rng(3)
    means = []
    for _ in range(50):
        times = np.bincount(again.integers(40, size=40), minlength=40)
        above, below = times @ np.stack([values * weight, weight], 1)
        means.append(above / below)
    found = SetMean(values, weight).interval(0.9, 50, 3)
    np.testing.assert_allclose(found, np.quantile(means, [0.05, 0.95]), rtol=1e-14)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12), st.integers(0, 3))
def test_people_of_one_set_each_are_sets(values, seed):
    above = np.array(values)
    plain = bootstrap(above, np.ones(len(above)), resamples=20, seed=seed)
    grouped = bootstrap(
        above, np.ones(len(above)), resamples=20, seed=seed, group=np.arange(len(above)) * 2
    )
    np.testing.assert_array_equal(plain, grouped)


@given(st.lists(st.sampled_from("abcd"), min_size=2, max_size=10), st.randoms())
def test_the_order_of_sets_plays_no_part_with_people(who, random):
    values = np.arange(len(who), dtype=float) ** 2
    order = list(range(len(who)))
    random.shuffle(order)
    one = bootstrap(values, np.ones(len(who)), resamples=20, group=who)
    other = bootstrap(
        values[order], np.ones(len(who)), resamples=20, group=[who[place] for place in order]
    )
    np.testing.assert_allclose(one, other, rtol=1e-12)


def test_people_whose_sets_have_no_value_are_not_drawn():
    values, who = np.array([1.0, np.nan, 3.0, np.nan, 4.0]), np.array([0, 1, 2, 2, 0])
    kept = SetMean(values[[0, 2, 4]], None, who[[0, 2, 4]])
    assert SetMean(values, None, who).interval() == kept.interval()
    assert SetMean(values, None, who).standard_error == kept.standard_error


def test_a_measure_keeps_its_group_and_another_one_may_be_given():
    values, who = np.random.default_rng(0).random(60), np.repeat(np.arange(10), 6)
    for kind in (SetMean, Violations):
        kept = bootstrap_interval(kind(values, None, who))
        assert kept == bootstrap_interval(kind(values, None), group=who)
        assert kept == bootstrap_interval(kind(values, None, np.arange(60)), group=who)
        assert kept != bootstrap_interval(kind(values, None))
    half = np.arange(60) < 30
    found = Violations(values, values, who).where(half)
    np.testing.assert_array_equal(found.group, who[:30])
    assert found.kappa == Violations(values, values).kappa_where(half)


def test_matrices_of_alternatives_are_resampled_by_people():
    once = np.random.default_rng(0).random((80, 2, 2))
    above, who = np.repeat(once, 4, 0), np.repeat(np.arange(80), 4)
    below = np.ones((320, 1, 1))
    by_person = LevelMatrix.ratio(["a", "b"], above, below, who)
    alone = LevelMatrix.ratio(["a", "b"], once, below[:80])
    np.testing.assert_allclose(by_person.low, alone.low)
    np.testing.assert_allclose(by_person.high, alone.high)
    np.testing.assert_allclose(by_person.values, alone.values)


def test_the_standard_error_is_that_of_sums_over_people():
    rng = np.random.default_rng(0)
    values, share, who = rng.random(12), rng.dirichlet(np.ones(12)), np.arange(12) % 4
    mean = values @ share
    sums = [sum(share[i] * (values[i] - mean) for i in range(12) if who[i] == g) for g in range(4)]
    expected = np.sqrt(4 / 3 * np.sum(np.square(sums)))
    assert error_of_mean(values, share, who) == pytest.approx(expected)
    apart = error_of_mean(values, share, np.arange(12))
    assert apart == pytest.approx(error_of_mean(values, share, None))
    assert np.isnan(error_of_mean(values, share, np.zeros(12)))
    assert Violations(values, share, who).standard_error == pytest.approx(expected)


# Who made which choice


def test_a_group_is_a_column_or_an_array():
    table = trips()
    _, expected = np.unique(table["who"].to_numpy()[::3], return_inverse=True)
    plain, with_group = read(table), read(table, group="who")
    with_context = read(table.with_columns(who=pl.col("who").cast(pl.Categorical)), context=["who"])
    for choices, data, group in [
        (with_group, with_group, "who"),
        (plain, table, "who"),
        (with_context, with_context, "who"),
        (plain, plain, with_group.group),
        (plain, plain, with_group.group.tolist()),
    ]:
        assert respondents(choices, data, group).tolist() == expected.tolist()


def test_rows_of_a_table_may_come_in_any_order():
    table = trips()
    owner = dict(zip(table["trip"], table["who"], strict=True))
    shuffled = table.sort("cost")
    choices = read(shuffled)
    expected = numbered([owner[one] for one in choices.set_ids], len(choices))
    assert respondents(choices, shuffled, "who").tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ("who", "read them with group='who'"),
        ([1, 2], "60 sets; give one value per set"),
        ([None, *range(59)], "missing at set number 0"),
        (np.append(np.arange(59.0), np.nan), "missing at set number 59"),
    ],
)
def test_a_group_that_is_not_known_is_refused(group, words):
    choices = read(trips())
    with pytest.raises(sw.InputError, match=words):
        violation_capacity(sw.RandomChoice().fit(choices), choices, group=group)


def test_a_column_of_the_table_must_be_constant_within_sets():
    table = trips()
    model = sw.RandomChoice().fit(read(table))
    with pytest.raises(sw.InputError, match="'mode' differs within set"):
        violation_capacity(model, table, group="mode")


# The measures


def test_measures_of_a_model_know_their_people():
    table = trips()
    choices = read(table, group="who")
    model = sw.WithinSetMNL().fit(choices)
    kappa = violation_capacity(model, choices)
    by_person = violation_capacity(model, choices, group="who")
    np.testing.assert_array_equal(kappa.of_sets, by_person.of_sets)
    assert kappa.group is None
    assert bootstrap_interval(by_person) == bootstrap_interval(kappa, group=choices.group)
    soft = soft_violations(model, table, group="who")
    assert soft.odds.interval() == soft_violations(model, choices).odds.interval(
        group=choices.group
    )
    assert soft.regularity.group is not None
    alone = influence(model, table, "mode")
    grouped = influence(model, table, "mode", "who")
    np.testing.assert_array_equal(alone.between.values, grouped.between.values)
    assert not np.array_equal(alone.between.low, grouped.between.low)
    with pytest.raises(sw.InputError, match="by="):
        influence(model, choices, group="who")


def test_iia_models_have_exactly_0_by_people_too():
    choices = read(trips(), group="who")
    found = violation_capacity(sw.MNL().fit(choices), choices, group="who")
    assert (found.kappa, found.standard_error, bootstrap_interval(found)) == (0, 0, (0, 0))


def test_parts_of_choices_keep_their_people():
    choices = read(trips(), group="who")
    part = choices.take(np.arange(20, 40))
    found = violation_capacity(sw.RandomChoice().fit(choices), part, group="who")
    assert len(np.unique(found.group)) == len(np.unique(choices.group[20:40]))
    assert replace(found, group=None).kappa == found.kappa
