"""The map of a decoy: the pair, the grid, what the model says there, the picture, the command."""

import json
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import setwise as sw
from setwise._errors import InputError
from setwise.cli import app
from setwise.reports.decoy import DecoyMap, decoy_map, decoy_picture
from setwise.reports.iia import examine_iia, write_iia_report
from setwise.violations import DecoyEffect


def hotels(sets=600) -> pl.DataFrame:
    """The dearer the rest of the set, the less a price hurts; brands and rain have no part."""
    rng = np.random.default_rng(0)
    price = rng.gamma(4, 30, (sets, 4)) * rng.uniform(0.5, 2, (sets, 1))
    stars = rng.integers(1, 6, (sets, 4))
    score = stars - 6 * price / price.mean(1, keepdims=True) + rng.gumbel(size=(sets, 4))
    chosen = score.argmax(1)[:, None] == np.arange(4)
    columns = {
        "trip": np.repeat(np.arange(sets) + 100, 4),
        "price": price.reshape(-1),
        "stars": stars.reshape(-1),
        "brand": rng.choice(["red", "blue"], 4 * sets),
        "rain": np.repeat(rng.normal(size=sets), 4),
        "chosen": chosen.reshape(-1).astype(np.int64),
    }
    return pl.DataFrame(columns)


@pytest.fixture(scope="module")
def table():
    return hotels()


@pytest.fixture(scope="module")
def choices(table):
    roles = {"items": ["log(price)", "stars", "brand"], "context": ["rain"]}
    return sw.read(table, set="trip", chosen="chosen", **roles)


@pytest.fixture(scope="module")
def contextual(choices):
    return sw.LinearContextLogit().fit(choices)


@pytest.fixture(scope="module")
def found(contextual, choices):
    return decoy_map(contextual, choices, ("price", "stars"), steps=7)


@pytest.fixture(scope="module")
def files(table, contextual, choices, tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoy")
    contextual.save(folder / "hotels.setwise")
    table.write_parquet(folder / "hotels.parquet")
    sw.save_choices(choices, folder / "hotels.setwise-data")
    return folder


def test_the_pair_is_what_the_model_finds_best(found, contextual, table):
    first = contextual.rank(table.filter(pl.col("trip") == 100))
    for place, item in enumerate((found.a, found.b)):
        assert {name: first[name][place] for name in item} == item
    assert found.pair == "100"


def test_the_grid_lies_within_the_quantiles_and_takes_values_that_occur(found, table):
    prices, stars = found.grid
    assert len(prices) == 7
    assert prices[[0, -1]] == pytest.approx(np.quantile(table["price"], [0.05, 0.95]))
    assert stars.tolist() == [1, 2, 3, 4, 5]
    assert found.shift.shape == (7, 5)


def test_each_place_is_what_the_model_says_of_three_items(found, contextual, table):
    rain = table["rain"][0]
    for i, j in ((0, 0), (3, 2), (6, 4)):
        decoy = {**found.a, "price": found.grid[0][i], "stars": found.grid[1][j]}
        rows = pl.DataFrame([found.a, found.b, decoy], strict=False).with_columns(trip=0, rain=rain)
        p = contextual.predict_proba(rows)
        a, b = found.effect.without
        assert found.shift[i, j] == pytest.approx(p[0] / (p[0] + p[1]) - a / (a + b), abs=1e-5)
        assert found.effect.p_decoy[i * 5 + j] == pytest.approx(p[2], abs=1e-5)


def test_no_decoy_moves_a_logit(choices):
    blank = decoy_map(sw.MNL().fit(choices), choices, ("price", "stars"), steps=4)
    assert blank.blank
    assert not blank.effect.breaks_regularity.any()
    assert "the map is blank" in blank.sentence()
    assert [row[0] for row in blank.rows()] == ["A", "B"]
    assert decoy_picture(blank).startswith("<svg")


def test_a_context_model_is_moved(found):
    assert not found.blank
    assert "percentage points" in found.sentence()
    names = ["A", "B", "decoy that helps A most", "decoy that helps B most"]
    assert [row[0] for row in found.rows()] == names
    assert all(len(row) == len(found.heads()) for row in found.rows())


def test_a_pair_can_be_named(contextual, choices):
    assert decoy_map(contextual, choices, ("price", "stars"), pair=107, steps=3).pair == "107"
    same = decoy_map(contextual, choices, ("price", "stars"), pair="107", steps=3)
    assert same.pair == "107"


def map_of(shift, items) -> DecoyMap:
    """A map on the places (0, 0), (0, 1), (1, 0), (1, 1) with these shifts of A's half."""
    p_a = 0.4 * (1 + 2 * np.asarray(shift, float))
    places = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], float)
    effect = DecoyEffect(("x", "y"), places, (0.5, 0.5), p_a, 0.8 - p_a, np.full(4, 0.2))
    ends = np.array([0.0, 1.0])
    a, b = {"x": 0.0, "y": 1.0}, {"x": 1.0, "y": 0.0}
    return DecoyMap("SDA", "1", ("x", "y"), a, b, (ends, ends), np.asarray(items, float), effect)


