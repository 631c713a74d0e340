"""The data door: any table gives the same Choices, and rows may come in any order."""

import datetime as dt
import inspect
import io
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import setwise as sw
from setwise import InputError
from setwise.choices import Dropped, expressions, read_like, table_files, text_values

read_as_users_do = inspect.unwrap(sw.read)  # without the checks of types that tests have

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
    several = "a, log(b),impute(sqrt(c)) ,"
    assert expressions("items", several) == ["a", "log(b)", "impute(sqrt(c))"]
    assert expressions("items", "category(brand, name),x") == ["category(brand, name)", "x"]
    assert expressions("items", ["a,b", "c"]) == ["a", "b", "c"]
    assert expressions("items", " , ") == []
    for hole in ("a,,b", ",a", "a,b,,"):
        with pytest.raises(InputError, match=f"--items '{hole}' has a comma with nothing before"):
            expressions("items", hole)


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


# Numbers and dates as text

WRITTEN = {
    "decimal commas": (["12,50", "3,10", "7,5", "0,99"], "decimal commas", 'decimal=","'),
    "european": (["1.234,56", "2.001,00", "999,10", "3,5"], "points between", "remove the points"),
    "dollars": (["$1.20", "$3", "$2.50", "-$7"], "a currency sign", "strip the currency sign"),
    "euros": (["€ 3", "€ 4,5", "7 €", "€ 9"], "decimal commas and a currency", "strip"),
    "codes": (["1.20 USD", "3 USD", "USD 4", "5 USD"], "a currency sign", "strip"),
    "thousands": (["1,234", "2,500", "12,345,678", "900"], "commas that may be", "remove the com"),
    "proven thousands": (["1,234.5", "2,500", "12", "900"], "commas between thousands", "remove"),
    "percent": (["5%", "6.5%", "7 %", "8%"], "a percent sign", "strip the percent sign"),
    "spaces": (["1 234,5", "22\u202f000", "3\u00a0100", "7"], "spaces between", "the spaces"),
    "apostrophes": (["1'000", "2’500.5", "900", "1"], "apostrophes between", "the apostrophes"),
    "parentheses": (["(3.50)", "4.00", "5.00", "(1.2)"], "parentheses for negative", "minus sign"),
    "minus": (["−1", "−2", "3", "4"], "a typographic minus", "write '-'"),
    "units": (["12 min", "15 min", "9 min", "1.5 min"], "a unit", "strip the unit"),
    "thousand": (["1k", "2k", "3.5k", "4K"], "'k' for thousands", "write the thousands out"),
    "with a gap": (["1,5", "NA", "2,5", "3,5"], "'NA' at row 1, which is not a", "decimal="),
    "plain": (["1", "2.5", "1e3", "+4"], "numbers written as text", "convert it to numbers"),
    "days": (["31/12/2020", "01/02/2020", "05.06.2020", "1-2-2021"], "looks like dates", "parse"),
    "ISO days": (["2020-01-02", "2020-02-03", "2020-1-4", "2020/05/06"], "like dates", "to_datet"),
    "named months": (["3 Jan 2020", "4 Feb 2020", "Mar 5, 2020", "6-Apr-20"], "dates", "parse"),
}


@pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame, dict])
@pytest.mark.parametrize(("values", "what", "remedy"), WRITTEN.values(), ids=WRITTEN)
def test_numbers_and_dates_as_text_are_refused_with_their_format(frame, values, what, remedy):
    with pytest.raises(InputError) as caught:
        sw.read(frame(small(x=values)), set="s", chosen="c")
    said = str(caught.value)
    assert said.startswith("column 'x' ")
    assert what in said
    assert remedy in said
    assert said.endswith("or use category(x) if they are names")
    named = sw.read(frame(small(x=values)), set="s", chosen="c", items=["category(x)"])
    assert named.columns["x"].text().tolist() == values


