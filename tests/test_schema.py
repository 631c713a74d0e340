"""The schema: columns become numbers by what training data taught, and by nothing else."""

import datetime as dt
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import setwise as sw
from setwise import InputError, Schema
from setwise.choices.schema import common_levels

ITEMS = ["log(cost)", "impute(review)", "direct", "brand", "other(city)", "day"]
YEAR = dt.date(2024, 1, 1)


def trips(sets=40, seed=0):
    """A table with a column of every kind; every set has three items."""
    rng = np.random.default_rng(seed)
    rows = 3 * sets
    review = rng.normal(size=rows)
    return {
        "s": np.repeat(np.arange(sets), 3),
        "c": np.tile([0, 1, 0], sets),
        "cost": rng.lognormal(size=rows),
        "review": np.where(rng.random(rows) < 0.2, np.nan, review),
        "direct": rng.random(rows) < 0.5,
        "brand": rng.choice(["red", "green", "blue"], rows),
        "city": rng.choice(["Bern", "Basel"], rows),
        "day": np.datetime64(YEAR) + rng.integers(0, 366, rows),
        "age": np.repeat(rng.integers(20, 80, sets) * 1.0, 3),
    }


def read(table, items=ITEMS, context=("age",), **options):
    return sw.read(table, set="s", chosen="c", items=list(items), context=list(context), **options)


def one_column(values, feature="x", **options):
    """A single set of these items, read for a feature of column x."""
    table = {"s": np.zeros(len(values)), "x": values}
    return sw.read(table, set="s", items=[feature], **options)


def raw(choices, schema=None):
    """Numeric item columns by name, before standardisation."""
    schema = schema or Schema.fit(choices)
    encoded = schema.encode(choices, np.float64).items
    count = encoded.shape[1]
    plain = encoded * np.array(schema.scale[:count]) + np.array(schema.mean[:count])
    return dict(zip(schema.item_names, plain.T, strict=True))


# What each kind of column becomes


def test_every_kind_of_column_has_its_numeric_columns():
    schema = Schema.fit(read(trips()))
    assert schema.item_names == [
        "log(cost)", "review", "review:missing", "direct", "brand=blue", "brand=green",
        "brand=red", "city=Basel", "city=Bern", "city=other", "day:week", "day:month",
    ]  # fmt: skip
    assert schema.context_names == ["age"]
    assert schema.width == 13


@pytest.mark.parametrize("transform", ["log", "log1p", "sqrt"])
def test_transforms_are_numpys(transform):
    values = np.array([0.5, 1, 20, 3])
    found = raw(one_column(values, f"{transform}(x)"))[f"{transform}(x)"]
    np.testing.assert_allclose(found, getattr(np, transform)(values))


def test_categories_are_one_hot_and_rows_add_up_to_one():
    columns = raw(one_column(["b", "a", "c", "a"]))
    assert {name: values.round(9).tolist() for name, values in columns.items()} == {
        "x=a": [0, 1, 0, 1],
        "x=b": [1, 0, 0, 0],
        "x=c": [0, 0, 1, 0],
    }


def test_numbers_named_as_a_category_are_levels_whatever_their_type():
    whole = one_column([3, 10, 3, 7], "category(x)")
    gaps = one_column([3.0, 10.0, 3.0, 7.0], "category(x)")
    schema = Schema.fit(whole)
    assert schema.item_names == ["x=10", "x=3", "x=7"]
    np.testing.assert_array_equal(schema.encode(gaps).items, schema.encode(whole).items)


@pytest.mark.parametrize(
    ("rare", "names"),
    [
        (0.0, ["x=a", "x=b", "x=c"]),
        (0.10, ["x=a", "x=b", "x=c"]),  # a level at the very share stays
        (0.11, ["x=a", "x=b", "x=other"]),
        (0.35, ["x=a", "x=other"]),
    ],
)
def test_levels_rarer_than_rare_are_grouped_as_other(rare, names):
    choices = one_column(["a"] * 60 + ["b"] * 30 + ["c"] * 10, rare=rare)
    assert Schema.fit(choices).item_names == names
    assert raw(choices)[names[-1]].sum() == pytest.approx({3: 10, 2: 40}[len(names)])


