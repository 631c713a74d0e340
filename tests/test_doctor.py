"""The data doctor: each finding has a table that shows it and one that does not; errors are what
``read`` refuses, and nothing else."""

import datetime as dt
import gzip
import itertools
import json

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import setwise as sw
from beside import DATA, needs
from setwise.choices import save_choices
from setwise.doctor import Examination, Finding, TableSummary, examine, source, write_page
from setwise.doctor.derived import derived
from setwise.doctor.leaks import giveaways

REAL = DATA / "expedia_full.parquet"
ROLES = {"set": "trip", "chosen": "taken"}


def healthy(sets=60, items=4):
    """A table in which there is nothing to find."""
    rng = np.random.default_rng(0)
    taken = np.zeros((sets, items), int)
    taken[np.arange(sets), rng.integers(items, size=sets)] = 1
    rows = sets * items
    return pl.DataFrame(
        {
            "trip": np.repeat(np.arange(sets), items),
            "taken": taken.reshape(-1),
            "price": rng.uniform(10, 20, rows).round(2),
            "stars": rng.integers(1, 6, rows),
            "brand": rng.choice(["A", "B", "C"], rows),
        }
    )


TABLE = healthy()
TAKEN = TABLE["taken"].to_numpy().astype(bool)
ROWS = len(TABLE)
PLACE = np.arange(ROWS)


def with_column(values, name="x"):
    return TABLE.with_columns(pl.Series(name, values, strict=False))


def changed(name, rows, value):
    values = TABLE[name].to_list()
    for row in rows:
        values[row] = value
    return with_column(values, name)


def found(table, code, **roles):
    examination = examine(table, **(ROLES | roles))
    return [one for one in examination.findings if one.code == code]


def only(table, code, **roles):
    """The one finding of this code."""
    (one,) = found(table, code, **roles)
    return one


def test_a_healthy_table_has_no_finding():
    examination = examine(TABLE, **ROLES)
    assert examination.findings == ()
    assert examination.verdict == "0 errors, 0 warnings, 0 notes"


def test_the_summary_counts_sets_items_and_choices():
    frame = pl.DataFrame(
        {"trip": [1, 1, 2, 2, 2, 3, 3], "taken": [0, 1, 1, 0, 0, 1, 0], "x": range(7)}
    )
    assert examine(frame, **ROLES).summary == TableSummary(
        7, 3, 3, 3, 2, 2.0, 7 / 3, 3, ((2, 2, 2), (3, 3, 1))
    )


def test_bars_cover_all_sets_of_very_different_sizes():
    sizes = np.array([1, 2, 3, 50, 1000])
    ids = np.repeat(np.arange(5), sizes)
    frame = pl.DataFrame({"trip": ids, "taken": 0, "x": np.arange(len(ids))})
    bars = examine(frame, **ROLES).summary.histogram
    assert sum(sets for _, _, sets in bars) == 5
    assert (bars[0][0], bars[-1][1]) == (1, 1000)
    assert all(one[1] + 1 == after[0] for one, after in itertools.pairwise(bars))


# What reading refuses

NOON = dt.datetime(2024, 5, 1)
DAYS = [dt.date(2024, 1, 1) + dt.timedelta(days=i) for i in range(ROWS)]
CODES_AS_TEXT = [str(i % 7) for i in range(ROWS)]
PRICES_AS_TEXT = [f"{i % 7},50 €" for i in range(ROWS)]

REFUSED = {
    "empty-table": TABLE.head(0),
    "set-missing": changed("trip", [5, 6], None),
    "duplicate-rows": pl.concat([TABLE, TABLE.filter(~TAKEN)[8:10]]),
    "chosen-values": changed("taken", [3], 2),
    "no-choice": changed("taken", np.flatnonzero(TAKEN)[[4, 7]], 0),
    "several-choices": changed("taken", [0, 1, 2, 3], 1),
    "missing": changed("price", [9], None),
    "infinite": changed("price", [9, 11], np.inf),
    "type": with_column([[1, 2]] * ROWS),
    "numbers-as-text": with_column(["NULL" if i % 9 == 0 else str(i / 3) for i in range(ROWS)]),
}


@pytest.mark.parametrize("code", REFUSED)
def test_errors_are_found_where_read_refuses(code):
    table = REFUSED[code]
    assert all(one.severity == "error" for one in found(table, code))
    assert found(table, code)
    with pytest.raises(sw.InputError):
        sw.read(table, **ROLES)


@pytest.mark.parametrize(
    ("code", "rows", "count"),
    [
        ("set-missing", (5, 6), 2),
        ("chosen-values", (3,), 1),
        ("missing", (9,), 1),
        ("infinite", (9, 11), 2),
        ("no-choice", (16, 28), 2),
        ("several-choices", (0, 1, 2, 3), 1),
        ("numbers-as-text", (0,), 27),
    ],
)
def test_findings_name_rows(code, rows, count):
    one = only(REFUSED[code], code)
    assert (one.rows, one.count) == (rows, count)


