"""What follows from a model, in one thing: its rows, its JSON, its page, and typed values."""

import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import setwise as sw
from setwise._errors import InputError
from setwise._page import PageTable, as_html
from setwise.cli import app
from setwise.consequences import Remove, Reprice, counterfactual, diversion_ratios, elasticities
from setwise.reports.explain import (
    MOST_DRAWN,
    explain_model,
    moves,
    typed_values,
    write_explanation,
)
from setwise.reports.figures import grid_picture

MODES = ["is_train", "is_sm", "is_car"]
DEARER = Reprice("cost", 1.2, {"is_car": 1})


@pytest.fixture(scope="module")
def choices():
    return sw.datasets.load("swissmetro").sample(400)


@pytest.fixture(scope="module")
def logit(choices):
    return sw.MNL().fit(choices)


@pytest.fixture(scope="module")
def found(logit, choices):
    return explain_model(logit, choices, "cost", MODES, [DEARER])


@pytest.fixture(scope="module")
def page(found, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "explain.html"
    write_explanation(found, path)
    return path.read_text("utf-8")


def needs_no_network(page: str) -> bool:
    return not re.search(r"(?:src|href)=.?(?:https?:)?//|url\((?!#)|@import|<script|<link", page)


def test_numbers_are_those_of_the_functions(found, logit, choices):
    read = found.to_json()
    elastic = elasticities(logit, choices, "cost", MODES)
    assert read["own_elasticity"]["value"] == elastic.own
    assert (read["cross_elasticity"]["low"], read["cross_elasticity"]["high"]) == elastic.interval(
        own=False
    )
    assert read["elasticities"]["values"] == elastic.between.values.tolist()
    diverted = diversion_ratios(logit, choices, "cost", MODES)
    assert read["diversion"]["high"] == diverted.between.high.tolist()
    changed = counterfactual(logit, choices, DEARER, by=MODES)
    assert read["shares"]["is_car"]["after"] == changed.shares.after[2]
    assert f"of 100 choices, {found.leaving:.1f} leave their item" in str(changed)


def test_the_keys_of_the_json_that_programs_read_are_kept(found):
    read = found.to_json()
    kept = {"column", "own_elasticity", "cross_elasticity", "elasticities", "diversion"}
    assert kept | {"changes", "shares"} <= set(read)
    assert {"names", "values"} <= set(read["diversion"])
    assert {"before", "after"} <= set(read["shares"]["is_sm"])


def test_text_rows_and_page_have_the_same_numbers(found, page):
    own = f"{found.elastic.own:.4f}"
    assert own in str(found)
    assert found.rows()[0][1] == own
    assert all(f"<td>{cell}</td>" in page for row in found.rows() for cell in row[:2])
    assert all(f"<td>{cell}</td>" in page for row in found.share_rows() for cell in row)


def test_captions_say_an_example_of_the_page_itself(found, page):
    most = found.elastic.between
    off = np.where(np.eye(3, dtype=bool), 0, np.abs(most.values))
    k, j = np.unravel_index(np.argmax(off), off.shape)
    assert f"the share of {MODES[k]} {moves(most.values[k, j])}" in page
    diverted = np.where(np.eye(3, dtype=bool), 0, found.diverted.between.values)
    k, j = np.unravel_index(np.argmax(diverted), diverted.shape)
    assert f"of 100 who leave {MODES[j]}, {100 * diverted[k, j]:.0f} go to {MODES[k]}" in page
    before, after = 100 * found.changed.shares.before[2], 100 * found.changed.shares.after[2]
    assert f"the share of is_car goes from {before:.1f} % to {after:.1f} %" in page
    assert f"{10 * (before - after):.0f} fewer" in page


def test_the_page_fits_a_phone_and_needs_no_network(page):
    assert needs_no_network(page)
    assert page.count("<svg") == page.count("<figcaption>") == 4
    assert "figure svg { width: 100%" in page
    assert page.count("<table") == page.count('<div class="scroll"><table')


def test_without_alternatives_and_changes_there_is_one_picture(logit, choices, tmp_path):
    found = explain_model(logit, choices, "cost")
    write_explanation(found, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text("utf-8")
    assert page.count("<svg") == 1
    assert "What if" not in page
    assert (found.leaving, found.share_rows(), "shares" in found.to_json()) == (0, [], False)


def test_a_change_without_alternatives_has_no_shares(logit, choices, tmp_path):
    found = explain_model(logit, choices, "cost", changes=[Remove({"is_train": 1})])
    write_explanation(found, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text("utf-8")
    assert f"Of 100 choices, {found.leaving:.1f} leave their item." in page
    assert page.count("<svg") == 1


def test_many_alternatives_become_a_table_and_names_stay_text(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"<{'$' * (i % 3)}{i}>" for i in range(MOST_DRAWN + 1)]
    brands = np.concatenate([rng.permutation(names)[:3] for _ in range(60)])
    table = pl.DataFrame(
        {"trip": np.repeat(np.arange(60), 3), "cost": rng.uniform(1, 9, 180), "brand": brands,
         "taken": np.tile([1, 0, 0], 60)}
    )  # fmt: skip
    model = sw.MNL().fit(sw.read(table, set="trip", chosen="taken", items=["cost"]))
    write_explanation(explain_model(model, table, "cost", "brand"), tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text("utf-8")
    assert page.count("<svg") == 1
    assert "<th>&lt;$$2&gt;</th>" in page
    assert "<$" not in page


def test_a_dollar_in_a_name_is_no_formula():
    picture = grid_picture(np.array([[1.0, np.nan]]), ["$1_2$"], ["$\\x$", "b"], ("to", "from"))
    assert picture.startswith("<svg")


def test_equal_grids_are_equal_bytes_and_no_zero_is_negative():
    def drawn(value: float) -> str:
        return grid_picture(np.array([[value, 3.0]]), ["a"], ["b", "c"], ("x", "y"), "z.0f")

    assert drawn(-0.0) == drawn(0.0) != drawn(2.0)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
def test_cells_are_text_whatever_they_hold(text):
    shown = as_html([PageTable(("a",), [(text,)])])
    assert shown.count("<td>") == 1
    inside = shown.partition("<td>")[2].partition("</td>")[0]
    assert not set('<>"') & set(inside)


@pytest.mark.parametrize(
    ("value", "said"),
    [(1.239, "rises by 1.24 %"), (-0.5, "falls by 0.50 %"), (0.0, "hardly moves"),
     (float("nan"), "is not known")],
)  # fmt: skip
def test_an_elasticity_in_words(value, said):
    assert moves(value) == said


# Values that are written as text


@pytest.fixture(scope="module")
def zones():
    rng = np.random.default_rng(1)
    table = pl.DataFrame(
        {"trip": np.repeat(np.arange(80), 3), "cost": rng.uniform(1, 9, 240),
         "zone": np.tile([1, 2, 3], 80), "weight": np.tile([0.1, 0.2, 0.3], 80).astype(np.float32),
         "day": np.tile(np.array(["2024-01-05", "2024-01-06", "2024-01-07"], "datetime64[D]"), 80),
         "mode": np.tile(["bus", "car", "7"], 80),
         "taken": (np.arange(240) % 3 == np.repeat(rng.integers(3, size=80), 3)).astype(int)}
    )  # fmt: skip
    roles = {"set": "trip", "chosen": "taken", "items": ["cost", "category(zone)"]}
    return table, sw.MNL().fit(sw.read(table, **roles))


@pytest.mark.parametrize(
    ("name", "text"),
    [("zone", "1"), ("mode", "car"), ("mode", "7"), ("weight", "0.1"), ("day", "2024-01-06")],
)
def test_the_columns_kind_decides_what_a_text_means(zones, name, text):
    table, model = zones
    where = typed_values(model, table, {name: text})
    gone = counterfactual(model, table, Remove(where))
    assert (gone.after == 0).sum() == 80


def test_a_category_of_numbers_keeps_its_names_and_a_number_is_one(zones):
    table, model = zones
    assert typed_values(model, table, {"zone": "2", "cost": "2"}) == {"zone": "2", "cost": 2.0}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [("cost", "much", "holds numbers, but 'much' is not a number; write for example cost="),
     ("day", "soon", "column 'day' holds dates, but 'soon' is not a date"),
     ("colour", "red", "colour")],
)  # fmt: skip
def test_what_is_no_such_value_is_refused(zones, name, text, said):
    table, model = zones
    with pytest.raises(InputError, match=said):
        typed_values(model, table, {name: text})


def test_the_command_takes_a_category_of_numbers_and_writes_the_page(zones, tmp_path):
    table, model = zones
    model.save(tmp_path / "zones.setwise")
    table.write_parquet(tmp_path / "zones.parquet")
    words = [tmp_path / "zones.setwise", tmp_path / "zones.parquet", "--column", "cost"]
    words += ["--by", "zone", "--times", 1.5, "--where", "zone=2", "--remove", "zone=3"]
    words += ["--report", tmp_path / "explain.html"]
    done = CliRunner().invoke(app, ["explain", *map(str, words)])
    assert done.exit_code == 0, f"{done.output} {done.exception!r}"
    assert "'cost' × 1.5 where zone='2'; then without items where zone='3'" in done.stdout
    assert needs_no_network((tmp_path / "explain.html").read_text("utf-8"))


def test_a_page_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    words = ["explain", "no-model", "swissmetro", "--column", "cost"]
    done = CliRunner().invoke(app, [*words, "--report", str(tmp_path / "none" / "a.html")])
    assert isinstance(done.exception, InputError)
    assert "none" in str(done.exception)