@pytest.mark.parametrize(
    "values",
    [
        ["A1", "B2", "C3", "A1"], ["3-star", "4-star", "3-star", "5-star"],
        ["2nd class", "1st class", "1st class", "2nd class"], ["1,2 beds", "3,4 beds", "1", "x"],
        ["12:30", "13:45", "9:00", "12:30"], ["SW1A 1AA", "1234 AB", "N1 9GU", "1010-220"],
        ["10-20", "20-30", "30+", "<10"], ["+49 170", "+49 171", "+49 172", "+49 170"],
        ["1.2.3", "1.3.0", "2.0.0", "2.0.0"], ["#1", "#2", "#3", "#1"], ["4g", "5g", "3g", "4g"],
        ["1/2", "3/4", "1/2", "1/4"], ["No 1", "No 2", "No 3", "No 1"], ["5%", "none", "a", "b"],
        ["2020-01", "2020-02", "2020-03", "2020-01"], ["40/13/2020", "99.99.2020", "x", "y"],
    ],
)  # fmt: skip
def test_names_with_digits_stay_names(values):
    column = read_small(x=values).columns["x"]
    assert column.text().tolist() == values


def test_many_names_are_told_from_many_numbers_quickly(monkeypatch):
    monkeypatch.setattr(text_values, "MANY_LEVELS", 10)
    monkeypatch.setattr(text_values, "LEVELS_LOOKED_AT", 5)
    sets, marks = np.repeat(np.arange(30), 2), np.tile([1, 0], 30)
    names = {"s": sets, "x": [f"hotel {i}" for i in range(60)], "c": marks}
    assert sw.read(names, set="s", chosen="c").columns["x"].kind == "category"
    for values, words in (("{},5", "decimal commas"), ("2{:03}-01-01", "looks like dates")):
        table = names | {"x": [values.format(i) for i in range(60)]}
        with pytest.raises(InputError, match=words):
            sw.read(table, set="s", chosen="c")


def test_text_that_was_names_in_training_is_names_in_prediction():
    plans = ["5%", "10%", "basic", "free"]
    schema = sw.Schema.fit(read_small(x=plans))
    new = read_like(schema, {"s": [1, 1], "x": ["5%", "10%"]})
    assert schema.encode(new).items.shape == (2, 4)
    with pytest.raises(InputError, match="numbers as text with a percent sign"):
        sw.read({"s": [1, 1], "x": ["5%", "10%"]}, set="s")


# CSV files as they are written elsewhere

GERMAN = "Fahrt;Preis in €;Ort;gewählt\n1;12,50;Köln;1\n1;1.5e1;Ulm;0\n2;3,25;Ulm;0\n2;4;Köln;1\n"


@pytest.mark.parametrize(
    ("name", "encoding", "options"),
    [
        ("a.csv", "utf-8", {"sep": ";"}),
        ("a.csv", "utf-8-sig", {"sep": ";"}),
        ("a.csv", "latin-1", {"sep": ";", "encoding": "cp1252"}),
        ("a.txt", "utf-16", {"sep": ";", "encoding": "utf-16"}),
        ("a.tsv", "utf-8", {}),
        ("a.csv", "utf-8", {"sep": "\\t"}),
    ],
)
def test_csv_files_are_read_with_their_separator_decimal_point_and_encoding(
    name, encoding, options, tmp_path
):
    tabs = name == "a.tsv" or options["sep"] == "\\t"
    text = GERMAN.replace("1.5e1", "15,0").replace(";", "\t" if tabs else ";")
    text = text.replace("€", "EUR") if encoding == "latin-1" else text
    (tmp_path / name).write_bytes(text.encode(encoding))
    choices = sw.read(tmp_path / name, set="Fahrt", chosen="gewählt", decimal=",", **options)
    price, town = choices.columns.values()
    assert price.values.tolist() == [12.5, 15.0, 3.25, 4.0]
    assert town.text().tolist() == ["Köln", "Ulm", "Ulm", "Köln"]
    assert next(iter(choices.columns)).startswith("Preis in ")