def test_rows_are_those_of_the_table_when_sets_lie_apart():
    order = np.random.default_rng(1).permutation(ROWS)
    shuffled = changed("price", [9], None)[order]
    one = only(shuffled, "missing")
    assert (one.rows, one.sets) == ((int(np.argmax(order == 9)),), ("2",))


def test_examples_are_few_and_the_count_is_of_all():
    one = only(changed("price", range(100), None), "missing")
    assert (one.rows, one.count, one.sets) == ((0, 1, 2, 3, 4), 100, ("0", "1"))


def test_a_missing_chosen_value_counts_as_not_chosen_for_the_other_checks():
    table = TABLE.with_columns(taken=pl.when(pl.col("taken") == 1).then(1))
    examination = examine(table, **ROLES)
    assert [one.code for one in examination.errors] == ["chosen-values"]


@pytest.mark.parametrize("values", [["yes"] * ROWS, ["1"] * ROWS, DAYS, [[1]] * ROWS])
def test_a_chosen_column_that_is_no_number_is_an_error(values):
    table = with_column(values, "taken")
    assert [one.code for one in examine(table, **ROLES).errors] == ["chosen-values"]


@pytest.mark.parametrize(
    ("table", "items", "code"),
    [
        (TABLE.with_columns(x=pl.col("price") - 15), ["log(x)"], "wrong-transform"),
        (TABLE.with_columns(x=pl.col("price") - 15), ["sqrt(x)"], "wrong-transform"),
        (TABLE, ["log(brand)"], "wrong-transform"),
        (with_column(DAYS).with_columns(pl.col("x").replace(DAYS[7], None)), ["x"], "missing"),
        (TABLE.with_columns(pl.lit(None).alias("x")), ["x"], "missing"),
        (TABLE.with_columns(x=pl.lit(dt.time(1))), ["x"], "type"),
        (with_column(CODES_AS_TEXT), ["x"], "numbers-as-text"),
        (with_column(PRICES_AS_TEXT), ["x"], "numbers-as-text"),
        (with_column([str(day) for day in DAYS]), ["x"], "dates-as-text"),
    ],
)
def test_expressions_and_types_that_read_refuses(table, items, code):
    assert only(table, code, items=items).severity == "error"
    with pytest.raises(sw.InputError):
        sw.read(table, **ROLES, items=items)


def test_log_of_zero_is_cured_by_log1p():
    table = TABLE.with_columns(x=pl.col("price").round() - 10)
    assert "log1p(x)" in only(table, "wrong-transform", items=["log(x)"]).remedy
    assert found(table, "wrong-transform", items=["log1p(x)"]) == []


def test_context_that_varies_is_an_error():
    one = only(TABLE, "context-varies", context=["stars"])
    assert (one.severity, one.column) == ("error", "stars")
    steady = TABLE.with_columns(stars=pl.col("trip") % 5)
    assert found(steady, "context-varies", context=["stars"]) == []


READ_OPTIONS = {
    "no-choice": {"on_none": "drop"},
    "several-choices": {"on_multiple": "drop"},
    "duplicate-rows": {"on_duplicate": "drop"},
}


@pytest.mark.parametrize("code", READ_OPTIONS)
def test_the_option_in_the_remedy_makes_read_accept(code):
    (option, value), *_ = READ_OPTIONS[code].items()
    table = REFUSED[code]
    assert f'{option}="{value}"' in only(table, code).remedy
    assert sw.read(table, **ROLES, **READ_OPTIONS[code])


@pytest.mark.parametrize(
    ("table", "code", "items"),
    [
        (REFUSED["missing"], "missing", ["impute(price)"]),
        (with_column(CODES_AS_TEXT), "numbers-as-text", ["category(x)"]),
    ],
)
def test_the_expression_in_the_remedy_makes_read_accept(table, code, items):
    assert items[0] in only(table, code).remedy
    assert sw.read(table, **ROLES, items=items)
    assert examine(table, **ROLES, items=items).errors == ()


def test_equal_rows_of_a_mapping_may_be_different_items():
    columns = {name: TABLE[name].to_numpy() for name in ("trip", "taken", "stars")}
    columns["stars"] = np.zeros(ROWS)
    assert found(columns, "duplicate-rows") == []
    assert found(pl.DataFrame(columns), "duplicate-rows")


# What reading takes, and a model should not

