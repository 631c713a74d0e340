"""Bad input: one sentence with cause, place and remedy, in the library and on the command line.

On the command line it is the only line on standard error, begins with "error:", comes with exit
code 2, and no file is left behind.
"""

import io
import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import safetensors.numpy

import setwise as sw
from setwise import InputError, estimators
from setwise.cli import main
from setwise.cli.datasets import write

GOOD = """\
trip,cost,brand,age,w,taken
1,3.5,red,30,1,0
1,1.0,blue,30,1,1
2,2.0,blue,40,2,1
2,5.0,red,40,2,0
3,2.5,red,50,1,0
3,1.5,red,50,1,0
3,4.0,blue,50,1,1
"""
ENOUGH = """\
4,3.0,red,30,1,1
4,1.0,blue,30,1,0
5,2.0,blue,40,2,0
5,5.0,red,40,2,1
"""  # choices that contradict the first ones, so that a logit has a maximum
HEAD = GOOD.splitlines()[0] + "\n"
ROLES = {"set": "trip", "chosen": "taken", "items": ["cost", "brand"]}


def good(old="", new=""):
    """The good table with one change."""
    assert old in GOOD
    return GOOD.replace(old, new, 1) if old else GOOD


# One table of cases: its text, the options to read it with, and what the message must hold.
TABLES = {
    "missing set column": (good("trip", "journey"), {}, ["set column 'trip'", "it has: journey"]),
    "missing chosen column": (good("taken", "t"), {}, ["chosen column 'taken'", "it has: trip"]),
    "missing item column": (good("cost", "price"), {}, ["item column 'cost'", "it has: trip"]),
    "missing context column": (GOOD, {"context": ["town"]}, ["context column 'town'", "it has:"]),
    "missing weight column": (GOOD, {"weight": "ww"}, ["weight column 'ww'", "it has:"]),
    "missing group column": (GOOD, {"group": "user"}, ["group column 'user'", "it has:"]),
    "missing time column": (GOOD, {"time": "when"}, ["time column 'when'", "it has:"]),
    "text in a number column": (
        good("2.0", "cheap"), {}, ["column 'cost'", "row 2 has 'cheap'", "correct it", "category"],
    ),
    "text among equal numbers": (
        "trip,cost,taken\n1,5,0\n1,n/a,1\n2,5,1\n2,5,0\n",
        {"items": ["cost"], "on_duplicate": "keep"},
        ["column 'cost'", "row 1 has 'n/a'", "correct it"],
    ),
    "blanks around numbers": (
        GOOD.replace("red", '"1"').replace("blue", '"2 "'), {"items": ["brand"]},
        ["column 'brand'", "with blanks around them, such as '2 ' at row 1", "remove the blanks"],
    ),
    "not a number": (
        good("2.0", "NaN"), {}, ["column 'cost'", "not a number at row 2", "impute(cost)"],
    ),
    "missing number": (good("2.0", ""), {}, ["column 'cost'", "at row 2", "impute(cost)"]),
    "two missing": (
        good("2.0", "").replace("5.0", ""), {}, ["'cost'", "row 2 (and 1 more)", "fill it"],
    ),
    "missing category": (
        good("2.0,blue", "2.0,"), {}, ["column 'brand' is missing at row 2", "impute(brand)"],
    ),
    "missing set": (good("2,5.0", ",5.0"), {}, ["set column 'trip' is missing at row 3", "every"]),
    "infinity": (good("5.0", "inf"), {}, ["column 'cost' is infinite at row 3", "replace it"]),
    "overflow": (good("5.0", "1e999"), {}, ["column 'cost' is infinite at row 3", "replace it"]),
    "log of zero": (
        good("5.0", "0.0"), {"items": ["log(cost)"]},
        ["column 'cost' is not positive at row 3", "use log1p(cost)"],
    ),
    "root of a negative": (
        good("5.0", "-1"), {"items": ["sqrt(cost)"]}, ["'cost' is negative at row 3", "at least 0"],
    ),
    "log of a category": (
        GOOD, {"items": ["log(brand)"]}, ["'log(brand)' needs numbers", "'brand' is a category"],
    ),
    "transformed twice": (
        GOOD, {"items": ["log(sqrt(cost))"]}, ["'log(sqrt(cost))'", "transforms 'cost' twice"],
    ),
    "named twice": (
        GOOD, {"items": ["cost"], "context": ["cost"]}, ["column 'cost' is named twice", "keep one"]
    ),
    "the chosen column as a feature": (
        GOOD, {"items": ["taken"]}, ["'taken' is the chosen column", "cannot be a feature"],
    ),
    "empty but for its head": (HEAD, {}, ["the table is empty", "at least one set"]),
    "empty": ("", {}, ["table.csv is empty", "needs a header and at least one set"]),
    "no choice": (
        good("blue,40,2,1", "blue,40,2,0"), {},
        ["set 'trip'=2 has no chosen item", 'on_none="drop"', 'on_none="outside"'],
    ),
    "two choices": (
        good("red,30,1,0", "red,30,1,1"), {}, ["set 'trip'=1 has 2 chosen", 'on_multiple="drop"'],
    ),
    "nothing left": (
        HEAD + "1,1,red,30,1,0\n1,2,red,30,1,0\n", {"on_none": "drop"}, ["no set is left"],
    ),
    "one item": (
        GOOD + "4,1.0,red,20,1,1\n", {},
        ["set 'trip'=4 has only one item", "limit(min_items=2)", "--min-items 2"],
    ),
    "chosen is 2": (
        good("blue,40,2,1", "blue,40,2,2"), {}, ["chosen column 'taken' is 2 at row 2", "0 or 1"],
    ),
    "chosen is missing": (
        good("blue,40,2,1", "blue,40,2,"), {},
        ["chosen column 'taken' is missing at row 2", "0 or 1"],
    ),
    "chosen is text": (
        good("blue,40,2,1", "blue,40,2,x"), {}, ["column 'taken'", "row 2 has 'x'", "correct it"],
    ),
    "chosen is words": (
        GOOD.replace(",1\n", ",yes\n").replace(",0\n", ",no\n"), {},
        ["chosen column 'taken' holds text", "must hold 0 and 1"],
    ),
    "duplicated rows": (
        good("2,2.0", "1,3.5,red,30,1,0\n2,2.0"), {},
        ["row 2 repeats", "set 'trip'=1", 'on_duplicate="drop"', 'on_duplicate="keep"'],
    ),
    "weight of zero": (
        GOOD.replace("40,2", "40,0"), {"weight": "w"}, ["column 'w' is not positive at row 2"],
    ),
    "weight that is missing": (
        good("40,2,1", "40,,1"), {"weight": "w"}, ["column 'w'", "at row 2", "fill it"],
    ),
    "weight that differs": (
        good("40,2,1", "40,3,1"), {"weight": "w"}, ["column 'w' differs", "'trip'=2", "constant"],
    ),
    "weight that is text": (
        GOOD, {"weight": "brand", "items": ["cost"]}, ["weight column 'brand' is a category"],
    ),
    "context that differs": (
        good("2.0,blue,40", "2.0,blue,41"), {"context": ["age"]},
        ["column 'age' differs within set 'trip'=2 (row 3)", "constant", "go in items"],
    ),
    "group that differs": (
        good("2.0,blue,40", "2.0,blue,41"), {"group": "age"}, ["'age' differs", "'trip'=2"],
    ),
    "a line too long": (
        good("2,2.0", "2,2.0,9"), {}, ["line 4 of", "has 7 values", "header has 6", "correct it"],
    ),
    "a line too short": (
        good("2,5.0,red,40,2,0", "2,5.0,red"), {},
        ["line 5 of", "has 3 values, but its header has 6", "correct it"],
    ),
    "a quote never closed": (
        good("2,5.0,red", '2,5.0,"red'), {}, ["quote that is never closed in line 5", "close it"],
    ),
    "a NUL byte": (good("3.5", "3\0.5"), {}, ["NUL byte in line 2", "remove it"]),
    "a column twice": (
        good("age", "cost"), {}, ["several columns named 'cost' (numbers 2, 4)", "rename one"],
    ),
    "no header": (
        "1,1,0\n1,2,1\n", {}, ["several columns named '1' (numbers 1, 2)", "add a header line"],
    ),
    "one column": ("nothing\n1\n", {}, ["one column only, 'nothing'", "with sep="]),
    "semicolons": (
        GOOD.replace(",", ";"), {}, ["looks semicolon-separated", 'sep=";"', '--sep ";"'],
    ),
    "tabs": (GOOD.replace(",", "\t"), {}, ["looks tab-separated", 'sep="\\t"', '--sep "\\t"']),
    "pipes": (GOOD.replace(",", "|"), {}, ["looks pipe-separated", 'sep="|"']),
    "spaces": (GOOD.replace(",", " "), {}, ["looks space-separated", 'sep=" "']),
    "another separator than said": (GOOD, {"sep": ";"}, ["looks comma-separated", 'sep=","']),
    "two characters between values": (GOOD, {"sep": "::"}, ["sep='::' must be one character"]),
    "a decimal star": (GOOD, {"decimal": "*"}, ["decimal='*' must be one of: ., ,"]),
    "an unknown encoding": (GOOD, {"encoding": "utf-9"}, ["encoding='utf-9'", "latin-1"]),
    "carriage returns": (GOOD.replace("\n", "\r"), {}, ["carriage returns alone", "line feeds"]),
    "decimal commas": (
        good("3.5", '"3,5"').replace("2.5", '"2,5"'), {},
        ["column 'cost' holds numbers as text with decimal commas", "'3,5' at row 0", 'decimal=","',
         "category(cost)"],
    ),
    "prices": (
        good("3.5", "$3.50").replace("2.5", "$2.50"), {},
        ["'cost' holds numbers as text with a currency sign", "strip the currency sign"],
    ),
    "months before days": (
        GOOD.replace("30,1", "12/31/2020,1"), {"items": ["age", "cost"]},
        ["column 'age'", "correct it"],
    ),
    "days or months": (
        GOOD.replace("30,1", "01/02/2020,1").replace("40,2", "03/04/2020,2")
        .replace("50,1", "05/06/2020,1"),
        {"context": ["age"]},
        ["column 'age' of", "'01/02/2020' at row 0", "day/month or month/day", "2020-02-01"],
    ),
    "years of two digits": (
        GOOD.replace("30,1", "31/12/20,1").replace("40,2", "01/02/20,2")
        .replace("50,1", "02/02/20,1"),
        {"context": ["age"]},
        ["column 'age' is before the year 1000 at row 0", "four digits"],
    ),
    "moments that sort as text": (
        GOOD.replace("30,1", "Dec 2020,1").replace("40,2", "Jan 2020,2")
        .replace("50,1", "Feb 2020,1"),
        {"time": "age"},
        ["time column 'age' is text such as 'Dec 2020' at row 0", "letter by letter", "2020-12-31"],
    ),
    "a column without a name": (
        good("age", ""), {"items": None}, ["column 4 of the table has no name", "index=False"],
    ),
    "log of a negative": (
        good("5.0", "-1"), {"items": ["log(cost)"]},
        ["column 'cost' is not positive at row 3", "take cost as it is, or shift it"],
    ),
    "log1p of a negative": (
        good("5.0", "-1"), {"items": ["log1p(cost)"]}, ["'cost' is negative", "take cost as it is"],
    ),
    "a parenthesis open": (
        GOOD, {"items": ["log(cost"]}, ["'log(cost' has a '(' without its ')'", "log(cost)"],
    ),
    "a parenthesis too many": (GOOD, {"items": ["log(cost))"]}, ["has a ')' too many", "remove"]),
    "an unknown function": (
        GOOD, {"items": ["exp(cost)"]}, ["uses exp()", "the functions are: log, log1p, sqrt"],
    ),
    "a function of nothing": (
        GOOD, {"items": ["category()"]}, ["'category()' names no column", "category(column)"],
    ),
    "a weight as feature": (
        GOOD, {"weight": "w", "items": ["w"]}, ["column 'w' is the weight", "cannot be a feature"],
    ),
    "the choice as group": (
        GOOD, {"group": "taken"}, ["column 'taken' is given as chosen= and as group="],
    ),
    "the set as weight": (GOOD, {"weight": "trip"}, ["'trip' is given as set= and as weight="]),
    "the set as choice": (GOOD, {"chosen": "trip"}, ["'trip' is given as set= and as chosen="]),
    "a weight too large": (
        GOOD.replace("40,2", "40,1e300"), {"weight": "w"}, ["'w' is outside 1e-30 to 1e30", "mean"],
    ),
    "rare that is not a number": (GOOD, {"rare": float("nan")}, ["rare=nan", "below 1"]),
    "names with spaces": (
        good("cost", "unit price"), {}, ["item column 'cost'", "it has: trip, 'unit price', brand"],
    ),
    "an empty selection": (GOOD, {"items": []}, ["no item features", "at least one column"]),
    "rare above one": (GOOD, {"rare": 2.0}, ["rare=2.0", "at least 0 and below 1"]),
}  # fmt: skip