def test_quoted_decimal_commas_are_numbers_when_asked_for(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('s,x,c\n1,"1,5",0\n1,"2,5",1\n')
    choices = sw.read(path, set="s", chosen="c", decimal=",")
    assert choices.columns["x"].values.tolist() == [1.5, 2.5]


def test_csv_options_are_for_csv_files_only(tmp_path):
    pl.DataFrame(small()).write_parquet(tmp_path / "a.parquet")
    for table in (tmp_path / "a.parquet", small(), pl.DataFrame(small())):
        with pytest.raises(InputError, match="sep, decimal and encoding are for CSV files"):
            sw.read(table, set="s", chosen="c", sep=";")


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("s,x,c\n1,é,0\n".encode("latin-1"), {}, 'UTF-8 .line 2.*encoding="latin-1"'),
        ("s,é,c\n1,2,0\n".encode("latin-1"), {}, 'UTF-8 .line 1.*encoding="latin-1"'),
        ("s,x,c\n1,2,0\n".encode("utf-16"), {}, 'UTF-16; read it with encoding="utf-16"'),
        ("s,x,c\n1,2,0\n".encode("utf-16-le"), {}, 'encoding="utf-16-le"'),
        ("s,x,c\n1,é,0\n".encode("latin-1"), {"encoding": "utf-16"}, "not encoded as UTF-16"),
        (b"PK\x03\x04rest", {}, "is an Excel or zip file, not CSV"),
        (b"PAR1rest", {}, "is a Parquet file, not CSV"),
    ],
)
def test_files_in_another_encoding_or_format_say_so(content, options, words, tmp_path):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=words):
        sw.read(tmp_path / "a.csv", set="s", chosen="c", **options)


def test_a_late_byte_of_another_encoding_names_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "BYTES_TO_LOOK_AT", 20)
    (tmp_path / "a.csv").write_bytes("s,x,c\n1,a,0\n1,b,1\n2,a,1\n2,é,0\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"not encoded as UTF-8 \(line 5\)"):
        sw.read(tmp_path / "a.csv", set="s", chosen="c")


def test_dates_whose_order_is_certain_are_read_from_csv(tmp_path):
    path = tmp_path / "a.csv"
    for days in (["31/12/2020", "01/02/2020"], ["01.02.2020", "03.04.2020"], ["02/02/2020"] * 2):
        path.write_text(f"s,x,d,c\n1,1,{days[0]},0\n1,2,{days[1]},1\n")
        column = sw.read(path, set="s", chosen="c").columns["d"]
        wanted = [dt.datetime.strptime(day.replace(".", "/"), "%d/%m/%Y") for day in days]
        assert column.values.astype("M8[s]").tolist() == wanted


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("https://example.org/a.csv", "is an address; download the file first"),
        ("s,x\n1,2\n", "text of several lines, not a path"),
        ("x" * 5000 + ".csv", "cannot be a path: File name too long"),
        ("", "there is no file ''"),
        ("a\0b.csv", "there is no file|cannot be a path"),
        ("/dev/null", "neither .parquet nor .csv"),
    ],
)
def test_texts_that_are_no_paths_say_why(path, words):
    with pytest.raises(InputError, match=words):
        sw.read(path, set="s", chosen="c")


