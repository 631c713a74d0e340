"""Wide tables: patterns, names, numbers and codes, availability, errors, and predictions."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import setwise as sw
from setwise.choices import Roles, WideLayout
from setwise.choices.layout import alternatives_in, feature_name
from setwise.cli import app
from setwise.doctor import examine
from setwise.scoring import load_scorer, predict_file, predict_wide

TRIPS = {
    "mode": ["car", "bus", "bus", "car", "rail", "bus"],
    "cost.bus": [2.0, 1.0, 4.0, 2.5, 3.0, 1.5],
    "cost.car": [3.0, 4.0, 3.0, 2.0, 6.0, 5.0],
    "cost.rail": [5.0, 4.5, None, 3.0, 2.0, 4.0],
    "bus_TT": [20, 15, 30, 25, 40, 10],
    "car_TT": [10, 20, 15, 10, 30, 20],
    "rail_TT": [15, 25, 20, 20, 15, 30],
    "rail_AV": [1, 1, 0, 1, 1, 1],
    "income": [5.0, 2.0, 3.0, 6.0, 4.0, 1.0],
    "who": ["Ann", "Ann", "Bob", "Bob", "Cy", "Cy"],
}
WIDE = {"chosen": "mode", "items": ["cost.{alt}", "{alt}_TT"], "available": "{alt}_AV"}


def read(table=TRIPS, **changed):
    return sw.read_wide(table, **(WIDE | changed))


def refusal(table=TRIPS, **changed) -> str:
    with pytest.raises(sw.InputError) as caught:
        read(table, **changed)
    return str(caught.value)


def run(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, f"{done.output}\n{done.exception!r}"
    return done.stdout


def same(one: sw.Choices, other: sw.Choices) -> None:
    """The same sets, values, context and choices; levels may have another order."""
    for name in ("offsets", "chosen", "weight", "group"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.columns.keys() == other.columns.keys()
    for mine, others in ((one.columns, other.columns), (one.context, other.context)):
        for name, column in mine.items():
            assert column.text().tolist() == others[name].text().tolist()


# Reading


@st.composite
def tables(draw):
    """A wide table with availability, and the same choices as a long one."""
    names = draw(st.lists(st.sampled_from(["a", "b1", "c_c", "d"]), min_size=2, unique=True))
    rows, wide, long = draw(st.integers(2, 5)), {}, []
    numbers = st.integers(-5, 5)
    for row in range(rows):
        here = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        chosen = draw(st.sampled_from(here))
        size, weight = draw(numbers), draw(st.integers(1, 3))
        for name, value in (
            ("took", chosen),
            ("size", size),
            ("weight", weight),
            ("who", row // 2),
        ):
            wide.setdefault(name, []).append(value)
        for name in names:
            there = name in here
            price, kind = draw(numbers), draw(st.sampled_from(["red", "blue"]))
            wide.setdefault(f"{name}.on", []).append(int(there))
            wide.setdefault(f"price_{name}", []).append(float(price) if there else None)
            wide.setdefault(f"kind_{name}", []).append(kind if there else None)
            if there:
                one = {"row": row, "price": float(price), "kind": kind, "alternative": name}
                taken = int(name == chosen)
                more = {"took": taken, "size": size, "weight": weight, "who": row // 2}
                long.append(one | more)
    return wide, {name: [one[name] for one in long] for name in long[0]}


@given(tables())
@settings(max_examples=25, deadline=None)
def test_a_wide_table_has_the_choices_of_the_long_one(both):
    wide, long = both
    roles = {"chosen": "took", "context": ["size"], "weight": "weight", "group": "who"}
    found = sw.read_wide(wide, items=["price_{alt}", "kind_{alt}"], available="{alt}.on", **roles)
    expected = sw.read(long, set="row", items=["price", "kind"], alternative="alternative", **roles)
    same(found, expected)
    assert found.set_ids.tolist() == expected.set_ids.tolist()
    assert found.rows.tolist() == long["row"]
    whole = [name for name in wide if name.endswith(".on")]
    assert found.levels("alternative") == tuple(name.removesuffix(".on") for name in whole)


def test_every_kind_of_table_gives_the_same(tmp_path):
    frame = pl.DataFrame(TRIPS)
    frame.write_csv(tmp_path / "trips.csv")
    frame.write_csv(tmp_path / "trips.tsv", separator="\t")
    frame.write_parquet(tmp_path / "trips.parquet")
    tables = [
        frame,
        pd.DataFrame(TRIPS),
        *(tmp_path / f"trips.{k}" for k in ("csv", "tsv", "parquet")),
    ]
    for table in tables:
        same(read(table, context=["income"], group="who"), read(context=["income"], group="who"))


def test_patterns_name_features():
    names = {"cost": "cost.{alt}", "time": "log({alt}_TT)"}
    assert [str(one) for one in read(items=names).roles.items] == ["cost", "log(time)"]
    assert [str(one) for one in read().roles.items] == ["cost", "TT"]
    patterns = ("a.b.{alt}", "{alt}", "pf{alt}", "{alt} cost", "q_{alt}_cost", "alt{alt}_cost")
    assert [*map(feature_name, patterns)] == ["a.b", "", "pf", "cost", "q_cost", "alt_cost"]


def test_a_column_belongs_to_the_pattern_that_says_most():
    columns = ["price_1", "price_2", "price_old_1", "price_old_2", "price_set"]
    both = ["price_{alt}", "price_old_{alt}"]
    assert alternatives_in(both, columns, ["price_set"]) == ["1", "2"]


def test_alternatives_are_ordered_by_the_columns_selected_and_ordered_by_the_user():
    assert read().levels("alternative") == ("bus", "car", "rail")
    assert read(alternatives=["rail", "car", "bus"]).levels("alternative") == ("rail", "car", "bus")
    two = {"mode": ["bus", "car"], "cost.bus": [1, 2], "cost.car": [2, 1], "cost.air": [9, 9]}
    found = sw.read_wide(two, chosen="mode", items="cost.{alt}", alternatives=["car", "bus"])
    assert found.sizes.tolist() == [2, 2]
    assert found.chosen.tolist() == [1, 0]


def test_numbered_alternatives_are_anonymous_unless_they_are_listed():
    table = {"choice": [2.0, 1.0], "pf1": [7.0, 3.0], "pf2": [9.0, 8.0]}
    found = sw.read_wide(table, chosen="choice", items=["pf{alt}"])
    assert found.roles.alternative is None
    assert [*found.columns] == ["pf"]
    assert found.chosen.tolist() == [1, 0]
    named = sw.read_wide(table, chosen="choice", items=["pf{alt}"], alternatives=[1, 2])
    assert named.levels("alternative") == ("1", "2")
    assert named.chosen.tolist() == [1, 0]


@pytest.mark.parametrize("codes", [[3, 1, 1], ["3", "1", "1"], [3.0, 1.0, 1.0]])
def test_codes_of_the_choice_column(codes):
    table = {"CHOICE": codes, "A_x": [1, 2, 3], "B_x": [3, 2, 1]}
    meaning = {1: "A", 3: "B"}
    found = sw.read_wide(table, chosen="CHOICE", items=["{alt}_x"], alternatives=meaning)
    assert found.chosen.tolist() == [1, 0, 0]


def test_rows_without_a_choice():
    table = {"c": [0, 1, 2, 9], "A_x": [1, 2, 3, 4], "B_x": [3, 2, 1, 4]}
    meaning = {1: "A", 2: "B", 9: None}
    dropped = sw.read_wide(
        table, chosen="c", items=["{alt}_x"], alternatives=meaning, on_none="drop"
    )
    assert dropped.set_ids.tolist() == [1, 2]
    assert dropped.rows.tolist() == [1, 1, 2, 2]
    assert dropped.dropped.without_choice == 2
    outside = sw.read_wide(
        table, chosen="c", items=["{alt}_x"], alternatives=meaning, on_none="outside"
    )
    assert outside.chosen.tolist() == [2, 0, 1, 2]
    with pytest.raises(sw.InputError, match=r"column 'c' is 0 at row 0 \(and 1 more\), .*on_none"):
        sw.read_wide(table, chosen="c", items=["{alt}_x"], alternatives=meaning)


def test_fill_gives_alternatives_without_a_column_a_number():
    table = {"mode": ["bus", "car"], "cost.bus": [2, 3], "cost.car": [4, 5], "wait.bus": [6, 7]}
    patterns = ["cost.{alt}", "wait.{alt}"]
    said = "pattern 'wait.{alt}' has no column for car"
    with pytest.raises(sw.InputError, match=said.replace("{", r"\{")) as caught:
        sw.read_wide(table, chosen="mode", items=patterns)
    assert "add wait.car, say with fill=0 what they get" in str(caught.value)
    found = sw.read_wide(table, chosen="mode", items=patterns, fill=0)
    assert found.columns["wait"].values.tolist() == [6, 0, 7, 0]


def test_a_set_column_names_the_choices():
    found = read(TRIPS | {"trip": [*"uvwxyz"]}, set="trip")
    assert (found.roles.set, found.set_ids.tolist()) == ("trip", [*"uvwxyz"])
    taken = read(TRIPS | {"row": [0] * 6, "alternative": [1] * 6})
    assert (taken.roles.set, taken.roles.alternative) == ("row_", "alternative_")


@pytest.mark.parametrize(
    ("table", "changed", "complaint"),
    [
        (
            {},
            {"available": None},
            (
                "column 'cost.rail' is missing or not a number at row 2; fill it, or use "
                "impute(cost.{alt})"
            ),
        ),
        (
            {},
            {"items": ["log(cost.{alt})", "{alt}_FR"]},
            "pattern '{alt}_FR' has no column for bus, car, rail",
        ),
        (
            {"bus_TT": ["a", "b", "c", "d", "e", "f"]},
            {},
            "column 'bus_TT' is a category, but 'car_TT' is a number",
        ),
        (
            {"bus_TT": ["1,5", "2,5", "3,5", "4,5", "5,5", "6,5"]},
            {},
            (
                "column 'bus_TT' holds numbers as text with decimal commas, such as '1,5' at row "
                '0; read the file with decimal="," or write points, or use category({alt}_TT)'
            ),
        ),
        (
            {"cost.car": [3.0, np.inf, 3, 2, 6, 5]},
            {},
            "column 'cost.car' is infinite at row 1; replace it",
        ),
        (
            {"car_TT": [1, 2, 0, 1, 1, 1]},
            {"items": ["cost.{alt}", "log({alt}_TT)"]},
            (
                "column 'car_TT' is not positive at row 2; log needs positive numbers; use "
                "log1p({alt}_TT)"
            ),
        ),
        (
            {"rail_AV": [1, 1, 0, 1, 0, 1]},
            {},
            (
                "column 'mode' says at row 4 that 'rail' was chosen, but 'rail_AV' says that it "
                "is not available (1 such rows in all); correct one"
            ),
        ),
        (
            {"rail_AV": [1, 1, 0, 2, 1, 1]},
            {},
            "column 'rail_AV' is neither 0 nor 1 at row 3",
        ),
        (
            {
                "bus_AV": [1, 0, 1, 1, 1, 1],
                "car_AV": [1, 0, 1, 1, 1, 1],
                "rail_AV": [1, 0, 0, 1, 1, 1],
            },
            {},
            "row 1 has no available alternative",
        ),
        (
            {"mode": ["car", "bus", "bus", "tram", "rail", "bus"]},
            {},
            (
                "column 'mode' is 'tram' at row 3, which is not an alternative (found: bus, car, "
                "rail, tram; expected: bus, car, rail); correct it"
            ),
        ),
        (
            {"mode": [1, 2, 2, 1, 3, 2]},
            {},
            (
                "say which code is which, such as alternatives={1: 'bus', 2: 'car', 3: 'rail'} "
                '(on the command line --alternatives "1=bus,2=car,3=rail")'
            ),
        ),
        (
            {"mode": [1, 2, 2, 1, 4, 2]},
            {"alternatives": {1: "bus", 2: "car", 3: "rail"}},
            (
                "column 'mode' is '4' at row 4, which is not an alternative (found: 1, 2, 4; "
                "expected: 1, 2, 3); add it to alternatives=, with None ('4': None)"
            ),
        ),
        (
            {"mode": ["car", None, "bus", "car", "rail", "bus"]},
            {},
            (
                "column 'mode' is missing at row 1, which is not an alternative (expected: "
                'bus, car, rail); use on_none="drop"'
            ),
        ),
        (
            {"income": [1, 2, None, 3, 4, 5]},
            {"context": ["income"]},
            "column 'income' is missing or not a number at row 2",
        ),
        (
            {"w": [1, 2, 0, 1, 1, 1]},
            {"weight": "w"},
            "column 'w' is not positive at row 2",
        ),
        (
            {},
            {"set": "who"},
            (
                "set 'who'=Ann is at row 0 and again at row 1, but each row of a wide table is a "
                "choice of its own; leave set= out"
            ),
        ),
        (
            {},
            {"items": ["income"]},
            "item 'income' must have {alt} once, where the alternative stands",
        ),
        (
            {},
            {"items": []},
            "there are no item features",
        ),
        (
            {},
            {"items": ["{alt}"]},
            "leaves no name for the feature; name it: items={'price': '{alt}'}",
        ),
        (
            {},
            {"items": {"x": "{alt}"}},
            "fits every column; name the alternatives",
        ),
        (
            {},
            {"items": ["cost_{alt}"]},
            "no column fits the pattern cost_{alt}; the table has: mode,",
        ),
        (
            {},
            {"items": ["cost.{alt}", "log(cost.{alt})"]},
            "two patterns give a feature named 'cost'",
        ),
        (
            {},
            {"items": {"income": "cost.{alt}"}, "context": ["income"]},
            "has the name of column 'income', which has a role of its own",
        ),
        (
            {},
            {"available": "AV"},
            "available='AV' must have {alt} once",
        ),
        (
            {},
            {"available": "{alt}_there"},
            "available='{alt}_there' fits no column of the alternatives bus, car, rail",
        ),
        (
            {},
            {"alternatives": "bus"},
            "must be a list of names, or a mapping",
        ),
        (
            {},
            {"alternatives": []},
            "alternatives= is empty",
        ),
        (
            {},
            {"alternatives": ["bus", "bus"]},
            "has a name twice",
        ),
        (
            {},
            {"chosen": "Mode"},
            "chosen column 'Mode' is not in the table",
        ),
        (
            {"cost.2": [1] * 6},
            {},
            "the patterns find numbers (2) and names (bus, car, rail)",
        ),
        (
            {"kind.bus": [*"abcabc"], "kind.car": [*"abcabc"]},
            {"items": ["cost.{alt}", "kind.{alt}"], "fill": 1},
            "fill=1 is a number, but the columns of 'kind.{alt}' hold text",
        ),
    ],
)
def test_errors_name_the_row_and_the_column_of_the_wide_table(table, changed, complaint):
    assert complaint in refusal(TRIPS | table, **changed)


def test_an_error_knows_its_place():
    with pytest.raises(sw.InputError) as caught:
        read(available=None)
    assert (caught.value.row, caught.value.column) == (2, "cost.rail")


# Models of wide tables


@pytest.fixture(scope="module")
def logit():
    return sw.MNL("cost + TT", l2=1).fit(read())


def test_a_model_predicts_wide_and_long_tables_alike(logit):
    choices = read()
    bare = {name: values for name, values in TRIPS.items() if name != "mode"}
    expected = logit.predict_proba(choices)
    np.testing.assert_array_equal(logit.predict_proba(bare), expected)
    np.testing.assert_array_equal(logit.predict_proba(choices.to_frame()), expected)
    assert logit.evaluate(TRIPS).nll == logit.evaluate(choices.to_frame()).nll
    shuffled = choices.to_frame().sample(fraction=1, shuffle=True, seed=1)
    assert logit.evaluate(shuffled).nll == pytest.approx(logit.evaluate(TRIPS).nll)


def test_predictions_in_the_wide_table(logit):
    found = logit.predict_wide(pl.DataFrame(TRIPS))
    assert found.columns[-4:] == [
        *(f"probability.{one}" for one in ("bus", "car", "rail")),
        "predicted",
    ]
    grid = found.select(pl.col("^probability.*$")).to_numpy()
    assert np.isnan(grid).sum() == 1
    assert found["probability.rail"][2] is None
    np.testing.assert_allclose(np.nansum(grid, 1), 1, rtol=1e-6)
    rows = grid[~np.isnan(grid)]
    np.testing.assert_allclose(rows, logit.predict_proba(TRIPS), rtol=1e-6)
    best = [("bus", "car", "rail")[place] for place in np.nanargmax(grid, 1)]
    assert found["predicted"].to_list() == best
    frame = pd.DataFrame(TRIPS).iloc[::-1]
    given = logit.predict_wide(frame)
    assert given.index.tolist() == frame.index.tolist()
    assert given["predicted"].tolist() == best[::-1]


def test_numbered_alternatives_are_predicted_as_numbers():
    table = {"choice": [2, 1, 2], "x1": [7.0, 3.0, 1.0], "x2": [9.0, 8.0, 2.0]}
    model = sw.MNL(l2=1).fit(sw.read_wide(table, chosen="choice", items=["x{alt}"]))
    found = model.predict_wide(table)
    assert found.columns[-3:] == ["probability.1", "probability.2", "predicted"]
    assert found["predicted"].dtype == pl.Int64
    ranked = model.rank(table)
    assert ranked["alternative"].to_list()[::2] == [str(one) for one in found["predicted"]]


def test_the_outside_option_is_predicted_as_null():
    table = {"c": [None, None, None, "A"], "A_x": [1, 2, 3, 9], "B_x": [3, 2, 1, 0]}
    choices = sw.read_wide(table, chosen="c", items=["{alt}_x"], on_none="outside")
    model = sw.MNL(l2=0.1).fit(choices)
    found = model.predict_wide(table)
    assert found["predicted"].to_list()[:3] == [None] * 3
    assert (found["probability.A"] + found["probability.B"] < 1).all()
    assert model.evaluate(table).sets == 4


def test_a_model_file_keeps_the_layout(logit, tmp_path):
    logit.save(tmp_path / "trips.setwise")
    for again in (sw.load(tmp_path / "trips.setwise"), load_scorer(tmp_path / "trips.setwise")):
        assert again.schema.roles == logit.schema_.roles
        np.testing.assert_allclose(
            again.predict_proba(TRIPS), logit.predict_proba(TRIPS), rtol=1e-6
        )
        assert predict_wide(again, TRIPS)["predicted"].equals(
            logit.predict_wide(TRIPS)["predicted"]
        )
    plain = json.loads(json.dumps(logit.schema_.roles.to_json()))
    assert Roles.from_json(plain) == logit.schema_.roles
    del plain["wide"]  # as in older files
    assert Roles.from_json(plain).wide is None


@pytest.mark.parametrize(
    "spoiled",
    [{"columns": [["cost", "cost"]]}, {"columns": [[1, "cost.{alt}"]]}, {"codes": [[1, 2]]},
     {"alternatives": []}, {"fill": "x"}],
)  # fmt: skip
def test_a_crafted_layout_is_refused(spoiled):
    plain = WideLayout(("bus", "car"), (("cost", "cost.{alt}"),)).to_json()
    with pytest.raises(sw.InputError):
        WideLayout.from_json(plain | spoiled)


def test_stored_choices_keep_their_rows(tmp_path):
    choices = read()
    sw.save_choices(choices, tmp_path / "trips.setwise-data")
    again = sw.open_choices(tmp_path / "trips.setwise-data")
    assert again.rows.tolist() == choices.rows.tolist()
    assert again.cells.tolist() == choices.cells.tolist()
    same(again, choices)


def test_parquet_files_are_predicted_in_parts(logit, tmp_path, monkeypatch):
    frame = pl.DataFrame(TRIPS)
    frame.write_parquet(tmp_path / "trips.parquet")
    monkeypatch.setattr("setwise.scoring.prediction.ROWS_PER_CHUNK", 4)
    assert predict_file(logit, tmp_path / "trips.parquet", tmp_path / "out.parquet") == 6
    found = pl.read_parquet(tmp_path / "out.parquet")
    whole = logit.predict_wide(frame)
    assert found.drop("^prob.*$").equals(whole.drop("^prob.*$"))
    np.testing.assert_allclose(
        found["probability.bus"].to_numpy(), whole["probability.bus"].to_numpy(), rtol=1e-6
    )
    broken = frame.with_columns(pl.Series("cost.bus", [1.0, 2, 3, 4, 5, None]))
    broken.write_parquet(tmp_path / "broken.parquet")
    with pytest.raises(sw.InputError, match=r"column 'cost.bus' is missing .* at row 5") as caught:
        predict_file(logit, tmp_path / "broken.parquet", tmp_path / "out.parquet")
    assert caught.value.row == 5


def test_values_that_the_model_cannot_take_are_named(logit):
    far = TRIPS | {"car_TT": [1e12, 1, 1, 1, 1, 1]}
    with pytest.raises(sw.InputError, match="column 'car_TT' is 1e\\+12 at row 0"):
        logit.predict_proba(far)


def test_predict_wide_says_why_it_cannot(logit):
    long = sw.MNL(l2=1).fit(sw.read(read().to_frame(), set="row", chosen="mode", items=["cost"]))
    with pytest.raises(sw.InputError, match="was trained on a long table"):
        long.predict_wide(TRIPS)
    with pytest.raises(sw.InputError, match="not wide as the training table was"):
        logit.predict_wide(read().to_frame())
    with pytest.raises(sw.InputError, match="not Choices"):
        logit.predict_wide(read())
    with pytest.raises(sw.InputError, match=r"pattern '\{alt\}_TT' has no column for rail"):
        logit.predict_proba({name: one for name, one in TRIPS.items() if name != "rail_TT"})


def test_consequences_follow_items_of_a_wide_table(logit):
    """Each item finds itself again, although all items of a set are in one row of the table."""
    from setwise.consequences import Remove, counterfactual

    found = counterfactual(logit, read(), Remove({"alternative": "rail"}), by="alternative")
    shares = dict(zip(found.shares.names, found.shares.after, strict=True))
    assert shares["rail"] == 0
    assert shares["bus"] + shares["car"] == pytest.approx(1)
    bus = found.shares.after[found.shares.names.index("bus")]
    two = read(alternatives=["bus", "car"], available=None, chosen=None)
    expected = logit.predict_proba(two).reshape(-1, 2)[:, 0].mean()
    assert bus == pytest.approx(expected)


# The command line


@pytest.fixture
def trips(tmp_path):
    path = tmp_path / "trips.csv"
    pl.DataFrame(TRIPS).write_csv(path)
    return path


OPTIONS = ("--items", "cost.{alt},time={alt}_TT", "--chosen", "mode", "--available", "{alt}_AV")


def test_fit_predict_and_evaluate(trips, tmp_path):
    model, out = tmp_path / "m.setwise", tmp_path / "out.csv"
    formula = ("--utility", "cost + time", "--reference", "car")
    said = run("fit", trips, "--model", "mnl", *OPTIONS, *formula, "--group", "who", "--out", model)
    assert all(word in said for word in ("cost", "time", "constant:bus", "constant:rail"))
    run("predict", model, trips, "--out", out)
    written = pl.read_csv(out)
    assert written.columns[-4:] == [
        *(f"probability.{one}" for one in ("bus", "car", "rail")),
        "predicted",
    ]
    shown = json.loads(run("predict", model, trips, "--json"))
    assert shown[2]["probability.rail"] is None
    assert json.loads(run("evaluate", model, trips, "--json"))["sets"] == 6


def test_codes_and_fill_on_the_command_line(tmp_path):
    path = tmp_path / "t.csv"
    table = {"c": [1, 2, 9, 2], "A_x": [1, 2, 3, 4], "B_x": [3, 2, 1, 4], "A_y": [1, 3, 2, 5]}
    pl.DataFrame(table).write_csv(path)
    codes = ("--alternatives", "1=A,2=B,9=", "--fill", "0", "--on-none", "drop")
    model = tmp_path / "m.setwise"
    run(
        "fit",
        path,
        "--model",
        "random",
        "--items",
        "{alt}_x,{alt}_y",
        "--chosen",
        "c",
        *codes,
        "--out",
        model,
    )
    layout = sw.load(model).schema.roles.wide
    assert layout.alternatives == ("A", "B")
    assert layout.codes == (("1", "A"), ("2", "B"), ("9", None))
    assert layout.fill == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--items", "cost.{alt}"), "--chosen is missing"),
        ((*OPTIONS, "--on-duplicate", "drop"), "--on-duplicate is for long tables"),
        ((*OPTIONS, "--alternative", "mode"), "--alternative is for long tables"),
        ((*OPTIONS, "--reference", "car"), "--reference goes with --utility"),
        (("--fill", "0", "--chosen", "mode", "--set", "who"), "--fill is for wide tables"),
        (("--items", "cost.{alt},cost={alt}_TT", "--chosen", "mode"), "--items gives 'cost' twice"),
        (("--chosen", "mode"), "it looks like a wide table, with one row per choice"),
    ],
)  # fmt: skip
def test_wrong_options(trips, tmp_path, options, complaint):
    words = ["fit", trips, "--model", "mnl", *options, "--out", tmp_path / "m.setwise"]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert isinstance(done.exception, sw.InputError)
    assert complaint in str(done.exception)


def test_alternative_and_utility_of_a_long_table(tmp_path):
    read().to_frame().write_csv(tmp_path / "long.csv")
    roles = ("--set", "row", "--chosen", "mode", "--alternative", "alternative")
    said = run(
        "fit", tmp_path / "long.csv", "--model", "mnl", *roles, "--utility", "cost",
        "--out", tmp_path / "m.setwise",
    )  # fmt: skip
    assert "constant:car" in said


# The doctor


def test_check_reads_wide_tables(trips):
    said = run("check", trips, *OPTIONS)
    assert "6 sets of 2 to 3 items" in said
    assert "0 errors" in said
    said = run("check", trips, *OPTIONS[:4], code=1)
    assert "error: column 'cost.rail' is missing or not a number at row 2" in said
    found = examine(TRIPS | {"mode": [None, *TRIPS["mode"][1:]]}, **WIDE)
    assert [one.code for one in found.errors] == ["wide-table"]
    assert found.summary.sets == 5  # the others are examined nevertheless


def test_check_suggests_how_to_read_a_wide_table():
    table = {name: values for name, values in TRIPS.items() if name not in ("income", "who")}
    table["bus_AV"] = [1] * 6
    with pytest.raises(sw.InputError) as caught:
        examine(table)
    said = str(caught.value)
    assert (
        'sw.read_wide(table, chosen="mode", items=["cost.{alt}", "{alt}_TT"], '
        'available="{alt}_AV")' in said
    )
    assert '--chosen mode --items "cost.{alt},{alt}_TT" --available "{alt}_AV"' in said


def test_check_suggests_the_call_when_options_are_for_a_long_table():
    table = {"id": [1, 1, 2, 2], "choice": [2, 1, 2, 1], "x1": [1, 2, 3, 4], "x2": [4, 3, 2, 1]}
    found = examine(table, set="id", chosen="choice")
    (looks,) = (one for one in found.findings if one.code == "wide-table")
    call = 'sw.read_wide(table, chosen="choice", items=["x{alt}"], group="id")'
    assert call in looks.remedy
    with pytest.raises(sw.InputError, match=r"item column 'x' is not in the table.*looks wide"):
        examine(table, set="id", chosen="choice", items=["x"])
    codes = table | {"choice": [7, 5, 7, 5], "x1": None, "x2": None}
    codes = {name: one for name, one in codes.items() if one is not None}
    codes |= {"A_x": [1, 2, 3, 4], "B_x": [4, 3, 2, 1], "A_y": [1, 2, 3, 4], "B_y": [4, 3, 2, 1]}
    codes |= {"A_z": [1, 2, 3, 5], "B_z": [4, 3, 5, 1]}
    with pytest.raises(sw.InputError) as caught:
        examine(codes)
    assert 'alternatives={5: "A", 7: "B"}' in str(caught.value)
    assert "check which code is which" in str(caught.value)


def test_check_suggests_the_roles_of_a_long_table():
    table = {"x": [1.5, 2.5, 1.0, 3.0, 2.0], "trip": [7, 7, 9, 9, 9], "taken": [0, 1, 1, 0, 0]}
    table = {name: values + values[:2] for name, values in table.items()}
    table["trip"][-2:] = [11, 11]
    with pytest.raises(sw.InputError, match=r'sw\.read\(table, set="trip", chosen="taken"\)'):
        examine(table)
    with pytest.raises(sw.InputError) as caught:
        examine({"a": [1, 2], "b": [3, 4]})
    assert "looks like" not in str(caught.value)