cases = pytest.mark.parametrize(
    ("text", "options", "words"), TABLES.values(), ids=[name.replace(" ", "-") for name in TABLES]
)


@pytest.fixture
def refused(capsys, monkeypatch, tmp_path):
    """Run the command line; check how it refuses; give its one line."""

    def run(*arguments):
        before = sorted(tmp_path.rglob("*"))
        monkeypatch.setattr(sys, "argv", ["setwise", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert ended.value.code == 2, said
        assert said.out == ""
        assert said.err.startswith("error: ")
        assert said.err.count("\n") == 1
        assert said.err.endswith("\n")
        assert sorted(tmp_path.rglob("*")) == before
        return said.err

    return run


def flags(options):
    """The options of sw.read as the command line has them."""
    for name, value in options.items():
        if value is None:
            continue
        yield f"--{name.replace('_', '-')}"
        yield ",".join(value) if isinstance(value, list) else str(value)


def assert_says(message, words):
    for word in words:
        assert word in message


# Tables


@cases
def test_the_library_refuses_a_bad_table(text, options, words, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        sw.MNL().fit(sw.read(path, **ROLES | options))
    assert_says(str(caught.value), words)


@cases
def test_the_command_line_refuses_a_bad_table(text, options, words, tmp_path, refused):
    path = tmp_path / "table.csv"
    path.write_text(text)
    out = tmp_path / "model"
    roles = list(flags(ROLES | options))
    assert_says(refused("fit", path, *roles, "--model", "mnl", "--out", out), words)
    if "only one item" not in words[0]:  # a comparison may keep such sets for the test part
        report = tmp_path / "report.html"
        assert_says(refused("compare", path, *roles, "--models", "mnl", "--report", report), words)


@pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame, dict])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_numbers_are_found_in_every_kind_of_table(frame, bad):
    table = frame({"trip": [1, 1], "cost": np.array([1, bad]), "taken": [0, 1]})
    with pytest.raises(InputError, match=r"column 'cost' is .* at row 1"):
        sw.read(table, set="trip", chosen="taken")


def test_a_line_break_in_a_name_stays_on_one_line(tmp_path, refused):
    path = tmp_path / "table.csv"
    path.write_text(good("cost", '"co\nst"').replace("2.0", ""))
    said = refused("fit", path, "--set", "trip", "--chosen", "taken", "--out", tmp_path / "m")
    assert "column 'co st' is missing" in said


# Files that are no tables


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("table.parquet", b"these are no columns", ["cannot be read as a table", "write it again"]),
        ("table.csv", b"a,b\n\xff\xfe,1\n", ["not encoded as UTF-8 (line 2)", "latin-1"]),
        ("table.xlsx", b"PK", ["neither .parquet nor .csv", "convert it"]),
        ("gone.csv", None, ["there is no file", "check the path"]),
        (".", None, ["is a folder", "name a Parquet or CSV file"]),
    ],
)
def test_files_that_are_no_tables_are_refused(name, content, words, tmp_path, refused):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        sw.read(path, **ROLES)
    assert_says(str(caught.value), [str(path), *words])
    said = refused("fit", path, *flags(ROLES), "--out", tmp_path / "model")
    assert_says(said, [str(path), *words])