# Types


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pd.period_range("2020-01", periods=4, freq="M"), "type Period at row 0.*to_timestamp"),
        (pd.arrays.IntervalArray.from_breaks(range(5)), r"type Interval at row 0.*\.mid"),
        (pd.to_timedelta(np.arange(4), "h"), "(Duration|timedelta64).*(total_seconds|timedelta64)"),
        (np.arange(4).astype("m8[s]"), "total_seconds|timedelta64"),
        ([dt.timedelta(1), None, dt.timedelta(2), None], "total_seconds"),
        ([dt.time(1), dt.time(2), None, None], "type [tT]ime.*hour"),
        ([{"a": 1}, {"a": 2}, None, {}], "type dict at row 0.*each key a column"),
        ([[1], [2, 3], [], [4]], "list|lists"),
        ([{1}, {2}, {3}, {4}], "type set at row 0"),
        (np.array([b"a", b"b", b"c", b"a"], object), "type bytes at row 0.*decode"),
        ([1j, 2j, 3j, 4j], "complex128.*real and its imaginary"),
        (np.array(["a", 2, 3.5, "b"], object), r"mixes text \('a' at row 0\) and numbers \(2 at"),
        (np.array(["a", dt.date(2020, 1, 1), "b", "c"], object), "mixes text .* and dates"),
        (2**60 + np.arange(4), "beyond 2.*1152921504606846976 at row 0.*subtract"),
        (np.uint64(2**63) + np.arange(4, dtype=np.uint64), "beyond 2"),
        (np.array([10**20, 1, 10**20 + 1, 2], object), "100000000000000000000 at row 0"),
    ],
)
@pytest.mark.parametrize("frame", [pd.DataFrame, dict])
def test_values_that_are_no_features_are_refused_with_the_remedy(frame, column, words):
    if isinstance(column, np.ndarray) and column.dtype.kind == "m" and frame is pd.DataFrame:
        column = pd.Series(column)
    with pytest.raises(InputError, match=f"column 'x' .*({words})"):
        sw.read(frame(small(x=column)), set="s", chosen="c")


def test_large_numbers_beside_a_gap_are_refused_too():
    for frame in (pd.DataFrame, pl.DataFrame):
        values = [1, 2**60, 2**60 + 1, None]
        column = pd.array(values, dtype="Int64") if frame is pd.DataFrame else values
        with pytest.raises(InputError, match=r"column 'x' .* 1152921504606846976 at row 1"):
            sw.read(frame(small(x=column)), set="s", chosen="c", items=["impute(x)"])


def test_nested_columns_of_polars_are_refused_with_the_remedy():
    for values, remedy in (([{"a": 1}] * 4, "unnest"), ([b"a"] * 4, "cast"), ([[1]] * 4, "list")):
        with pytest.raises(InputError, match=f"column 'x' has type .*{remedy}"):
            sw.read(pl.DataFrame(small(x=values)), set="s", chosen="c")


@pytest.mark.parametrize(
    "values",
    [
        pd.arrays.SparseArray([0.0, 1.0, 0.0, 2.0]),
        pd.Categorical(["a", "b", "a", "b"], categories=["a", "b", "c"]),
        pd.array([1.5, 2.5, 0.5, 1.0], dtype="Float64"),
        np.arange(4).astype(np.float16),
        np.arange(4).astype(np.longdouble),
        2**60 + 1024 * np.arange(4),
        pd.cut(np.arange(4), 2),
    ],
)
def test_sound_types_are_read(values):
    assert len(sw.read(pd.DataFrame(small(x=values)), set="s", chosen="c")) == 2