@pytest.mark.parametrize("feature", ["x", "impute(x)", "other(x)"])
def test_levels_that_are_all_rare_become_one_with_a_warning(feature):
    choices = one_column([f"name {i}" for i in range(200)], feature)
    with pytest.warns(sw.DataWarning, match=r"all 200 levels of column 'x' .*1.00%.*popularity"):
        names = Schema.fit(choices).item_names
    assert names[0] == "x=other"
    with pytest.warns(sw.DataWarning, match="all 200 levels of column 'x'"):
        common_levels(choices)


def test_a_column_of_one_level_is_not_called_rare():
    assert Schema.fit(one_column(["a"] * 5)).item_names == ["x=a"]
    assert Schema.fit(one_column(["other"] * 5)).item_names == ["x=other"]


# Numbers of any size

VALUES = np.random.default_rng(0).uniform(1, 9, 60).round(2)


def with_value(value, at=7):
    return np.where(np.arange(60) == at, value, VALUES)


@pytest.mark.parametrize("factor", [1e-29, 1e-20, 1e-13, 1e-5, 1.0, 1e5, 1e20, 1e29])
def test_numbers_of_any_sound_size_are_standardised(factor):
    wanted = Schema.fit(one_column(VALUES)).encode(one_column(VALUES)).items
    choices = one_column(VALUES * factor)
    np.testing.assert_allclose(Schema.fit(choices).encode(choices).items, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (VALUES * 1e300, r"'x' is 8.*e.300 at row \d+, which is too large .*, or use log\(x\)"),
        (with_value(1e300), "'x' is 1e.300 at row 7, which is too large"),
        (with_value(-1e300), r"'x' is -1e.300 at row 7, which is too large .* other units$"),
        (with_value(1e39), "'x' is 1e.39 at row 7, which is too large"),
        (with_value(1e20), r"'x' is 1e.20 at row 7, so far from the rest .* log\(x\)"),
        (with_value(-1e12), "'x' is -1e.12 at row 7, so far from the rest that other values"),
        (VALUES * 1e-300, "'x' has no value above 8.*e-300, which is too small .* other units"),
        (VALUES * 1e-310, "'x' has no value above"),
        (np.where(VALUES > 5, 0, 5e-324), "'x' has no value above"),
    ],
)
def test_numbers_that_lose_their_meaning_are_refused(values, message):
    with pytest.raises(InputError, match=message):
        Schema.fit(one_column(values))


def test_context_of_the_wrong_size_is_refused_by_its_row():
    table = trips()
    table["age"] = np.where(table["s"] == 5, 1e300, table["age"])
    with pytest.raises(InputError, match=r"'age' is 1e.300 at row 15, which is too large"):
        Schema.fit(read(table))


def test_logs_and_imputed_values_are_judged_as_the_model_sees_them():
    assert Schema.fit(one_column(VALUES * 1e300, "log(x)")).scale[0] < 1
    gaps = np.where(np.arange(60) == 3, np.nan, with_value(1e300))
    with pytest.raises(InputError, match=r"'x' is 1e.300 at row 7"):
        Schema.fit(one_column(gaps, "impute(x)"))


def test_a_spread_of_rounding_errors_is_told():
    with pytest.warns(sw.DataWarning, match="'x' varies by less than 1e-12 of its size"):
        schema = Schema.fit(one_column(0.3 + np.arange(6) * 5e-17))
    assert schema.scale == (1.0,)
    assert Schema.fit(one_column(np.full(7, 0.1))).scale == (1.0,)


def test_a_rare_flag_and_a_long_tail_are_sound():
    flag = np.zeros(10_000)
    flag[77] = 1
    tail = np.exp(3 * np.random.default_rng(1).normal(size=10_000))
    seconds = 1.7e9 + np.arange(10_000.0)
    for values in (flag, tail, seconds, seconds * 1e9):
        Schema.fit(one_column(values))


@pytest.mark.parametrize("value", [1e9, 1e20, 1e39, 1e300, -1e300])
@pytest.mark.parametrize("feature", ["x", "impute(x)"])
def test_values_far_from_training_data_are_refused_by_their_row(value, feature):
    schema = Schema.fit(one_column(VALUES, feature))
    with pytest.raises(
        InputError, match=r"'x' is -?1e.* at row 7, too far .* more than 1e.07 standard dev"
    ):
        schema.encode(one_column(with_value(value), feature))
    assert np.isfinite(schema.encode(one_column(with_value(1e6), feature)).items).all()