def test_a_truncated_parquet_file_is_refused(tmp_path, refused):
    path = tmp_path / "table.parquet"
    sw.datasets.table("modecanada").write_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    assert "cannot be read as a table" in refused(
        "fit", path, *flags(ROLES), "--out", tmp_path / "model"
    )


def test_a_mistyped_data_set_lists_the_names(tmp_path, refused):
    said = refused("fit", "swissmetr", "--out", tmp_path / "model")
    assert_says(said, ["no file or data set swissmetr", "swissmetro, modecanada"])
    with pytest.raises(InputError, match="no data set 'swissmetr'; there are: swissmetro"):
        write("swissmetr", tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (None, ["cannot read choices from NoneType", "give a path to Parquet or CSV"]),
        (pl.LazyFrame({"a": [1]}), ["from a LazyFrame", "call its .collect()"]),
        ({}, ["the table is empty"]),
        ({"trip": [1, 1], "cost": [1.0]}, ["the columns differ in length", "'cost': 1"]),
        ({"trip": [1, 1], "cost": 1.0}, ["column 'cost' is of type float", "one value per row"]),
        ({"trip": [1], "cost": np.ones((1, 2))}, ["column 'cost' has shape (1, 2)"]),
        (pd.DataFrame({"trip": [1], 7: [1.0]}), ["a column named 7", "names must be text"]),
        (pd.DataFrame([[1, 2]], columns=["trip", "trip"]), ["the same name", "rename one"]),
        (
            pl.DataFrame({"trip": [1], "cost": [[1, 2]], "brand": ["a"], "taken": [1]}),
            ["column 'cost' has type List", "give each element a column"],
        ),
    ],
)
def test_objects_that_are_no_tables_are_refused(table, words):
    with pytest.raises(InputError) as caught:
        sw.read(table, **ROLES)
    assert_says(str(caught.value), words)