RNG = np.random.default_rng(2)
NOISE = RNG.normal(size=ROWS)
OTHER_SETS = np.repeat(RNG.normal(size=ROWS // 4), 4)
LEAKING_LEVEL = np.where(TAKEN, "sold", RNG.choice(["new", "old"], ROWS))
SUSPICIOUS = {
    "constant": (np.full(ROWS, 3.0), "warning"),
    "constant-within-sets": (OTHER_SETS, "warning"),
    "position": (PLACE % 4 + 1, "warning"),
    "identifier": (None, "warning"),
    "skew": (np.exp(1.5 * NOISE), "note"),
    "outliers": (np.where(PLACE == 17, 1e6, NOISE), "warning"),
    "rare-levels": (["odd" if i == 5 else "even" for i in range(ROWS)], "note"),
    "copy-of-chosen": (np.where(PLACE == 0, 0, TAKEN).astype(int), "warning"),
    "collinear": (-3 * TABLE["price"].to_numpy() + OTHER_SETS, "warning"),
}


def table_with(code):
    values, _ = SUSPICIOUS[code]
    if code == "identifier":
        return TABLE.with_columns(x_id=pl.Series(RNG.integers(1, 30, ROWS))), "x_id"
    return with_column(values), "x"


@pytest.mark.parametrize("code", SUSPICIOUS)
def test_suspicions_are_found_in_tables_that_read_accepts(code):
    table, name = table_with(code)
    one = only(table, code)
    assert (one.column, one.severity) == (name, SUSPICIOUS[code][1])
    assert one.remedy
    assert examine(table, **ROLES).errors == ()
    assert sw.read(table, **ROLES)


WAYS_TO_LEAK = {
    "largest": np.where(TAKEN, 10, 0) + NOISE,
    "smallest": np.where(TAKEN, -10, 0) + NOISE,
    "only value": np.where(TAKEN, np.abs(NOISE), np.nan),
    "no value": np.where(TAKEN, np.nan, np.abs(NOISE)),
    "level": LEAKING_LEVEL,
    "middle code": np.where(TAKEN, 2, RNG.choice([1, 3], ROWS)),
}


@pytest.mark.parametrize("way", WAYS_TO_LEAK)
def test_leaks_are_found(way):
    one = only(with_column(WAYS_TO_LEAK[way]), "leak", items=["impute(x)"])
    assert (one.severity, one.column) == ("warning", "x")


def test_a_mark_on_the_chosen_item_and_on_a_few_others_is_a_leak():
    large = healthy(items=20)
    others = np.random.default_rng(0).random(len(large)) < 0.04
    clicked = large["taken"].cast(pl.Boolean) | pl.Series(others)
    one = only(large.with_columns(clicked=clicked), "leak")
    alone = (clicked.to_numpy().reshape(60, 20).sum(1) == 1).mean()
    assert 0.3 < alone < 0.6
    assert f"in {100 * alone:.2g} %; it is told from 98 % of the other items" in one.message


def test_a_leak_in_some_sets_only_is_found_there():
    booked = TAKEN & (PLACE < ROWS // 2)
    one = only(with_column(booked * 50.0 + 3), "leak")
    assert "30 sets" in one.message


@pytest.mark.parametrize(
    "values",
    [
        np.where(TAKEN, 1, 0) + NOISE,  # a good feature, no more
        RNG.permutation(ROWS).astype(str).astype(object) + "x",  # names that occur once
        np.where(RNG.random(ROWS) < 0.3, np.nan, NOISE),
    ],
)
def test_features_that_help_or_name_items_are_no_leak(values):
    table = with_column(values)
    assert found(table, "leak", items=["impute(x)"]) == []
    assert found(table, "copy-of-chosen", items=["impute(x)"]) == []


def test_where_the_choice_is_unknown_no_leak_is_told():
    table = with_column(WAYS_TO_LEAK["largest"]).with_columns(taken=pl.col("taken") * 2)
    assert found(table, "leak") == []


@pytest.mark.parametrize(
    "values",
    [
        RNG.integers(1, 6, ROWS),
        np.where(PLACE % 4 == 0, 1, PLACE % 4 + 1)[RNG.permutation(ROWS)],
        PLACE % 4 + 7,
    ],
)
def test_ratings_are_no_position(values):
    assert found(with_column(values), "position") == []


def test_positions_with_gaps_are_positions():
    gaps = np.array([1, 2, 4, 6])
    shuffled = np.concatenate([RNG.permutation(gaps) for _ in range(ROWS // 4)])
    assert only(with_column(shuffled), "position")


def test_flags_and_counts_are_no_identifiers():
    for values in (PLACE % 2, RNG.poisson(300, ROWS)):
        assert found(with_column(values), "identifier") == []


def test_evenly_spread_whole_numbers_look_like_identifiers():
    big = healthy(sets=600)
    numbers = np.random.default_rng(0).integers(0, 10**6, len(big))
    assert only(big.with_columns(x=pl.Series(numbers)), "identifier").severity == "note"


def test_a_category_with_rare_levels_only_is_a_warning():
    names = [f"hotel {i}" for i in range(ROWS)]
    one = only(with_column(names), "rare-levels")
    assert (one.severity, one.count) == ("warning", ROWS)
    assert "240 in one row only" in one.message


@pytest.mark.parametrize(
    ("values", "remedy"),
    [
        (np.exp(1.5 * NOISE), "use log(x)"),
        (np.floor(np.exp(1.5 * NOISE)), "use log1p(x)"),
        (-np.exp(1.5 * NOISE), "clip"),
    ],
)
def test_the_remedy_for_skew_depends_on_sign_and_zero(values, remedy):
    assert remedy in only(with_column(values), "skew").remedy


def test_a_transform_cures_skew_and_outliers():
    table = with_column(np.exp(1.5 * NOISE))
    assert found(table, "skew", items=["log(x)"]) == []
    assert found(table, "outliers", items=["log(x)"]) == []


def test_near_multiples_are_not_collinear():
    noisy = 2 * TABLE["price"].to_numpy() + 0.2 * NOISE
    assert found(with_column(noisy), "collinear") == []


def test_missing_values_that_are_imputed_are_a_note():
    assert only(REFUSED["missing"], "missing", items=["impute(price)"]).severity == "note"


def test_nothing_to_impute_from_is_a_warning():
    table = TABLE.with_columns(x=pl.lit(None, pl.Float64))
    assert only(table, "empty", items=["impute(x)", "stars"]).severity == "warning"


def test_sets_of_one_item():
    one = only(TABLE.filter((pl.col("trip") > 0) | (pl.col("taken") == 1)), "one-item-sets")
    assert (one.severity, one.sets, one.count) == ("warning", ("0",), 1)


def test_sets_whose_rows_lie_apart_are_a_note():
    apart = pl.concat([TABLE[1:], TABLE[:1]])
    one = only(apart, "rows-apart")
    assert (one.severity, one.rows, one.count) == ("note", (ROWS - 1,), 1)


def test_two_columns_of_one_name_in_a_file(tmp_path):
    path = tmp_path / "trips.csv"
    path.write_text("trip,taken,x,x\n1,0,3,4\n1,1,5,7\n")
    with pytest.raises(sw.InputError, match=r"several columns named 'x' \(numbers 3, 4\)"):
        examine(path, set="trip", chosen="taken")


# Where tables come from


@pytest.mark.parametrize("suffix", ["parquet", "csv", "csv.gz"])
def test_files_are_examined_as_frames_are(suffix, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "BYTES_AT_ONCE", 1)  # one column a pass
    table = with_column([None if i == 5 else day for i, day in enumerate(DAYS)])
    table = table.with_columns(late=pl.Series([None] * 200 + [1.5] * (ROWS - 200)))
    path = tmp_path / f"trips.{suffix}"
    if suffix == "parquet":
        table.write_parquet(path)
    else:
        text = table.write_csv().encode()
        path.write_bytes(gzip.compress(text) if suffix == "csv.gz" else text)
    expected = examine(table, **ROLES)
    assert expected.errors
    assert examine(path, **ROLES).findings == expected.findings


@pytest.mark.parametrize("value", ['"{}"', '"{},5"', '"n{}"', "{}.5", "{}e5"])
def test_the_types_of_a_csv_file_are_those_of_read(value, tmp_path):
    path = tmp_path / "trips.csv"
    lines = [f"{i // 2},{i % 2},{value.format(i)}" for i in range(20)]
    path.write_text("\n".join(["trip,taken,x", *lines]))
    assert (examine(path, **ROLES).errors == ()) == accepts(path, ROLES)


@pytest.mark.parametrize("late", ["1.5", "+5", "NULL", "2024-01-01", "inf", "true"])
def test_a_late_value_changes_the_type_of_a_column_as_it_does_for_read(late, tmp_path):
    path = tmp_path / "trips.csv"
    lines = [f"{i // 2},{i % 2},{i}" for i in range(2 * source.HEAD)]
    path.write_text("\n".join(["trip,taken,x", *lines, f"x,0,{late}", "x,1,7"]))
    assert (examine(path, **ROLES).errors == ()) == accepts(path, ROLES)


def test_pandas_frames_are_examined_as_polars_frames_are():
    pandas = pytest.importorskip("pandas")
    table = changed("price", [3], None)
    columns = {name: table[name].to_numpy() for name in table.columns}
    frame = pandas.DataFrame(columns | {"kind": pandas.Categorical(["a", "b"] * (ROWS // 2))})
    codes = [(one.code, one.rows) for one in examine(frame, **ROLES).findings]
    assert codes == [("missing", (3,))]


@pytest.mark.parametrize(
    ("table", "roles", "complaint"),
    [
        (TABLE, {"set": "tripp"}, "set column 'tripp' is not in the table"),
        (TABLE, {"items": ["cost"]}, "item column 'cost' is not in the table"),
        (TABLE, {"items": []}, "must be the name of a column, or a list of names"),
        (TABLE, {"items": ["price", "log(price)"]}, "named twice"),
        (TABLE, {"items": ["trip"]}, "is the set column"),
        (TABLE, {"chosen": None}, r"chosen= \(--chosen\) is missing"),
        (TABLE, {"context": ["popularity(stars)"]}, "popularity is for items"),
        (7, {}, "cannot read choices from int"),
        ("no such file.csv", {}, "there is no file"),
        ({"trip": [1, 2], "taken": [1]}, {}, "differ in length"),
    ],
)
def test_bad_arguments_are_refused(table, roles, complaint):
    with pytest.raises(sw.InputError, match=complaint):
        examine(table, **(ROLES | roles))


@pytest.mark.parametrize(
    ("content", "complaint"), [(b"", "is empty"), (b"trip,taken,x\n1,0,3\n1,1,4,5\n", "cannot be")]
)
def test_files_that_are_no_table_are_refused(content, complaint, tmp_path):
    path = tmp_path / "trips.csv"
    path.write_bytes(content)
    with pytest.raises(sw.InputError, match=complaint):
        examine(path, **ROLES)


# Files of choices


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "trips.setwise-data"
    table = with_column(WAYS_TO_LEAK["largest"]).with_columns(
        steady=pl.Series(OTHER_SETS), mood=pl.Series(OTHER_SETS).round()
    )
    save_choices(sw.read(table, **ROLES, context=["mood"]), path)
    return path


def test_stored_choices_are_examined(stored):
    examination = examine(stored)
    codes = {(one.code, one.column) for one in examination.findings}
    assert codes == {("leak", "x"), ("constant-within-sets", "steady")}
    assert (examination.summary.sets, examination.summary.choices) == (60, 60)


def test_of_very_many_choices_a_sample_is_examined(stored, monkeypatch):
    monkeypatch.setattr("setwise.doctor.all_checks.MOST_ROWS", ROWS // 2)
    examination = examine(stored)
    codes = {(one.code, one.column) for one in examination.findings}
    assert codes == {("leak", "x"), ("constant-within-sets", "steady"), ("sample", None)}
    assert (examination.summary.sets, examination.summary.choices) == (60, 60)


def test_an_altered_file_of_choices_is_refused(stored, tmp_path):
    altered = bytearray(stored.read_bytes())
    altered[len(altered) // 2] ^= 1
    copy = tmp_path / stored.name
    copy.write_bytes(altered)
    with pytest.raises(sw.InputError):
        examine(copy)


def test_roles_and_a_file_that_knows_them_are_refused(stored):
    with pytest.raises(sw.InputError, match="knows the roles"):
        examine(stored, set="trip")


def test_taking_the_outside_option_is_no_error():
    choices = sw.read(REFUSED["no-choice"], **ROLES, on_none="outside")
    examination = examine(choices)
    assert examination.findings == ()
    assert examination.summary.choices == 58


# Any table

WORDS = st.sampled_from(["red", "blue", "7", "1e5", "NULL", " 3", "2024-01-01", "é"])
NUMBERS = st.sampled_from([0.0, 1.0, 2.5, -3.0, 1e300, np.nan, np.inf])
DATES = st.dates(dt.date(1950, 1, 1), dt.date(2100, 1, 1))
TIMES = st.datetimes(dt.datetime(1950, 1, 1), dt.datetime(2100, 1, 1))
TYPES = [
    (NUMBERS, pl.Float64), (st.integers(-3, 3), pl.Int64), (st.booleans(), pl.Boolean),
    (WORDS, pl.String), (WORDS, pl.Categorical), (DATES, pl.Date), (TIMES, pl.Datetime),
    (st.lists(st.integers(0, 1), max_size=2), pl.List(pl.Int64)), (st.nothing(), pl.Null),
    (st.times(), pl.Time), (st.binary(max_size=2), pl.Binary),
]  # fmt: skip
NAMES = (pl.Int64, pl.Boolean, pl.String, pl.Categorical)
FORMS = ["{}", "{}", "{}", "log({})", "sqrt({})", "impute({})", "category({})", "impute(log1p({}))"]


@st.composite
def columns(draw, rows, simple=False):
    values, dtype = draw(st.sampled_from(TYPES[:7] if simple else TYPES))
    gaps = st.none() if dtype == pl.Null or draw(st.integers(0, 4)) == 0 else st.nothing()
    drawn = draw(st.lists(values | gaps, min_size=rows, max_size=rows))
    return pl.Series(drawn, dtype=dtype)


@st.composite
def tables(draw, simple=False):
    """A small table that is often sound, with the arguments to read it."""
    sizes = draw(st.lists(st.integers(1, 4), max_size=4))
    rows = sum(sizes)
    taken = [int(place == 0) for size in sizes for place in range(size)]
    if rows and draw(st.integers(0, 3)) == 0:
        taken[draw(st.integers(0, rows - 1))] = draw(st.sampled_from([0, 1, 2, None]))
    ids = [number for number, size in enumerate(sizes) for _ in range(size)]
    frame = {"trip": pl.Series(ids, dtype=pl.Int64), "taken": pl.Series(taken, dtype=pl.Int64)}
    if draw(st.integers(0, 4)) == 0:
        frame["trip"] = draw(columns(rows, simple=True))
    if draw(st.integers(0, 4)) == 0:
        frame["taken"] = draw(columns(rows, simple=True))
    names = [f"x{i}" for i in range(draw(st.integers(0, 3)))]
    for name in names:
        frame[name] = draw(columns(rows, simple))
    frame["line"] = pl.Series(range(rows), dtype=pl.Int64)
    if draw(st.integers(0, 4)) == 0:
        del frame["line"]  # without which rows may repeat
    table = pl.DataFrame(frame)
    if rows and draw(st.booleans()):
        table = table[draw(st.permutations(range(rows)))]
    roles = dict(ROLES)
    if draw(st.booleans()):
        forms = {name: draw(st.sampled_from(FORMS)) for name in table.columns[2:]}
        roles["items"] = [
            (form if "category" not in form or table[name].dtype in NAMES else "{}").format(name)
            for name, form in forms.items()
        ]
    if names and draw(st.integers(0, 3)) == 0:
        roles["context"] = [names[0]]
        roles["items"] = [name for name in table.columns[2:] if name != names[0]]
    return table, roles


def accepts(table, roles):
    try:
        sw.read(table, **roles)
    except sw.InputError:
        return False
    return True


def finds_no_error(table, roles):
    try:
        examination = examine(table, **roles)
    except sw.InputError:
        return False
    json.dumps(examination.to_json())
    assert str(examination)
    return not examination.errors


@settings(max_examples=300, deadline=None)
@given(tables())
def test_errors_are_exactly_what_read_refuses(drawn):
    table, roles = drawn
    assert finds_no_error(table, roles) == accepts(table, roles)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tables(simple=True))
def test_errors_of_csv_files_are_exactly_what_read_refuses(tmp_path, drawn):
    table, roles = drawn
    path = tmp_path / "trips.csv"
    table.write_csv(path)
    assert finds_no_error(path, roles) == accepts(path, roles)


@settings(max_examples=60, deadline=None)
@given(tables(simple=True))
def test_errors_of_mappings_are_exactly_what_read_refuses(drawn):
    table, roles = drawn
    arrays = {name: np.array(table[name].to_list(), dtype=object) for name in table.columns}
    assert finds_no_error(arrays, roles) == accepts(arrays, roles)


@st.composite
def odd_tables(draw):
    """Columns of any type in every role."""
    rows = draw(st.integers(0, 6))
    return pl.DataFrame({name: draw(columns(rows)) for name in ("trip", "taken", "x0", "x1")})


@settings(max_examples=150, deadline=None)
@given(odd_tables())
def test_no_table_is_too_odd_to_examine(table):
    examination = examine(table, **ROLES)
    assert json.dumps(examination.to_json(), default=str)
    assert examination.errors or examination.summary.sets > 0


# The page, and real data


def test_the_page_is_whole_and_escaped(tmp_path):
    finding = Finding(
        "error", "missing", "column '<b>' is missing", "fill & go", "<b>", (1,), ("2",), 9
    )
    examination = Examination(
        "<script>", TableSummary(9, 2, 1, 1, 9, 9.0, 9.0, 9, ((9, 9, 1),)), (finding,)
    )
    write_page(examination, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert "column &#39;&lt;b&gt;&#39; is missing" in page
    assert "fill &amp; go" in page
    assert "http" not in page
    assert page.rstrip().endswith("</html>")


def test_a_page_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(sw.InputError, match="there is no folder"):
        write_page(examine(TABLE, **ROLES), tmp_path / "no" / "page.html")


def test_columns_are_told_as_they_are_examined():
    told = []
    examine(TABLE, **ROLES, on_column=lambda *step: told.append(step))
    assert told == [("price", 0, 3), ("stars", 1, 3), ("brand", 2, 3)]


@needs("expedia_full.parquet")
def test_the_leaks_and_the_position_of_expedia_are_found():
    examination = examine(REAL, set="srch_id", chosen="click_bool")
    by_code = {(one.code, one.column) for one in examination.findings}
    assert {
        ("leak", "gross_bookings_usd"), ("leak", "booking_bool"), ("position", "position"),
        ("identifier", "prop_id"), ("constant-within-sets", "srch_length_of_stay"),
        ("skew", "price_usd"), ("missing", "prop_review_score"), ("several-choices", None),
    } <= by_code  # fmt: skip
    assert {column for code, column in by_code if code == "leak"} == {
        "gross_bookings_usd", "booking_bool",
    }  # fmt: skip
    of_bookings = examine(REAL, set="srch_id", chosen="booking_bool").findings
    assert {one.column for one in of_bookings if one.code == "leak"} == {
        "gross_bookings_usd", "click_bool",
    }  # fmt: skip


# The answer on every row


def wide_to_long(sets=200, seed=0):
    """What ``pd.wide_to_long`` leaves: the answer stands beside the alternatives on every row."""
    rng = np.random.default_rng(seed)
    modes = np.array(["bus", "car", "rail"])
    choice = rng.choice(3, p=[0.2, 0.5, 0.3], size=sets)
    return pl.DataFrame(
        {
            "trip": np.repeat(np.arange(sets), 3),
            "alt": np.tile(modes, sets),
            "price": rng.uniform(1, 9, 3 * sets).round(3),
            "purpose": np.repeat(rng.integers(1, 4, sets), 3),
            "choice": np.repeat(modes[choice], 3),
            "taken": np.eye(3, dtype=int)[choice].ravel(),
        }
    )


LONG = wide_to_long()
NUMBER = pl.col("choice").replace_strict({"bus": 1, "car": 2, "rail": 3})
ANSWERS = {
    "a name": (LONG, "equals 'alt' of the chosen item"),
    "a number beside names": (LONG.with_columns(choice=NUMBER), "with 'alt' it tells"),
    "names in other words": (LONG.with_columns(choice=pl.col("choice") + "!"), "with 'alt' it"),
    "a number beside its text": (
        LONG.with_columns(
            choice=NUMBER, alt=pl.col("alt").replace({"bus": "1x", "car": "2x", "rail": "3x"})
        ),
        "with 'alt' it tells",
    ),
    "a number beside dummies": (
        LONG.with_columns(
            choice=NUMBER, is_bus=(pl.col("alt") == "bus") * 1, is_car=(pl.col("alt") == "car") * 1
        ).drop("alt"),
        "with 'is_bus', 'is_car' it tells",
    ),
    "the place of the row": (LONG.with_columns(choice=NUMBER).drop("alt"), "at which place"),
    "what was paid": (
        LONG.with_columns(choice=(pl.col("price") * pl.col("taken")).max().over("trip")),
        "equals 'price' of the chosen item",
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("context", [(), ("choice", "purpose")])
def test_a_column_that_holds_the_answer_is_a_leak(name, context):
    table, message = ANSWERS[name]
    one = only(table, "leak", context=context)
    assert (one.severity, one.column) == ("warning", "choice")
    assert message in one.message
    assert one.remedy == "leave 'choice' out of items and context"
    advised = {f.column for f in found(table, "constant-within-sets", context=context)}
    assert advised == (set() if context else {"purpose"})
    told = giveaways(sw.read(table, **ROLES, context=context))
    assert [finding.column for finding in told] == ["choice"]


SOUND = {
    "the table without the answer": LONG.drop("choice"),
    "an id for each set": LONG.with_columns(choice=pl.col("trip") * 7 % 200),
    # Nine choices of each person, who always takes the same: few sets share a value.
    "loyal people": wide_to_long().with_columns(choice=pl.col("trip") // 3),
    "an answer with one error": LONG.with_columns(
        choice=pl.when(pl.col("trip") == 150).then(pl.lit("bus")).otherwise("choice"),
        taken=pl.when(pl.col("trip") == 150).then((pl.col("alt") == "car") * 1).otherwise("taken"),
    ),
    # By chance each price goes with one brand: seen once or twice each.
    "prices of few sets": LONG.head(45).with_columns(choice=pl.col("trip") % 11),
    "what nearly all take": LONG.with_columns(taken=(pl.col("alt") == "car") * 1).drop("alt"),
    "one value for all": LONG.with_columns(choice=pl.lit(2)),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_columns_are_not_called_answers(name):
    table = SOUND[name]
    answers = [one for one in found(table, "leak") if "gives the choice away" in one.message]
    assert answers == [] or name == "what nearly all take"
    if name != "what nearly all take":
        assert giveaways(sw.read(table, **ROLES)) == []


def test_repeated_sets_do_not_make_an_answer():
    """Drawn again, as a bootstrap does: the same people choose the same."""
    choices = sw.read(LONG.with_columns(choice=pl.col("trip") * 1.0), **ROLES, context=["choice"])
    again = np.random.default_rng(0).integers(len(choices), size=2 * len(choices))
    assert giveaways(choices.take(again)) == []


@pytest.mark.parametrize("name", ["swissmetro", "modecanada"])
def test_real_data_hold_no_answer(name):
    assert giveaways(sw.datasets.load(name)) == []
    table, roles = sw.datasets.table(name), sw.datasets.roles(name)
    rest = [n for n in table.columns if n not in (roles["set"], roles["chosen"])]
    assert giveaways(sw.read(table, set=roles["set"], chosen=roles["chosen"], items=rest)) == []


@pytest.mark.parametrize("name", ["mnl", "decoy", "mixed", "nested"])
def test_generated_data_hold_no_answer(name):
    for sets in (20, 300):
        assert giveaways(sw.datasets.generate(name, sets=sets).choices) == []


def test_what_tells_the_choice_by_itself_is_told_at_fit_only_without_error():
    for values in WAYS_TO_LEAK.values():
        choices = sw.read(with_column(values), **ROLES, items=["impute(x)", "price"])
        assert [one.column for one in giveaways(choices)] == ["x"]
    wrong = np.where(PLACE < 4, -1, 1) * (np.where(TAKEN, 10, 0) + NOISE)  # but in one set
    assert giveaways(sw.read(with_column(wrong), **ROLES, items=["x"])) == []


# Columns that are made of others


def made_table(sets=80):
    rng = np.random.default_rng(0)
    rows = 3 * sets
    taken = np.eye(3, dtype=int)[rng.integers(3, size=sets)].ravel()
    return pl.DataFrame(
        {
            "trip": np.repeat(np.arange(sets), 3),
            "taken": taken,
            "price": rng.uniform(1, 9, rows),
            "speed": rng.uniform(2, 5, rows),
            "mode": np.tile(["bus", "car", "rail"], sets),
            "is_car": np.tile([0, 1, 0], sets),
            "income": np.repeat(rng.uniform(1, 3, sets), 3),
        }
    )


MADE = {
    "'price' × 'speed'": pl.col("price") * pl.col("speed"),
    "'price' × 'income'": pl.col("price") * pl.col("income") * 100,
    "'price' × (mode = car)": pl.when(pl.col("mode") == "car").then("price").otherwise(0.0),
    "'price' / 'income'": pl.col("price") / pl.col("income"),
    "'speed' / 'price'": pl.col("speed") / pl.col("price"),
    "'price'²": (pl.col("price") - 4) ** 2,
    "the logarithm of 'price'": pl.col("price").log(),
    "the root of 'price'": pl.col("price").sqrt() * 3 + 1,
    "1 / 'price'": 1 / pl.col("price"),
    "a multiple of 'price'": 5 - 2 * pl.col("price"),
    "a sum of 'price' and 'speed'": pl.col("price") + 0.5 * pl.col("speed"),
    "'price' × 'speed', up to": ((pl.col("price") - 5) * (pl.col("speed") - 3)).round(4),
}


@pytest.mark.parametrize("relation", MADE)
def test_columns_that_are_made_of_others_are_found(relation):
    table = made_table().with_columns(made=MADE[relation])
    items = ["price", "speed", "mode", "made"]
    choices = sw.read(table, **ROLES, items=items, context=["income"])
    told = derived(choices, ["price"])
    assert [(one.column, one.of) for one in told] == [("made", "price")]
    assert relation in str(told[0])
    notes = found(table, "made-of-others", items=items, context=["income"])
    linear = "multiple" in relation or "sum" in relation
    assert [one.column for one in notes] == ([] if linear else ["made"])
    assert all(one.severity == "note" for one in notes)


def test_products_with_columns_that_are_not_there_are_found():
    table = made_table().with_columns(made=pl.col("price") * pl.col("income"))
    choices = sw.read(table, **ROLES, items=["price", "made"])
    assert "× what is the same for all items of a set" in str(derived(choices)[0])
    table = made_table().with_columns(made=pl.col("price") * pl.col("is_car"))
    choices = sw.read(table, **ROLES, items=["price", "made"])
    assert "in some rows and 0 in the others" in str(derived(choices)[0])


@pytest.mark.parametrize("name", ["swissmetro", "modecanada"])
def test_real_data_have_no_column_that_is_made_of_others(name):
    assert derived(sw.datasets.load(name)) == []


@pytest.mark.parametrize("name", ["mnl", "decoy", "mixed", "nested"])
def test_generated_data_have_no_column_that_is_made_of_others(name):
    for sets in (10, 200):
        assert derived(sw.datasets.generate(name, sets=sets).choices) == []


def test_noisy_products_and_few_values_are_not_made_of_others():
    rng = np.random.default_rng(0)
    noise = pl.Series(rng.normal(size=240))
    table = made_table().with_columns(
        noisy=pl.col("price") * pl.col("speed") + 0.05 * noise,
        level=(pl.col("is_car") * 2 + 1.0),
    )
    assert derived(sw.read(table, **ROLES)) == []


# Many zeros


def test_a_dummy_interacted_column_has_no_outliers():
    """A cost that counts for one mode of five only: zero in most rows, usual in the others."""
    cost = np.where(PLACE % 5 == 0, RNG.normal(100, 15, ROWS), 0.0)
    for sign in (1, -1):
        table = with_column(sign * cost)
        assert found(table, "outliers") == []
        assert found(table, "skew") == []
    one = only(with_column(np.where(PLACE == 5, 1e6, cost)), "outliers")
    assert one.rows == (5,)


def test_no_transform_is_advised_that_would_fail(monkeypatch):
    # Rows that are not looked at may be zero.
    monkeypatch.setattr("setwise.doctor.columns.SAMPLE", 40)
    values = np.exp(2 * np.abs(NOISE)) + 1
    for worst, remedy in ((0.0, "use log1p(x)"), (-1.0, "clip x"), (1.0, "use log(x)")):
        values[1] = worst  # 40 of 240 rows at even distances: 0, 6, 12, ...
        one = only(with_column(values), "skew")
        assert remedy in one.remedy
        if remedy.startswith("use"):
            assert sw.read(with_column(values), **ROLES, items=[remedy.removeprefix("use ")])