def test_the_best_places_are_near_items():
    shift = [0.3, 0.1, -0.1, -0.3]
    everywhere = map_of(shift, [[0, 0], [0, 1], [1, 0], [1, 1]])
    assert everywhere.to_json()["helps_A_most"] == {
        "decoy": {"x": 0.0, "y": 0.0}, "shift": pytest.approx(0.3)
    }  # fmt: skip
    assert "x 0 and y 0 helps A most: by 30.0" in everywhere.sentence()
    some = map_of(shift, [[0.1, 0.8], [2.0, -1.0]])
    assert some.to_json()["helps_A_most"]["decoy"] == {"x": 0.0, "y": 1.0}
    assert some.to_json()["helps_B_most"]["decoy"] == {"x": 1.0, "y": 0.0}


def test_regularity_by_hand():
    found = map_of([0.3, 0.1, -0.1, -0.3], [[0, 0]])
    # P(A) is 0.64, 0.48, 0.32, 0.16 of 0.5 without; P(B) is 0.16, 0.32, 0.48, 0.64.
    assert found.to_json()["breaks_regularity"] == [[True, False], [False, True]]
    assert "At 2 of 4 places" in found.sentence()


def test_where_every_decoy_helps_a_none_helps_b():
    assert "No decoy helps B." in map_of([0.3, 0.1, 0.1, 0.2], np.eye(2)).sentence()


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(-0.49, 0.49), min_size=4, max_size=4),
    st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=1, max_size=6),
)
def test_no_place_near_an_item_is_better_than_the_best(shift, items):
    found = map_of(shift, items)
    read = found.to_json()
    near = {(float(x > 0.5), float(y > 0.5)) for x, y in items}
    at = [found.shift[int(x), int(y)] for x, y in near]
    assert read["helps_A_most"]["shift"] == max(at)
    assert read["helps_B_most"]["shift"] == min(at)


def test_plain_values_are_json(found):
    read = json.loads(json.dumps(found.to_json()))
    assert read["a"].keys() == {"price", "stars", "brand"}
    np.testing.assert_allclose(read["shift"], found.shift)
    assert read["without"]["p_a"] + read["without"]["p_b"] == pytest.approx(1, abs=1e-5)


def test_the_picture_is_the_same_every_time_and_takes_any_name(found):
    assert decoy_picture(found) == decoy_picture(found)
    dollars = map_of([0.3, 0.1, -0.1, -0.3], [[0, 0]])
    renamed = {"a $": 0.0, "b $": 1.0}
    assert decoy_picture(replace(dollars, columns=("a $", "b $"), a=renamed, b=renamed)).startswith(
        "<svg"
    )


def test_the_page_shows_it(found, contextual, choices, tmp_path):
    write_iia_report(replace(examine_iia(contextual, choices), decoy=found), tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text("utf-8")
    assert page.count("<svg") == 2
    assert "What a decoy does" in page
    assert not re.search(r"(?:src|href)=.?(?:https?:)?//|url\((?!#)|@import", page)


@pytest.mark.parametrize(
    ("columns", "pair", "said"),
    [
        (("price", "price"), None, "given twice"),
        (("price", "colour"), None, "is not an item column of the model"),
        (("price", "rain"), None, "is not an item column of the model"),
        (("price", "brand"), None, "holds category values"),
        (("price", "stars"), 99, "no set 'trip'=99"),
    ],
)
def test_errors_say_what_to_do(contextual, choices, columns, pair, said):
    with pytest.raises(InputError, match=said):
        decoy_map(contextual, choices, columns, pair)


def small(**columns) -> sw.Choices:
    table = {"trip": [1, 1, 2, 2, 2], "x": [1.0, 2, 3, 4, 5], "y": [1.0, 2, 3, 4, 5]} | columns
    return sw.read(table | {"chosen": [1, 0, 0, 1, 0]}, set="trip", chosen="chosen")


def test_what_has_no_map_is_refused():
    choices = small(y=[1.0, 1.0, 1.0, 1.0, 1.0 + 1e-9])
    with pytest.raises(InputError, match="hardly varies"):
        decoy_map(sw.RandomChoice().fit(small()), choices, ("x", "y"))
    alike = small(x=[1.0, 1, 3, 4, 5], y=[1.0, 1, 3, 4, 5])
    with pytest.raises(InputError, match="are alike"):
        decoy_map(sw.RandomChoice().fit(small()), alike, ("x", "y"))
    with pytest.raises(InputError, match="at least 2"):
        decoy_map(sw.RandomChoice().fit(small()), small(), ("x", "y"), steps=1)


# The command


def run(*words):
    return CliRunner().invoke(app, ["violations", *map(str, words)])


def test_the_command_maps_a_decoy_from_tables_and_data_files(files, tmp_path):
    model, page = files / "hotels.setwise", tmp_path / "page.html"
    words = ("--decoy", "price,stars", "--pair", 107, "--max-sets", 50)
    done = run(model, files / "hotels.parquet", *words, "--report", page)
    assert done.exit_code == 0, done.output
    assert "a decoy beside two items of set 107" in done.stdout
    assert "helps A most" in done.stdout
    assert page.exists()
    done = run(model, files / "hotels.setwise-data", *words, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["decoy"]["set"] == "107"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--decoy", "price"], "--decoy takes 2 column names"),
        (["--pair", "107"], "give --decoy too"),
    ],
)
def test_what_does_not_fit_is_one_sentence(files, words, said):
    done = run(files / "hotels.setwise", files / "hotels.parquet", *words)
    assert isinstance(done.exception, InputError)
    assert said in str(done.exception)