@pytest.mark.parametrize(
    ("matrix", "options", "words"),
    [
        (np.ones(4), {"set": [4]}, ["has shape (4,)", "rows x features"]),
        (np.ones((4, 2)), {"set": "trip"}, ["set= has shape ()", "one value per row"]),
        (np.ones((4, 2)), {"set": [2, 3]}, ["set= has shape (2,)", "sizes that add up"]),
        (np.ones((4, 2)), {"set": [5, -1]}, ["set= has shape (2,)", "positive sizes"]),
        (np.ones((4, 2)), {"set": [4], "chosen": [1]}, ["chosen= has shape (1,)"]),
        (np.ones((4, 2)), {"set": [4], "items": ["a"]}, ["names 1 features", "matrix has 2"]),
        ({"x": [1]}, {"set": [1]}, ["set= must be the name of a column", "go with a matrix"]),
        ({"x": [1]}, {"set": None}, ["set= must be the name of a column"]),
        ({"x": [1]}, {"set": "x", "chosen": [1]}, ["chosen= must be the name of a column"]),
    ],
)
def test_vectors_that_do_not_fit_are_refused(matrix, options, words):
    with pytest.raises(InputError) as caught:
        sw.read(matrix, **options)
    assert_says(str(caught.value), words)


# Prediction


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A logit of cost and brand, saved; the file is read, never written."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "good.csv").write_text(GOOD)
    (folder / "train.csv").write_text(GOOD + ENOUGH)
    choices = sw.read(folder / "train.csv", **ROLES | {"items": ["log(cost)", "brand"]})
    sw.MNL().fit(choices).save(folder / "model.setwise")
    return folder / "model.setwise"