def test_a_level_called_other_or_missing_does_not_clash():
    choices = one_column(["a", "other", "missing", "a", None, "b"], "impute(x)")
    columns = raw(choices)
    assert list(columns) == ["x=a", "x=b", "x=other", "x=missing"]
    assert columns["x=other"].round(9).tolist() == [0, 1, 0, 0, 0, 0]
    assert columns["x=missing"].round(9).tolist() == [0, 0, 1, 0, 1, 0]


@settings(deadline=None)
@given(st.lists(st.dates(dt.date(1900, 1, 1), dt.date(2200, 1, 1)), min_size=1, max_size=20))
def test_dates_become_iso_week_and_month(days):
    columns = raw(one_column(np.array(days, "datetime64[D]")))
    assert columns["x:week"].round(6).tolist() == [day.isocalendar().week for day in days]
    assert columns["x:month"].round(6).tolist() == [day.month for day in days]


def test_missing_numbers_become_the_median_with_an_indicator():
    columns = raw(one_column([1.0, np.nan, 100.0, 3.0], "impute(x)"))
    assert columns["x"].round(9).tolist() == [1, 3, 100, 3]
    assert columns["x:missing"].round(9).tolist() == [0, 1, 0, 0]


def test_the_median_is_of_the_transformed_column():
    columns = raw(one_column([1.0, np.nan, 4.0, 16.0, 64.0], "impute(log(x))"))
    assert columns["log(x)"][1] == pytest.approx(np.log(8))


def test_there_is_no_indicator_unless_asked_for():
    assert list(raw(one_column([1.0, 2.0]))) == ["x"]


def test_a_column_of_nothing_but_gaps_is_imputed_at_prediction_and_refused_in_training():
    gone = [None] * 3
    for feature, values in (("impute(x)", [1.0, 2.0, 4.0]), ("impute(x)", ["a", "b", "a"])):
        schema = Schema.fit(one_column(values, feature))
        columns = raw(one_column(gone, feature), schema)
        indicator = "x:missing" if "x:missing" in columns else "x=missing"
        assert columns[indicator].round(9).tolist() == [1, 1, 1]
    with pytest.raises(InputError, match="column 'x' has no value at all to impute from; drop it"):
        Schema.fit(one_column(gone, "impute(x)"))


# Standardisation


