"""The data door: any table gives the same Choices, and rows may come in any order."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import setwise as sw
from setwise import InputError
from setwise.choices import Dropped, expressions, table_files

TRIPS = {
    "trip": [7, 7, 9, 9, 9, 4],
    "cost": [3.0, 1.0, 2.0, 5.0, 4.5, 8.0],
    "stops": [0, 2, 1, 1, 0, 3],
    "direct": [True, False, False, True, True, False],
    "brand": ["red", "blue", "blue", "green", "red", "red"],
    "day": [dt.date(2024, 12, d) for d in (29, 30, 31, 29, 30, 31)],
    "age": [30.0, 30.0, 41.0, 41.0, 41.0, 25.0],
    "taken": [0, 1, 1, 0, 0, 1],
}
ROLES = {
    "set": "trip",
    "chosen": "taken",
    "items": ["log(cost)", "stops", "direct", "brand", "day"],
    "context": ["age"],
}


def as_parquet(folder):
    pl.DataFrame(TRIPS).write_parquet(folder / "trips.parquet")
    return folder / "trips.parquet"


def as_csv(folder):
    pl.DataFrame(TRIPS).write_csv(folder / "trips.csv")
    return str(folder / "trips.csv")


SOURCES = {
    "parquet": as_parquet,
    "csv": as_csv,
    "polars": lambda _: pl.DataFrame(TRIPS),
    "pandas": lambda _: pd.DataFrame(TRIPS),
    "arrow": lambda _: pl.DataFrame(TRIPS).to_arrow(),
    "lists": lambda _: TRIPS,
    "arrays": lambda _: {name: np.asarray(values) for name, values in TRIPS.items()},
}


def assert_same(one, other):
    assert one.roles == other.roles
    assert one.set_ids.tolist() == other.set_ids.tolist()
    for name in ("offsets", "rows", "chosen", "weight"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for mine, yours in ((one.columns, other.columns), (one.context, other.context)):
        assert mine.keys() == yours.keys()
        for name, column in mine.items():
            assert column.kind == yours[name].kind
            np.testing.assert_array_equal(column.text(), yours[name].text())


def contents(choices, feature="x"):
    """Each set's items in order, and the chosen one, by the set's name."""
    values, ends = choices.columns[feature].values, choices.offsets
    return {
        str(name): (values[ends[i] : ends[i + 1]].tolist(), choices.chosen[i])
        for i, name in enumerate(choices.set_ids)
    }


def small(**changes):
    return {"s": [1, 1, 2, 2], "x": [1.0, 2.0, 3.0, 4.0], "c": [0, 1, 1, 0]} | changes


def read_small(items=("x",), **changes):
    return sw.read(small(**changes), set="s", chosen="c", items=list(items))


# The same table in every form


@pytest.mark.parametrize("source", SOURCES)
def test_every_kind_of_table_gives_the_same_choices(source, tmp_path):
    assert_same(sw.read(SOURCES[source](tmp_path), **ROLES), sw.read(pl.DataFrame(TRIPS), **ROLES))


@pytest.mark.parametrize("sets", [[0, 0, 1, 1, 1, 2], [2, 3, 1]], ids=["ids", "sizes"])
def test_a_matrix_with_a_set_vector_gives_the_same_choices(sets):
    matrix = np.column_stack([TRIPS["cost"], TRIPS["stops"]]).astype(float)
    names = ["log(cost)", "stops"]
    table = {"set": [0, 0, 1, 1, 1, 2], "chosen": TRIPS["taken"]}
    table |= {"cost": matrix[:, 0], "stops": matrix[:, 1]}
    assert_same(
        sw.read(matrix, set=sets, chosen=TRIPS["taken"], items=names),
        sw.read(table, set="set", chosen="chosen", items=names),
    )


def test_features_of_a_matrix_without_names_are_numbered():
    choices = sw.read(np.ones((4, 2)), set=[2, 2], chosen=[0, 1, 1, 0])
    assert [str(feature) for feature in choices.roles.items] == ["x0", "x1"]


def test_items_are_by_default_all_columns_without_another_role():
    table = small(w=[1.0, 1.0, 2.0, 2.0], user=[1, 1, 1, 1], at=[1, 1, 2, 2], age=[3, 3, 4, 4])
    choices = sw.read(
        table, set="s", chosen="c", context=["age"], weight="w", group="user", time="at"
    )
    assert [str(feature) for feature in choices.roles.items] == ["x"]


def test_one_feature_may_be_given_as_a_word():
    choices = sw.read(small(age=[3, 3, 4, 4]), set="s", chosen="c", items="log(x)", context="age")
    assert repr(choices) == ("Choices(2 sets of 2 items, 4 rows; items: log(x); context: age)")


@pytest.mark.parametrize(
    ("frame", "values", "kind"),
    [
        (dict, [1.0, None, 3.0, 4.0], "number"),
        (dict, [True, None, False, True], "number"),
        (dict, [Decimal("1.5"), None, np.float32(3), 4], "number"),
        (dict, ["a", None, "b", "a"], "category"),
        (pl.DataFrame, [1, None, 3, 4], "number"),
        (pl.DataFrame, [False, None, True, True], "number"),
        (pl.DataFrame, ["a", None, "b", "a"], "category"),
        (pl.DataFrame, pl.Series(["3", None, "4", "3"], dtype=pl.Categorical), "category"),
        (pd.DataFrame, pd.array([1, None, 3, 4], dtype="Int64"), "number"),
        (pd.DataFrame, pd.array([True, None, False, True], dtype="boolean"), "number"),
        (pd.DataFrame, np.array([1, None, 3, 4], object), "number"),
        (pd.DataFrame, pd.Categorical([30, None, 40, 30]), "category"),
        (pd.DataFrame, ["a", None, "b", "a"], "category"),
    ],
)
def test_a_missing_value_is_found_in_every_type_of_column(frame, values, kind):
    choices = sw.read(frame(small(x=values)), set="s", chosen="c", items=["impute(x)"])
    assert choices.columns["x"].kind == kind
    assert choices.columns["x"].missing.tolist() == [False, True, False, False]


@pytest.mark.parametrize("frame", [dict, pd.DataFrame, pl.DataFrame])
def test_dates_are_days_on_the_local_calendar(frame):
    midnight = pd.date_range("2024-12-30", periods=4, tz="Asia/Tokyo").to_pydatetime().tolist()
    column = sw.read(frame(small(x=midnight)), set="s", chosen="c").columns["x"]
    assert column.values.astype("datetime64[D]").astype(str).tolist() == [
        "2024-12-30", "2024-12-31", "2025-01-01", "2025-01-02"
    ]  # fmt: skip


# Files


def test_a_csv_column_that_turns_fractional_late_is_a_number(tmp_path):
    rows = [f"{i // 2},{i},{i % 2}" for i in range(2000)]
    path = tmp_path / "late.csv"
    path.write_text("\n".join(["s,x,c", *rows, "1000,0.5,1", "1000,1.5,0", ""]))
    assert sw.read(path, set="s", chosen="c").columns["x"].values[-1] == 1.5


def test_a_compressed_csv_and_capital_suffixes_are_read(tmp_path):
    import gzip

    text = pl.DataFrame(small()).write_csv()
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "a.CSV").write_text(text)
    for name in ("a.csv.gz", "a.CSV"):
        assert_same(sw.read(tmp_path / name, set="s", chosen="c"), read_small())


def test_brackets_in_a_file_name_are_just_a_name(tmp_path):
    for name in ("run[1].csv", "run*.parquet"):
        frame, path = pl.DataFrame(small()), tmp_path / name
        frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)
        assert len(sw.read(path, set="s", chosen="c")) == 2


# Sets


@st.composite
def tables_and_orders(draw):
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=12))
    names = draw(st.permutations([f"trip {i}" for i in range(len(sizes))]))
    sets = np.repeat(names, sizes)
    taken = np.zeros(len(sets), int)
    ends = np.cumsum([0, *sizes])
    taken[[ends[i] + draw(st.integers(0, size - 1)) for i, size in enumerate(sizes)]] = 1
    order = np.array(draw(st.permutations(range(len(sets)))))
    return {"s": sets, "x": np.arange(len(sets)) * 1.0, "c": taken}, order


@settings(deadline=None)
@given(tables_and_orders())
def test_shuffling_rows_changes_nothing_about_any_set(drawn):
    table, order = drawn
    straight = sw.read(table, set="s", chosen="c")
    shuffled = {name: values[order] for name, values in table.items()}
    again = sw.read(shuffled, set="s", chosen="c")
    for name, (items, chosen) in contents(straight).items():
        found, found_chosen = contents(again)[name]
        assert sorted(found) == items
        assert found[found_chosen] == items[chosen]
    # Sets come in order of first appearance, and a set's rows keep the table's order.
    assert again.set_ids.tolist() == list(dict.fromkeys(shuffled["s"].tolist()))
    assert again.rows.tolist() == [
        row for name in again.set_ids for row in np.flatnonzero(shuffled["s"] == name)
    ]


@settings(deadline=None)
@given(tables_and_orders())
def test_in_table_order_puts_values_back(drawn):
    table, order = drawn
    shuffled = {name: values[order] for name, values in table.items()}
    choices = sw.read(shuffled, set="s", chosen="c")
    values = choices.columns["x"].values
    assert choices.in_table_order(values).tolist() == shuffled["x"].tolist()


def test_sets_have_one_to_thousands_of_items():
    sizes = np.array([1, 5000, 2, 1])
    sets = np.repeat(np.arange(4), sizes)
    taken = np.zeros(len(sets), int)
    taken[np.cumsum(sizes) - 1] = 1
    choices = sw.read({"s": sets, "x": np.arange(5004.0), "c": taken}, set="s", chosen="c")
    assert choices.sizes.tolist() == sizes.tolist()
    assert choices.chosen.tolist() == [0, 4999, 1, 0]
    assert choices.take(np.array([1])).columns["x"].values[[0, -1]].tolist() == [1, 5000]


@settings(deadline=None)
@given(st.data())
def test_take_keeps_each_set_whole_in_the_order_asked(data):
    table, _ = data.draw(tables_and_orders())
    choices = sw.read(table, set="s", chosen="c")
    wanted = data.draw(st.lists(st.integers(0, len(choices) - 1), min_size=1, unique=True))
    part = choices.take(np.array(wanted))
    assert part.set_ids.tolist() == choices.set_ids[wanted].tolist()
    assert contents(part) == {str(name): contents(choices)[str(name)] for name in part.set_ids}


def test_limit_leaves_sets_out_whole():
    choices = sw.read(
        {"s": [1, 2, 2, 3, 3, 3], "x": range(6), "c": [1, 0, 1, 1, 0, 0]}, set="s", chosen="c"
    )
    assert choices.limit(max_items=2).set_ids.tolist() == [1, 2]
    assert choices.limit(min_items=2).set_ids.tolist() == [2, 3]
    assert choices.limit(2, 2).columns["x"].values.tolist() == [1, 2]
    assert choices.limit(2, 2).chosen.tolist() == [1]
    with pytest.raises(InputError, match=r"no set has 4 to any number of items.* 1 to 3"):
        choices.limit(min_items=4)


def test_sample_draws_whole_sets_once_by_its_seed():
    choices = sw.datasets.generate("mnl", sets=60, items=(1, 4)).choices
    one, same, other = (choices.sample(20, seed) for seed in (3, 3, 4))
    assert one.set_ids.tolist() == same.set_ids.tolist() != other.set_ids.tolist()
    assert len(set(one.set_ids)) == 20
    whole = contents(choices, "x0")
    assert all(whole[name] == items for name, items in contents(one, "x0").items())
    assert choices.sample(60) is choices.sample(1000) is choices


# Choices, and what to do where there is none or more than one

IRREGULAR = {"s": [1, 1, 2, 2, 3, 3], "x": [1.0, 2, 3, 4, 5, 6], "c": [0, 1, 0, 0, 1, 1]}


def read_irregular(**options):
    return sw.read(IRREGULAR, set="s", chosen="c", **options)


def test_irregular_sets_can_be_dropped_and_are_counted():
    choices = read_irregular(on_none="drop", on_multiple="drop")
    assert choices.set_ids.tolist() == [1]
    assert choices.dropped == Dropped(without_choice=1, several_choices=1)
    assert choices.rows.tolist() == [0, 1]


def test_outside_option_takes_the_sets_without_a_choice():
    choices = read_irregular(on_none="outside", on_multiple="drop")
    assert choices.outside
    assert choices.set_ids.tolist() == [1, 2]
    assert choices.chosen.tolist() == [1, 2]  # the second: one past the set's two items
    assert choices.sizes.tolist() == [2, 2]
    assert choices.dropped == Dropped(several_choices=1)


def test_no_sets_left_is_an_error():
    table = {"s": [1, 1], "x": [1.0, 2.0], "c": [1, 1]}
    with pytest.raises(InputError, match="no set is left"):
        sw.read(table, set="s", chosen="c", on_multiple="drop")


@pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame])
def test_duplicated_rows_are_dropped_or_kept_as_asked(frame):
    rows = [0, 1, 2, 3, 2, 2]
    table = frame({name: [values[row] for row in rows] for name, values in small().items()})
    dropped = sw.read(table, set="s", chosen="c", on_duplicate="drop")
    assert_same(dropped, read_small())
    assert dropped.dropped == Dropped(duplicate_rows=2)
    kept = sw.read(table, set="s", on_duplicate="keep", items=["x"])
    assert kept.sizes.tolist() == [2, 4]
    assert kept.dropped == Dropped()


def test_rows_that_differ_in_a_column_without_a_role_are_no_duplicates():
    table = pl.DataFrame(small(x=[1.0, 1.0, 3.0, 3.0], c=[0, 1, 0, 1], name=list("abcd")))
    assert len(sw.read(table, set="s", chosen="c", items=["x"]).rows) == 4


def test_columns_that_pandas_cannot_compare_do_not_matter():
    lists = pd.DataFrame(small(extra=[[1], [2], [3], [3]]))
    assert_same(sw.read(lists, set="s", chosen="c", items=["x"]), read_small())
    repeated = pd.concat([lists, lists.iloc[:1]])
    assert sw.read(
        repeated, set="s", chosen="c", items=["x"], on_duplicate="drop"
    ).dropped == Dropped(duplicate_rows=1)


def test_chosen_may_be_booleans_and_may_be_absent():
    assert read_small(c=[False, True, True, False]).chosen.tolist() == [1, 0]
    assert sw.read(small(), set="s", items=["x"]).chosen is None


# Weights, context, group and time: one value a set


def test_weights_context_group_and_time_are_stored_once_a_set():
    table = small(w=[2, 2, 0.5, 0.5], age=[30, 30, 40, 40], user=list("aabb"), at=[5, 5, 3, 3])
    order = [2, 0, 3, 1]
    shuffled = {name: [values[row] for row in order] for name, values in table.items()}
    choices = sw.read(
        shuffled, set="s", chosen="c", items=["x"], context=["age"],
        weight="w", group="user", time="at",
    )  # fmt: skip
    assert choices.set_ids.tolist() == [2, 1]
    assert choices.weight.tolist() == [0.5, 2]
    assert choices.context["age"].values.tolist() == [40, 30]
    assert choices.group.tolist() == ["b", "a"]
    assert choices.time.tolist() == [3, 5]


def test_a_missing_context_value_is_constant_within_its_set():
    table = small(age=[np.nan, np.nan, 40, 40], kind=[None, None, "a", "a"])
    choices = sw.read(
        table, set="s", chosen="c", items=["x"], context=["impute(age)", "impute(kind)"]
    )
    assert choices.context["age"].missing.tolist() == [True, False]
    assert choices.context["kind"].missing.tolist() == [True, False]


def test_expressions_are_split_at_commas_outside_parentheses():
    assert expressions("a, log(b),impute(sqrt(c)) ,") == ["a", "log(b)", "impute(sqrt(c))"]
    assert expressions("category(brand, name),x") == ["category(brand, name)", "x"]


def test_a_csv_column_that_is_whole_for_long_is_read_by_its_last_row(tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "ROWS_TO_LOOK_AT", 4)
    rows = [f"{i // 2},{i % 2},{i},,a" for i in range(10)]
    path = tmp_path / "late.csv"
    path.write_text("s,c,x,gaps,name\n" + "\n".join([*rows, "5,1,1.5,2.5,b", "5,0,2.5,3,b"]))
    choices = sw.read(path, set="s", chosen="c", items=["x", "impute(gaps)", "name"])
    assert choices.columns["x"].values[-2:].tolist() == [1.5, 2.5]
    assert choices.columns["gaps"].kind == "number"
    assert choices.columns["gaps"].values[-2:].tolist() == [2.5, 3.0]
    assert choices.columns["name"].levels == ("a", "b")


def test_categories_may_be_dates_and_numbers_of_any_size():
    dates = np.array(["2024-01-02", "2024-01-01", "NaT", "2024-01-01"], "M8[D]")
    column = sw.read(small(x=dates), set="s", chosen="c", items=["impute(category(x))"]).columns[
        "x"
    ]
    assert column.text().tolist() == ["2024-01-02", "2024-01-01", None, "2024-01-01"]
    large = sw.read(small(x=[1e300, 3.0, 3.0, 4.0]), set="s", chosen="c", items=["category(x)"])
    assert large.columns["x"].text().tolist() == ["1e+300", "3.0", "3.0", "4.0"]


def test_ids_are_no_lists():
    frame = pl.DataFrame(small()).with_columns(s=pl.Series([[1], [1], [2], [2]]))
    with pytest.raises(sw.InputError, match=r"set column 's' has type List.*ids are numbers, text"):
        sw.read(frame, set="s", chosen="c")