PREDICTIONS = {
    "unknown category": (
        good("5.0,red", "5.0,pink"),
        ["column 'brand' is 'pink' at row 3", "it had: blue, red", "other(brand)"],
    ),
    "missing feature": (good("cost", "price"), ["column 'cost' is missing", "was trained with it"]),
    "missing set column": (good("trip", "t"), ["set column 'trip'", "it has: t"]),
    "not a number": (good("5.0", "NaN"), ["column 'cost'", "not a number at row 3"]),
    "infinity": (good("5.0", "inf"), ["column 'cost' is infinite at row 3"]),
    "log of zero": (good("5.0", "0"), ["column 'cost' is not positive at row 3"]),
    "text in a number column": (good("5.0", "dear"), ["column 'cost'", "row 3 has 'dear'"]),
    "a category in a number column": (
        "trip,cost,brand,taken\n1,low,red,1\n1,high,red,0\n",
        ["'log(cost)' needs numbers, but column 'cost' is a category"],
    ),
    "numbers in a category": (
        GOOD.replace("red", "1").replace("blue", "2"),
        ["column 'brand' is a number here but was a category", "convert it", "category(brand)"],
    ),
    "empty": (HEAD, ["the table is empty"]),
    "semicolons": (GOOD.replace(",", ";"), ["looks semicolon-separated", 'sep=";"']),
    "decimal commas": (
        GOOD.replace("3.5", '"3,5"').replace("2.5", '"2,5"'),
        ["column 'cost' holds numbers as text with decimal commas", "'3,5' at row 0"],
    ),
}


def test_prediction_takes_extra_columns_and_sets_of_one_item(model):
    loaded = sw.load(model)
    alone = pl.read_csv(io.StringIO(GOOD)).with_columns(trip=pl.int_range(7), extra=pl.lit("x"))
    assert loaded.predict_proba(alone).tolist() == [1.0] * 7
    assert loaded.predict(alone).tolist() == [1] * 7
    assert loaded.predict_proba(alone.head(1)).tolist() == [1.0]


