"""Popularity is learned from the choices of other training sets, and from nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import setwise as sw
from setwise.choices import Feature, Schema
from setwise.choices import choices as choices_module
from setwise.choices.schema import FOLDS, in_folds
from setwise.estimators import named


def hotels(sets: int = 60, names: int = 6, seed: int = 0, **more) -> dict[str, np.ndarray]:
    """Sets of two to five hotels; those with small numbers are liked."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, sets)
    owner = np.repeat(np.arange(sets), sizes)
    hotel = rng.integers(0, names, len(owner))
    noisy = -1.5 * hotel + rng.gumbel(size=len(owner))
    firsts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    best = np.maximum.reduceat(noisy, firsts)
    table = {"s": owner, "hotel": hotel, "price": rng.normal(size=len(owner)),
             "c": (noisy == best[owner]).astype(int)}  # fmt: skip
    return table | more


def read(table, **options) -> sw.Choices:
    options = {"items": ["popularity(hotel)", "price"], "on_duplicate": "keep"} | options
    return sw.read(table, set="s", chosen="c", **options)


def test_the_expression_is_read_and_written():
    feature = Feature.parse("impute(popularity(hotel))")
    assert (feature.column, feature.popularity, feature.impute) == ("hotel", True, True)
    assert str(feature) == "impute(popularity(hotel))"
    with pytest.raises(sw.InputError, match="transforms 'x' twice"):
        Feature.parse("popularity(log(x))")


def test_popularity_by_hand():
    """Hotel 7: shown in sets of 2 and 4, chosen in the first: log((1 + 3) / (1/2 + 1/4 + 3))."""
    table = {
        "s": [1, 1, 2, 2, 2, 2], "hotel": [7, 8, 7, 8, 9, 9], "c": [1, 0, 0, 1, 0, 0],
    }  # fmt: skip
    schema = Schema.fit(read(table, items=["popularity(hotel)"]))
    encoder = schema.items[0]
    assert (encoder.kind, encoder.levels) == ("popularity", ("7", "8", "9"))
    expected = [np.log(4 / 3.75), np.log(4 / 3.75), np.log(3 / 3.5)]
    np.testing.assert_allclose(encoder.values, expected, rtol=1e-12)
    assert schema.item_names == ["popularity(hotel)"]


def test_the_outside_option_is_no_hotel():
    table = {"s": [1, 1, 2, 2], "hotel": [7, 8, 7, 8], "c": [1, 0, 0, 0]}
    schema = Schema.fit(read(table, items=["popularity(hotel)"], on_none="outside"))
    np.testing.assert_allclose(
        schema.items[0].values, [np.log(4 / (3 + 2 / 3)), np.log(3 / (3 + 2 / 3))], rtol=1e-12
    )


def test_new_sets_see_all_folds_and_training_sets_the_others():
    choices = read(hotels())
    schema, seen = Schema.learn(choices)
    mean, scale = schema.mean[0], schema.scale[0]
    plain = schema.encode(choices, np.float64).items[:, 0] * scale + mean
    codes = choices.columns["hotel"].values
    np.testing.assert_allclose(plain, np.array(schema.items[0].values)[codes], atol=1e-12)
    fitted = seen.encoded(np.float64).items[:, 0] * scale + mean
    folds = in_folds(choices).fold
    owner = np.repeat(np.arange(len(choices)), choices.sizes)
    for fold in range(FOLDS):
        others = choices.take(np.flatnonzero(folds != fold))
        learned = dict(zip(*(getattr(Schema.fit(others).items[0], n) for n in ("levels", "values")),
                           strict=True))  # fmt: skip
        rows = folds[owner] == fold
        names = np.array(choices.levels("hotel"))[codes[rows]]
        np.testing.assert_allclose(
            fitted[rows], [learned.get(name, 0.0) for name in names], atol=1e-12
        )


@given(seed=st.integers(0, 10**6), which=st.integers(0, 29), to=st.integers(0, 4))
@settings(max_examples=50, deadline=None)
def test_popularity_is_free_of_the_sets_own_choice(seed, which, to):
    """Whatever a training set chose, its own popularity numbers are the same to the bit."""
    choices = read(hotels(sets=30, seed=seed))
    chosen = choices.chosen.copy()
    chosen[which] = min(to, choices.sizes[which] - 1)
    other = replace(choices, chosen=chosen)
    numbers = []
    for one in (choices, other):
        schema, seen = Schema.learn(one)
        own = seen.take(np.array([which])).encoded(np.float64).items[:, 0]
        numbers.append(own * schema.scale[0] + schema.mean[0])
        table = seen.items[0].table * schema.scale[0] + schema.mean[0]
        assert np.isfinite(table).all()
    np.testing.assert_allclose(numbers[0], numbers[1], rtol=0, atol=1e-12)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_changing_test_sets_changes_nothing_in_the_schema(seed):
    """Names, prices and choices of test sets: even names that no training set has."""
    choices = read(hotels(seed=seed))
    train, _ = sw.split(choices, (0.6, 0.4), seed=seed)
    rng = np.random.default_rng(seed)
    inside = np.zeros(len(choices), bool)
    inside[np.searchsorted(choices.set_ids, train.set_ids)] = True
    test_rows = np.repeat(~inside, choices.sizes)
    table = hotels(seed=seed)
    table["hotel"] = np.where(test_rows, rng.integers(3, 99, len(test_rows)), table["hotel"])
    table["price"] = np.where(test_rows, 1e6, table["price"])
    for owner in np.flatnonzero(~inside):
        rows = np.flatnonzero(table["s"] == owner)
        table["c"][rows] = 0
        table["c"][rng.choice(rows)] = 1
    again, _ = sw.split(read(table), (0.6, 0.4), seed=seed)
    assert Schema.fit(again) == Schema.fit(train)