def test_columns_are_standardised_and_a_constant_one_stays_finite():
    table = trips() | {"flat": np.full(120, 7.3)}
    encoded = Schema.fit(read(table, ["cost", "flat"])).encode(read(table, ["cost", "flat"]))
    np.testing.assert_allclose(encoded.items.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(encoded.items.std(0), [1, 0], atol=1e-5)
    np.testing.assert_allclose(encoded.context.mean(0), 0, atol=1e-5)
    assert encoded.context.shape == (40, 1)


def test_context_is_standardised_over_sets_not_rows():
    table = {
        "s": [1, 1, 1, 1, 1, 2], "c": [1, 0, 0, 0, 0, 1], "x": range(6),
        "age": [10, 10, 10, 10, 10, 20],
    }  # fmt: skip
    schema = Schema.fit(read(table, ["x"]))
    assert schema.mean[-1] == 15
    assert schema.scale[-1] == 5


# Fitted on training data, and saved


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_changing_test_rows_changes_nothing_in_the_schema(seed):
    table = trips(12)
    train, test = sw.split(read(table), (0.5, 0.5), seed=seed)
    changed = {name: values.copy() for name, values in table.items()}
    rng = np.random.default_rng(seed)
    for name in ("cost", "review", "age", "direct", "day"):
        changed[name][test.rows] = changed[name][test.rows[0]]
    changed["brand"][test.rows] = rng.choice(["pink", "red"], len(test.rows))
    changed["city"][test.rows] = "Genf"
    changed["age"][test.rows] = np.repeat(rng.integers(20, 80, len(test)), 3)
    again, _ = sw.split(read(changed), (0.5, 0.5), seed=seed)
    assert Schema.fit(again) == Schema.fit(train)


@pytest.mark.parametrize("on_none", ["error", "outside"])
def test_the_schema_survives_json(on_none):
    choices = read(trips(), weight=None, group="s", rare=0.05, on_none=on_none)
    schema = Schema.fit(choices)
    again = Schema.from_json(json.loads(json.dumps(schema.to_json())))
    assert again == schema
    np.testing.assert_array_equal(again.encode(choices).items, schema.encode(choices).items)


# At prediction


def test_a_level_unknown_in_training_is_refused_with_its_place_and_remedy():
    schema = Schema.fit(one_column(["a", "b", "a"]))
    with pytest.raises(InputError) as caught:
        schema.encode(one_column(["a", "new", "b"]))
    text = str(caught.value)
    assert "column 'x' is 'new' at row 1" in text
    assert "it had: a, b" in text
    assert "train with other(x)" in text


def test_an_unknown_level_is_named_by_the_tables_row_even_in_shuffled_sets_and_context():
    known = {"s": [1, 2, 1, 2], "x": ["a", "b", "a", "b"], "k": ["u", "v", "u", "v"]}
    new = known | {"x": ["a", "b", "new", "b"]}
    newer = known | {"k": ["u", "w", "u", "w"]}

    def opened(table):
        return sw.read(table, set="s", items=["x"], context=["k"])

    schema = Schema.fit(opened(known))
    with pytest.raises(InputError, match="'new' at row 2"):
        schema.encode(opened(new))
    with pytest.raises(InputError, match="column 'k' is 'w' at row 1"):
        schema.encode(opened(newer))


def test_a_level_unknown_in_training_becomes_other_where_asked():
    schema = Schema.fit(one_column(["a", "b", "a"], "other(x)"))
    found = raw(one_column(["a", "new", "b"], "other(x)"), schema)
    assert found["x=other"].round(9).tolist() == [0, 1, 0]


def test_a_column_of_another_kind_than_in_training_is_refused():
    number, category = one_column([1.0, 2.0]), one_column(["a", "b"])
    with pytest.raises(InputError, match="column 'x' is a category here but was a number when"):
        Schema.fit(number).encode(category)
    with pytest.raises(InputError, match=r"was a category .* train with category\(x\)"):
        Schema.fit(category).encode(number)


def test_a_feature_that_the_choices_lack_is_named():
    schema = Schema.fit(read(trips(), ["cost", "brand"]))
    with pytest.raises(
        InputError, match="feature column 'brand' is missing; the model was trained"
    ):
        schema.encode(read(trips(), ["cost", "direct"]))


# The outside option


def test_the_outside_option_is_the_last_row_of_every_set_with_an_indicator():
    table = {"s": [1, 1, 2], "x": [1.0, 2.0, 6.0], "c": [0, 0, 1]}
    choices = sw.read(table, set="s", chosen="c", on_none="outside")
    schema = Schema.fit(choices)
    encoded = schema.encode(choices, np.float64)
    assert schema.item_names == ["x", "outside option"]
    assert encoded.offsets.tolist() == [0, 3, 5]
    assert encoded.chosen.tolist() == [2, 0]
    assert encoded.items[:, 1].tolist() == [0, 0, 1, 0, 1]
    assert encoded.items[[2, 4], 0].tolist() == [0, 0]  # zero: the mean of the training items
    np.testing.assert_allclose(encoded.items[[0, 1, 3], 0] * schema.scale[0] + 3, [1, 2, 6])


def test_choices_with_an_outside_option_are_refused_by_a_model_without():
    table = {"s": [1, 1, 2, 2], "x": [1.0, 2.0, 6.0, 3.0], "c": [0, 1, 1, 0]}
    without = sw.read(table, set="s", chosen="c")
    given_up = sw.read(table | {"c": [0, 0, 1, 0]}, set="s", chosen="c", on_none="outside")
    with pytest.raises(InputError, match='trained without one; read them with on_none="drop"'):
        Schema.fit(without).encode(given_up)
    encoded = Schema.fit(given_up).encode(without)  # the other way round loses nothing
    assert encoded.sizes.tolist() == [3, 3]