def test_values_that_a_model_cannot_compute_with_are_refused_on_every_way(tmp_path, refused):
    (tmp_path / "train.csv").write_text(GOOD + ENOUGH)
    path, file = tmp_path / "model.setwise", tmp_path / "new.parquet"
    model = sw.MNL().fit(sw.read(tmp_path / "train.csv", **ROLES))
    model.save(path)
    scorer = sw.scoring.load_scorer(path)
    frame = pl.read_csv(io.StringIO(GOOD))
    for value in (1e39, 1e300, -1e300):
        far = frame.with_columns(cost=pl.Series([3.5, 1.0, 2.0, value, 2.5, 1.5, 4.0]))
        words = ["column 'cost' is", "at row 3", "standard deviations", "correct it"]
        ways = (model.predict_proba, model.predict, model.rank, model.evaluate)
        for method in (*ways, scorer.predict_proba):
            with pytest.raises(InputError) as caught:
                method(far)
            assert_says(str(caught.value), words)
        far.write_parquet(file)
        assert_says(refused("predict", path, file, "--out", tmp_path / "p.parquet"), words)
        assert_says(refused("predict", path, file), words)
        assert_says(refused("evaluate", path, file), words)
    near = frame.with_columns(cost=pl.Series([3.5, 1e6, 2.0, -1e6, 2.5, 1.5, 4.0]))
    assert model.predict(near).sum() == 3
    for one in (model, scorer):
        assert one.predict_proba(near).sum() == pytest.approx(3)
    assert np.isfinite(model.evaluate(near).nll)


@pytest.mark.parametrize(("text", "words"), PREDICTIONS.values(), ids=PREDICTIONS)
def test_a_bad_table_is_refused_at_prediction(text, words, model, tmp_path, refused):
    path = tmp_path / "new.csv"
    path.write_text(text)
    loaded = sw.load(model)
    for method in (loaded.predict_proba, loaded.predict, loaded.rank, loaded.evaluate):
        with pytest.raises(InputError) as caught:
            method(path)
        assert_says(str(caught.value), words)
    assert_says(refused("predict", model, path, "--out", tmp_path / "p.csv"), words)
    assert_says(refused("evaluate", model, path), words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (good("taken", "t"), ["chosen column 'taken' is not in the table"]),
        (good("blue,40,2,1", "blue,40,2,0"), ["set 'trip'=2 has no chosen item"]),
        (good("red,30,1,0", "red,30,1,1"), ["set 'trip'=1 has 2 chosen items"]),
        (GOOD + GOOD.splitlines()[-1], ["row 7 repeats", 'on_duplicate="drop"']),
    ],
)
def test_evaluation_needs_one_choice_a_set(text, words, model, tmp_path, refused):
    path = tmp_path / "new.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        sw.load(model).evaluate(path)
    assert_says(str(caught.value), words)
    assert_says(refused("evaluate", model, path), words)


def test_an_outside_option_cannot_be_evaluated_by_a_model_without(model, tmp_path, refused):
    path = tmp_path / "new.csv"
    path.write_text(good("blue,40,2,1", "blue,40,2,0"))
    said = refused("evaluate", model, path, "--on-none", "outside")
    assert_says(said, ["trained without one", 'on_none="drop"'])


# Model files