def test_masked_values_are_missing():
    masked = np.ma.array([1, 2, 3, 4], mask=[False, True, False, False])
    choices = read_small(["impute(x)"], x=masked)
    assert choices.columns["x"].missing.tolist() == [False, True, False, False]
    words = np.ma.array(["a", "b", "c", "a"], mask=[False, True, False, False])
    assert read_small(["impute(x)"], x=words).columns["x"].text().tolist() == ["a", None, "c", "a"]
    days = np.ma.array(np.arange(4).astype("M8[D]"), mask=[False, True, False, False])
    for role, values in {
        "x": days,
        "s": masked,
        "c": np.ma.array([0, 1, 1, 0], mask=days.mask),
    }.items():
        with pytest.raises(InputError, match=rf"column '{role}' is (missing|nan) at row 1"):
            read_small(**{role: values})
    matrix = np.ma.array(np.ones((4, 2)), mask=np.eye(4, 2) > 0)
    with pytest.raises(InputError, match="column 'x0' is missing or not a number at row 0"):
        sw.read(matrix, set=[2, 2], chosen=[0, 1, 1, 0])
    hidden = np.ma.array([1, 1, 2, 2], mask=[False, False, True, False])
    with pytest.raises(InputError, match="set column 'set' is missing at row 2"):
        sw.read(np.ones((4, 2)), set=hidden, chosen=[0, 1, 1, 0])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (sparse.csr_matrix(np.ones((4, 2))), "sparse matrix .csr_matrix.*toarray"),
        (sparse.coo_array(np.ones((4, 2))), "sparse matrix .coo_array.*toarray"),
        ([[1.0, 2.0], [3.0, 4.0]], "from a list; make it a table with numpy.asarray"),
        ([{"s": 1, "x": 2.0}], "from a list; make it a table with polars.DataFrame"),
        ((one for one in [1]), "cannot read choices from generator; give a path"),
        (b"a.csv", "cannot read choices from bytes"),
        (io.StringIO("s,x"), "cannot read choices from StringIO"),
        (pd.Series([1.0]), "cannot read choices from Series"),
        ({"s": [1], "x": [1.0], 3: [1], "3": [2]}, "two columns of the mapping are named '3'"),
        (pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "s"), ("a", "x")])),
         "names must be text: join the levels"),
    ],
)  # fmt: skip
def test_objects_that_are_no_tables_say_what_to_do(table, words):
    with pytest.raises(InputError, match=words):
        sw.read(table, set=[1, 1, 2, 2], chosen=[0, 1, 0, 1])


def test_structured_arrays_are_tables_and_matrices_are_arrays():
    table = np.array(list(zip(*small().values(), strict=True)), dtype=[(n, float) for n in small()])
    assert_same(sw.read(table, set="s", chosen="c"), read_small(s=[1.0, 1, 2, 2]))


@pytest.mark.parametrize("name", ["items", "context"])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "=3 must be a list of column names"),
        ({"x"}, "must be a list of column names"),
        ({"x": 1}, "must be a list of column names"),
        (["x", None], r"\[1\]=None must be the name of a column"),
        ([3], r"\[0\]=3 must be the name of a column"),
        ([["x"]], r"\[0\]=\['x'\] must be the name of a column"),
        ([b"x"], r"\[0\]=b'x' must be the name of a column"),
    ],
)
def test_features_are_named_by_lists_of_text(name, given, words):
    with pytest.raises(InputError, match=f"{name}.*{words}"):
        read_as_users_do(small(), set="s", chosen="c", **{name: given})


def test_spaces_in_expressions_do_not_matter():
    for text in ("log( x )", " log(x)", "log (x)"):
        assert str(read_small([text]).roles.items[0]) == "log(x)"
    assert str(read_small([" x"]).roles.items[0]) == "x"


# Ids and moments


@pytest.mark.parametrize("frame", [pd.DataFrame, dict])
@pytest.mark.parametrize(
    "ids",
    [
        np.array([10**19, 10**19 + 1], np.uint64), [10**20, 10**20 + 1], [-(2**63) - 1, 2**63],
        [2**53 + 1, 2**53], [Decimal(1), Decimal(2)], [1.5, 2.5], ["a", "-"], ["x", 1],
    ],
)  # fmt: skip
def test_large_ids_stay_apart(frame, ids):
    several = [ids[0], ids[0], ids[1], ids[1]]
    several = np.array(several, ids.dtype) if isinstance(ids, np.ndarray) else several
    choices = sw.read(frame(small(s=several)), set="s", chosen="c")
    assert len(choices) == 2
    assert len({str(one) for one in choices.set_ids}) == 2