def test_a_name_never_seen_and_a_missing_one_are_of_average_popularity():
    table = hotels()
    table["hotel"] = table["hotel"].astype(float)
    table["hotel"][3] = np.nan
    with pytest.raises(sw.InputError, match=r"row 3; .*impute\(popularity\(hotel\)\)"):
        read(table)
    choices = read(table, items=["impute(popularity(hotel))"])
    schema, seen = Schema.learn(choices)
    new = {"s": [1, 1], "hotel": [99.0, np.nan], "c": [1, 0]}
    zero = -schema.mean[0] / schema.scale[0]
    new_items = schema.encode(read(new, items=["impute(popularity(hotel))"]), np.float64).items
    np.testing.assert_allclose(new_items[:, 0], [zero, zero])
    assert seen.encoded(np.float64).items[3, 0] == pytest.approx(zero)


def test_popularity_of_a_whole_set_is_refused():
    with pytest.raises(sw.InputError, match="popularity is for items"):
        read(hotels(city=np.repeat(1, len(hotels()["s"]))), context=["popularity(city)"])


def test_blocks_and_disk_give_the_same_numbers(tmp_path, monkeypatch):
    choices = read(hotels())
    sw.save_choices(choices, tmp_path / "x.setwise-data")
    whole_schema, whole = Schema.learn(choices)
    monkeypatch.setattr(choices_module, "ROWS_PER_BLOCK", 20)
    schema, seen = Schema.learn(sw.open_choices(tmp_path / "x.setwise-data"))
    np.testing.assert_allclose(schema.items[0].values, whole_schema.items[0].values, rtol=1e-12)
    parts = np.concatenate([part.encoded(np.float64).items for part in seen.blocks()])
    np.testing.assert_allclose(parts, whole.encoded(np.float64).items, atol=1e-12)


@pytest.mark.parametrize("name", ["mnl", "sda", "random"])
def test_models_learn_from_popularity_and_carry_it_in_their_file(tmp_path, name):
    train, test = read(hotels(400)), hotels(100, seed=1)
    small = {"dimension": 4, "ensemble": 1, "training": sw.Training(epochs=3)}
    model = named(name).set_params(**(small if name == "sda" else {})).fit(train)
    model.save(tmp_path / "m.setwise")
    again = sw.load(tmp_path / "m.setwise")
    np.testing.assert_array_equal(again.predict_proba(test), model.predict_proba(test))


def test_popularity_takes_mnl_to_the_truth_that_names_hold():
    """Utilities are -1.5 times the hotel's number, which no feature says: popularity finds it."""
    table = hotels(4000, seed=2)
    train, test = sw.split(read(table), (0.5, 0.5))
    without, _ = sw.split(read(table, items=["price"]), (0.5, 0.5))
    blind = sw.MNL().fit(without).evaluate(test).nll
    known = sw.MNL().fit(train).evaluate(test).nll
    names = read(table, items=["category(hotel)", "price"], rare=0.0)
    best = sw.MNL().fit(sw.split(names, (0.5, 0.5))[0]).evaluate(sw.split(names, (0.5, 0.5))[1]).nll
    assert known < blind - 0.3
    assert known == pytest.approx(best, abs=0.02)


def test_without_cross_fitting_names_of_no_worth_would_look_precious():
    """Choices at random among hotels shown once or twice: an honest popularity is worth nothing."""
    rng = np.random.default_rng(0)
    sets, size = 600, 3
    owner = np.repeat(np.arange(sets), size)
    taken = np.repeat(rng.integers(0, size, sets), size) == np.tile(np.arange(size), sets)
    table = {"s": owner, "hotel": rng.integers(0, 900, sets * size), "c": taken.astype(int)}
    choices = read(table, items=["popularity(hotel)"])
    train, test = sw.split(choices, (0.5, 0.5))
    honest = sw.MNL().fit(train)
    assert abs(honest.coef_[0]) < 3 * honest.standard_errors_[0]
    assert honest.evaluate(test).nll < np.log(3) + 0.01
    schema = Schema.fit(train)
    naive = schema.encode(train, np.float64)
    chosen = naive.items[naive.offsets[:-1] + naive.chosen, 0]
    assert chosen.mean() > naive.items[:, 0].mean() + 0.5  # what a model would have believed