def truncated(data):
    return data[: len(data) // 2]


def altered_weights(data):
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


def altered_header(data):
    place = 8 + struct.unpack("<Q", data[:8])[0] // 2
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


MODEL_FILES = {
    "truncated": (truncated, ["truncated", "restore a copy"]),
    "altered weights": (altered_weights, ["was altered", "checksum", "restore a copy"]),
    "altered header": (altered_header, ["bad.setwise"]),
    "foreign": (
        lambda _: safetensors.numpy.save({"w": np.zeros(2)}),
        ["is a safetensors file, but of something else", "name a model file"],
    ),
    "text": (lambda _: b"I am a model, trust me", ["is not a setwise model file"]),
    "empty": (lambda _: b"", ["is not a setwise model file"]),
    "absent": (None, ["there is no model file", "check the path"]),
}


@pytest.mark.parametrize(("damage", "words"), MODEL_FILES.values(), ids=MODEL_FILES)
def test_a_bad_model_file_is_refused(damage, words, model, tmp_path, refused):
    bad, table = tmp_path / "bad.setwise", model.with_name("good.csv")
    if damage is not None:
        bad.write_bytes(damage(model.read_bytes()))
    assert_says(refused("predict", bad, table, "--out", tmp_path / "p.csv"), [str(bad), *words])
    assert_says(refused("evaluate", bad, table), [str(bad), *words])


# Output paths, found before the work


def occupied(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe.csv")


OUTPUTS = {
    "no folder": ("none/out.csv", ["there is no folder", "create it first"]),
    "a file as folder": ("file/out.csv", ["there is no folder", "create it first"]),
    "a folder": ("folder.csv", ["it is a folder", "name a file in it"]),
    "a pipe": ("pipe.csv", ["it is a device or a pipe", "name a plain file"]),
    "a long name": ("x" * 300 + ".csv", ["File name too long", "choose another place"]),
}
outputs = pytest.mark.parametrize(("name", "words"), OUTPUTS.values(), ids=OUTPUTS)


@pytest.fixture
def no_work(monkeypatch):
    """Fitting, loading and reading a table must not be reached."""

    def reached(*_, **__):
        raise AssertionError("the output path was not checked before the work")

    for cls in estimators.CLASSES.values():
        monkeypatch.setattr(cls, "fit", reached)
    monkeypatch.setattr(estimators, "load", reached)
    monkeypatch.setattr("setwise.cli.tables.read_file", reached)


@outputs
@pytest.mark.usefixtures("no_work")
def test_an_unwritable_output_is_found_before_any_work(name, words, model, tmp_path, refused):
    occupied(tmp_path)
    table, out = model.with_name("good.csv"), tmp_path / name
    for command in (
        ["fit", table, *flags(ROLES), "--out", out],
        ["compare", table, *flags(ROLES), "--report", out],
        ["predict", model, table, "--out", out],
    ):
        assert_says(refused(*command), ["cannot write", str(out), *words])
    with pytest.raises(InputError) as caught:
        write("mnl", out)
    assert_says(str(caught.value), words)


@outputs
def test_the_library_refuses_to_save_there(name, words, model, tmp_path):
    occupied(tmp_path)
    loaded = sw.load(model)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError) as caught:
        loaded.save(tmp_path / name)
    assert_says(str(caught.value), words)
    assert sorted(tmp_path.rglob("*")) == before


def test_tables_are_written_as_parquet_or_csv_only(model, tmp_path, refused):
    said = refused("predict", model, model.with_name("good.csv"), "--out", tmp_path / "out.xlsx")
    assert "name a file that ends in .parquet or .csv" in said


# Options

OPTIONS = {
    "unknown model": (["fit", "--model", "oracle"], ["no model 'oracle'", "there are: mnl, sdw"]),
    "unknown models": (["compare", "--models", "mnl,oracle"], ["no model 'oracle'", "mnl, sdw"]),
    "no models": (["compare", "--models", ","], ["--models ','", "an empty name"]),
    "an empty name": (["compare", "--models", "mnl,,sda"], ["'mnl,,sda' has an empty name"]),
    "a name twice": (["compare", "--models", "mnl,sda,mnl"], ["names 'mnl' twice"]),
    "no columns": (["fit", "--items", ","], ["no item features"]),
    "no context": (["fit", "--context", ""], ["--context is empty"]),
    "sets of no size": (["fit", "--min-items", "0"], ["min_items=0", "at least 1"]),
    "a large seed": (["fit", "--seed", "99999999999"], ["seed=99999999999", "at most 4294967295"]),
    "a checkpoint in a file": (["fit", "--checkpoint", "/dev/null/x"], ["cannot write to"]),
    "a checkpoint nowhere": (["fit", "--checkpoint", "/proc/x"], ["cannot write to the folder"]),
    "no cluster": (["fit", "--model", "sdw", "--cluster=127.0.0.1:1"], ["no Ray cluster at"]),
    "unknown metric": (["compare", "--metric", "luck"], ["metric='luck'", "top1, top5", "nll"]),
    "no splits": (["compare", "--splits", "0"], ["splits=0", "at least 1"]),
    "no groups": (["compare", "--split-by", "group"], ["to split by group", "--group"]),
    "two splits by time": (
        ["compare", "--split-by", "time", "--time", "age", "--splits", "2"], ["only one split"],
    ),
    "too few sets": (["compare", "--models", "mnl", "--max-sets", "2"], ["split is empty", "more"]),
    "epochs of a logit": (["fit", "--model", "mnl", "--epochs", "3"], ["'mnl'", "no epochs"]),
    "no epochs": (["fit", "--model", "sdw", "--epochs", "0"], ["epochs=0", "at least 1"]),
    "a negative seed": (["compare", "--models", "mnl", "--seed", "-1"], ["seed=-1", "at least 0"]),
    "an empty sample": (["fit", "--max-sets", "0"], ["sets=0", "at least 1"]),
    "sets too large": (["fit", "--min-items", "9"], ["no set has 9 to any", "have 2 to 3"]),
    "sets too small": (["fit", "--max-items", "1"], ["no set has 1 to 1", "have 2 to 3"]),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "words"), OPTIONS.values(), ids=OPTIONS)