def test_ids_of_128_bits_stay_apart(tmp_path):
    (tmp_path / "a.csv").write_text(
        "".join(["s,x,c\n", *(f"{10**19 + i // 2},{i},{i % 2}\n" for i in range(6))])
    )
    choices = sw.read(tmp_path / "a.csv", set="s", chosen="c")
    assert choices.set_ids.tolist() == [str(10**19 + i) for i in range(3)]


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([1e19, 1e19, 2e19, 2e19], "set column 's' is 1e.19 at row 0.*beyond 2.*whole numbers"),
        ([1.0, 1.0, 2.0**53, 2.0**53], "is 9007199254740992 at row 2"),
        ([1.0, 1.0, np.inf, np.inf], "is infinite at row 2"),
        ([1, 1, "1", "1"], "has 1 both as text and as a number"),
        ([1j, 1j, 2j, 2j], "has type complex128; ids are numbers, text or dates"),
        ([{}, {}, {}, {}], "has type object; ids are numbers|value of type dict"),
    ],
)
def test_ids_that_cannot_be_told_apart_are_refused(ids, words):
    with pytest.raises(InputError, match=words):
        sw.read(small(s=ids), set="s", chosen="c")


@pytest.mark.parametrize(
    "moments",
    [
        ["2020-12-31", "2021-01-01"], ["2020-12", "2021-01"], ["2020Q4", "2021Q1"],
        ["2020-W52", "2021-W01"], ["20201231", "20210101"], ["2020", "2021"],
        ["2020-12-31 23:59:59", "2021-01-01 00:00:00"],
        [dt.date(2020, 12, 31), dt.date(2021, 1, 1)],
        np.array([9, 10], object), [Decimal(9), Decimal(10)], [9, 10], [9.5, 10.5],
        np.array([9, 10], "m8[s]"),
    ],
)  # fmt: skip
def test_moments_that_sort_are_taken(moments):
    early, late = moments
    several = [late, late, early, early]
    several = np.array(several, moments.dtype) if isinstance(moments, np.ndarray) else several
    choices = sw.read(small(at=several), set="s", chosen="c", items=["x"], time="at")
    first, second = sw.split(choices, (0.5, 0.5), by="time")
    assert (first.set_ids.tolist(), second.set_ids.tolist()) == ([2], [1])


@pytest.mark.parametrize(
    "moments",
    [
        ["31.12.2020", "01.01.2021"], ["12/31/2020", "01/01/2021"], ["Dec 2020", "Jan 2021"],
        ["9", "10"], ["wave 9", "wave 10"], ["before", "after"], ["20201231", "2021-01-01"],
        ["2020-12-31T23:00+02:00", "2020-12-31T23:00+01:00"],
    ],
)  # fmt: skip
def test_moments_that_sort_wrongly_are_refused(moments):
    several = [moments[0], moments[0], moments[1], moments[1]]
    with pytest.raises(InputError, match=r"time column 'at' is text .* sorts letter by letter"):
        sw.read(small(at=several), set="s", chosen="c", items=["x"], time="at")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            ["no", "yes", "yes", "no"],
            "holds text or categories, such as 'no' at row 0; it must hold 0 and 1",
        ),
        (["False", "True", "True", "False"], "such as 'False' at row 0"),
        (["0", "1", "1", "0"], "numbers written as text; convert it to numbers"),
        ([0, 2, 2, 0], "is 2 at row 1"),
        ([0, -1, -1, 0], "is -1 at row 1"),
        ([0, 0.5, 0.5, 0], "is 0.5 at row 1"),
        ([np.nan, 1, 1, np.nan], "is missing at row 0"),
        ([None, True, True, None], "is missing at row 0"),
        (np.arange(4).astype("M8[D]"), "holds dates, such as '1970-01-01"),
    ],
)
def test_chosen_is_0_and_1(values, words):
    with pytest.raises(InputError, match=f"column 'c' .*{words}"):
        read_small(c=values)