def test_bad_options_are_refused(arguments, words, model, tmp_path, refused):
    command, *options = arguments
    table = model.with_name("good.csv")
    out = ["--out", tmp_path / "model"] if command == "fit" else ["--report", tmp_path / "r.html"]
    assert_says(refused(command, table, *flags(ROLES), *options, *out), words)


@pytest.mark.parametrize("role", ["set", "chosen"])
def test_a_file_needs_the_names_of_its_columns(role, model, tmp_path, refused):
    roles = {name: ROLES[name] for name in ("set", "chosen") if name != role}
    said = refused("fit", model.with_name("good.csv"), *flags(roles), "--out", tmp_path / "m")
    assert f"--{role} is missing: name the {role} column of" in said


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda choices: choices.sample(0), ["sets=0", "at least 1"]),
        (lambda choices: choices.sample(2, seed=-1), ["seed=-1"]),
        (lambda choices: sw.compare(["oracle"], choices), ["no model 'oracle'"]),
        (lambda choices: sw.compare(["mnl"], choices, metric="luck"), ["metric='luck'"]),
        (lambda choices: sw.compare([], choices), ["no model to compare"]),
    ],
)
def test_bad_arguments_are_refused(call, words, tmp_path):
    (tmp_path / "good.csv").write_text(GOOD)
    with pytest.raises(InputError) as caught:
        call(sw.read(tmp_path / "good.csv", **ROLES))
    assert_says(str(caught.value), words)


def test_training_without_choices_says_how_to_read_them(tmp_path):
    (tmp_path / "good.csv").write_text(GOOD)
    unknown = sw.read(tmp_path / "good.csv", set="trip", items=["cost"])
    with pytest.raises(InputError, match="read them with chosen="):
        sw.MNL().fit(unknown)


# The real thing, in a process of its own


def test_the_program_ends_with_code_2_and_one_line(tmp_path):
    (tmp_path / "t.csv").write_text(good("2.0", "NaN"))
    command = [sys.executable, "-m", "setwise", "fit", "t.csv", *flags(ROLES), "--out", "model"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr == (
        "error: column 'cost' is missing or not a number at row 2; fill it, or use impute(cost)\n"
    )
    assert os.listdir(tmp_path) == ["t.csv"]
    assert Path(tmp_path / "t.csv").read_text() == good("2.0", "NaN")


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("2.0", "", {"row": 2, "column": "cost"}),
        ("5.0", "inf", {"row": 3, "column": "cost"}),
        ("2,5.0", ",5.0", {"row": 3, "column": "trip"}),
        ("5.0", "dear", {"row": 3, "column": "cost"}),
        ("blue,40,2,1", "blue,40,2,2", {"row": 2, "column": "taken"}),
        ("blue,40,2,1", "blue,40,2,0", {"set": 2}),
    ],
)
def test_errors_have_their_place_as_attributes(old, new, place, tmp_path):
    path = tmp_path / "trips.csv"
    path.write_text(good(old, new))
    with pytest.raises(InputError) as caught:
        sw.read(path, set="trip", chosen="taken")
    found = {name: getattr(caught.value, name) for name in ("row", "column", "set")}
    assert found == {"row": None, "column": None, "set": None} | place


def test_the_place_of_an_error_survives_pickling():
    error = InputError("column 'x' is missing at row 4; fill it", row=4, column="x", set="a")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert (copy.row, copy.column, copy.set) == (4, "x", "a")


def test_an_error_in_a_part_of_a_file_names_the_rows_of_the_file():
    mixed = {"trip": [1, 1, 2, 2], "x": ["a", 2, 3.5, "b"], "taken": [1, 0, 1, 0]}
    with pytest.raises(InputError) as caught:
        sw.read(mixed, set="trip", chosen="taken")
    moved = caught.value.within("trips.csv", [70, 71, 72, 73])
    assert str(moved).startswith("trips.csv: column 'x' mixes text ('a' at row 70) and numbers (2 ")
    assert "at row 71); make it one type" in str(moved)
    assert (moved.row, moved.column) == (70, "x")
