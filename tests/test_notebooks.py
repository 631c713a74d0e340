"""Results in a notebook: every table has its HTML, in which nothing is code, and its frame."""

import html.parser
from datetime import date, datetime

import numpy as np
import polars as pl
import pytest

import setwise as sw
from setwise import _page
from setwise.consequences import (
    Reprice,
    counterfactual,
    diversion_ratios,
    elasticities,
    expected_shares,
    willingness_to_pay,
)
from setwise.tuning import Trial, Tuned
from setwise.violations import capacity_by_region, decoy_effect, influence, soft_violations

EVIL = "<script>alert(1)</script>"
PRICE, LEVELS = f"price{EVIL}", (f"car{EVIL}", "bus", 'rail"&')


def table(sets: int = 60) -> dict:
    """Trips of three modes, with names that would run if a page took them as code."""
    rng = np.random.default_rng(0)
    price = rng.uniform(1, 9, (sets, 3))
    utility = -0.3 * price + np.array([0.5, 0.0, 0.2]) + rng.gumbel(size=(sets, 3))
    return {
        f"trip{EVIL}": np.repeat(np.arange(sets), 3),
        PRICE: price.ravel(),
        "comfort": rng.normal(size=3 * sets),
        "mode": list(LEVELS) * sets,
        "taken": (utility == utility.max(1, keepdims=True)).astype(int).ravel(),
    }


@pytest.fixture(scope="module")
def choices():
    return sw.read(table(), set=f"trip{EVIL}", chosen="taken")


@pytest.fixture(scope="module")
def model(choices):
    return sw.MNL().fit(choices)


@pytest.fixture(scope="module")
def results(choices, model):
    """Everything that a notebook may show, by name."""
    nested = sw.read(table(), set=f"trip{EVIL}", chosen="taken", items=[PRICE, "comfort", "mode"])
    trials = tuple(Trial(i, {"wiring": EVIL, "hidden": 8}, 1.0 + i, i == 2, {}) for i in range(12))
    by = {"by": "mode"}
    return {
        "summary": model.summary(),
        "nested": sw.NestedLogit("mode").fit(nested).summary(),
        "mixed": sw.MixedMNL(classes=1).fit(nested).summary(),
        "choices": choices,
        "metrics": model.evaluate(choices),
        "compare": sw.compare({EVIL: sw.MNL(), "b": sw.RandomChoice()}, choices, splits=2),
        "tuned": Tuned({"wiring": EVIL, "hidden": 8}, 1.0, "nll", sw.SDW(), trials, "study"),
        "elasticities": elasticities(model, choices, PRICE),
        "elasticities by mode": elasticities(model, choices, PRICE, **by),
        "diversions": diversion_ratios(model, choices),
        "diversions by mode": diversion_ratios(model, choices, **by),
        "shares": expected_shares(model, choices, **by),
        "worth": willingness_to_pay(model, PRICE),
        "counterfactual": counterfactual(model, choices, Reprice(PRICE, 1.1)),
        "counterfactual by mode": counterfactual(
            model, choices, Reprice(PRICE, 1.1), by="mode", price=PRICE
        ),
        "share change": counterfactual(model, choices, Reprice(PRICE, 1.1), **by).shares,
        "influence": influence(model, choices, **by).between,
        "soft": soft_violations(model, choices),
        "regions": capacity_by_region({EVIL: model}, choices),
    }


NAMES = (
    "summary", "nested", "mixed", "choices", "metrics", "compare", "tuned", "elasticities",
    "elasticities by mode", "diversions", "diversions by mode", "shares", "worth", "counterfactual",
    "counterfactual by mode", "share change", "influence", "soft", "regions",
)  # fmt: skip
WITHOUT_NAMES = ("metrics", "diversions", "soft")  # which show no name of the user's


class Reader(html.parser.HTMLParser):
    """Which tags there are, the cells of the tables, and whether all that opens is closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.cells = set(), [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.open.append(tag)
        if tag == "tr":
            self.cells.append([])
        elif tag in ("td", "th"):
            self.cells[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1][-1] += data


def test_every_result_is_tried(results):
    assert tuple(results) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_html_is_a_table_in_which_no_name_is_code(results, name):
    text = results[name]._repr_html_()
    found = Reader(text)
    assert found.open == []
    assert found.tags <= {"div", "style", "p", "table", "thead", "tbody", "tr", "th", "td"}
    assert found.cells
    assert "nan" not in text.replace("Nan", "").lower().split()
    if name not in WITHOUT_NAMES:
        assert "&lt;script&gt;" in text


@pytest.mark.parametrize("name", NAMES)
def test_frames_are_polars_and_have_no_nan(results, name):
    frame = results[name].to_frame()
    assert isinstance(frame, pl.DataFrame)
    assert len(frame) > 0
    assert frame.select(pl.selectors.float().is_nan().any()).sum().sum_horizontal().sum() == 0


def test_the_summary_is_what_is_printed(results):
    summary = results["summary"]
    frame = summary.to_frame()
    assert frame["name"].to_list() == list(summary.names)
    assert frame["coefficient"].to_list() == summary.coefficients.tolist()
    known = frame.filter(pl.col("standard_error").is_not_null())
    assert len(known) == summary.parameters == len(frame) - 1  # one mode is the reference
    error, coefficient = known["standard_error"], known["coefficient"]
    assert (known["high"] - known["low"]).to_list() == pytest.approx(
        (2 * 1.959964 * error).to_list()
    )
    assert known["z"].to_list() == pytest.approx((coefficient / error).to_list())
    cells = Reader(summary._repr_html_()).cells
    assert [row[0] for row in cells] == ["feature", *summary.names]
    assert sum("reference" in row[-1] for row in cells) == 1


def test_metrics_as_a_frame(results):
    metrics = results["metrics"]
    frame = metrics.to_frame()
    assert dict(zip(frame["metric"], frame["value"], strict=True)) == dict(metrics)
    errors = dict(zip(frame["metric"], frame["standard_error"], strict=True))
    assert errors["nll"] == metrics.standard_errors["nll"]
    assert errors["rho2"] is None


def test_the_leaderboard_as_a_frame(results):
    result = results["compare"]
    frame = result.to_frame()
    best, other = result.leaderboard()
    assert frame["model"].to_list() == [best.model, other.model]
    assert frame["nll"].to_list() == [best.mean["nll"], other.mean["nll"]]
    assert frame["nll_standard_error"][0] == best.standard_error["nll"]
    assert frame["p"].to_list() == [None, other.p]


def test_a_single_split_has_no_standard_error(choices):
    result = sw.compare({"a": sw.MNL(), "b": sw.RandomChoice()}, choices, splits=1)
    assert result.to_frame()["nll_standard_error"].to_list() == [None, None]
    assert "nan" not in result._repr_html_()


def test_trials_as_a_frame_and_the_best_first(results):
    tuned = results["tuned"]
    frame = tuned.to_frame()
    assert frame.columns == ["trial", "wiring", "hidden", "nll", "pruned"]
    assert frame["trial"].to_list() == list(range(12))
    cells = Reader(tuned._repr_html_()).cells
    assert [row[0] for row in cells[1:]] == ["0", "1", "3", "4", "5", "6", "7", "8", "9", "10"]


def test_elasticities_as_frames(results):
    found, by_mode = results["elasticities"], results["elasticities by mode"]
    frame = found.to_frame()
    of_set = frame.filter(pl.col("set_number") == 7)
    assert of_set["elasticity"].to_list() == found.of_set(7).ravel().tolist()
    frame = by_mode.to_frame()
    assert frame.columns == ["alternative", "because_of", "elasticity", "low", "high"]
    bus, rail = (by_mode.between.names.index(name) for name in LEVELS[1:])
    row = frame.filter(alternative=LEVELS[1], because_of=LEVELS[2])
    assert row["elasticity"].item() == by_mode.between.values[bus, rail]
    assert row["low"].item() < row["elasticity"].item() < row["high"].item()


def test_diversions_as_frames(results):
    frame = results["diversions"].to_frame()
    sums = frame.filter(pl.col("to") != pl.col("from")).group_by("set_number", "from").sum()
    assert sums["ratio"].to_list() == pytest.approx([1.0] * len(sums))
    assert results["diversions by mode"].to_frame().columns == [
        "to",
        "from",
        "ratio",
        "low",
        "high",
    ]


def test_other_frames_have_their_columns(results):
    shares = results["shares"].to_frame()
    assert shares.columns == ["alternative", "share", "standard_error"]
    assert shares["share"].sum() == pytest.approx(1)
    worth = results["worth"].to_frame()
    assert worth.columns == ["feature", "worth", "standard_error", "low", "high"]
    moved = results["share change"]
    assert moved.to_frame()["change"].to_list() == (moved.after - moved.before).tolist()
    regions = results["regions"].to_frame()
    assert regions["share"].sum() == pytest.approx(1)
    assert results["soft"].to_frame()["measure"].to_list() == ["odds", "regularity"]


def test_a_decoy_effect_as_a_frame():
    choices = sw.datasets.generate("decoy", sets=100).choices
    fitted = sw.MNL().fit(choices)
    a, b = {"x1": 1.0, "x2": 3.0}, {"x1": 3.0, "x2": 1.0}
    found = decoy_effect(fitted, a, b, [{"x1": 0.5, "x2": 2.5}, {"x1": 2.5, "x2": 0.5}])
    frame = found.to_frame()
    assert frame.columns == ["x1", "x2", "p_a", "p_b", "p_decoy", "shift"]
    assert frame["x1"].to_list() == [0.5, 2.5]


def test_a_long_table_is_cut_and_says_so():
    text = _page.notebook_html(["name"], [[str(i)] for i in range(2_345)], note="more")
    assert len(Reader(text).cells) == 1 + _page.ROWS_IN_NOTEBOOK
    assert "The first 100 of 2,345 rows; to_frame() has all of them. more" in text


# Choices


TRIPS = pl.DataFrame(
    {
        "trip": ["b", "a", "b", "a", "a"],
        "mode": ["car", "bus", None, "car", "rail"],
        "cost": [1.0, None, 3.0, 4.0, 5.0],
        "stops": [0, 1, 2, 3, 4],
        "day": [date(2020, 1, 31), date(2020, 2, 1)] * 2 + [date(2021, 1, 1)],
        "leaves": [datetime(2020, 1, 1, hour) for hour in range(5)],
        "income": [10, 20, 10, 20, 20],
        "taken": [0, 1, 1, 0, 0],
        "times": [1.0, 2.0, 1.0, 2.0, 2.0],
        "person": ["p", "q", "p", "q", "q"],
        "year": [2020, 2019, 2020, 2019, 2019],
    }
)
ROLES = {
    "set": "trip", "chosen": "taken", "context": ["income"], "weight": "times",
    "group": "person", "time": "year",
    "items": ["impute(mode)", "impute(log(cost))", "stops", "day", "leaves"],
}  # fmt: skip


def test_the_table_comes_back_as_it_was_read():
    frame = sw.read(TRIPS, **ROLES).to_frame()
    assert frame.select(TRIPS.columns).equals(TRIPS)
    assert frame.columns == [
        "trip", "mode", "cost", "stops", "day", "leaves", "income", "taken", "times", "person",
        "year",
    ]  # fmt: skip


def test_the_table_of_some_sets_keeps_its_order():
    choices = sw.read(TRIPS, **ROLES)
    b = int(np.flatnonzero(choices.set_ids == "b").item())
    frame = choices.take(np.array([b])).to_frame()
    assert frame.equals(choices.to_frame().filter(pl.col("trip") == "b"))


def test_reading_the_frame_again_gives_the_same_choices():
    choices = sw.read(TRIPS, **ROLES)
    again = sw.read(choices.to_frame(), **ROLES)
    assert again.chosen.tolist() == choices.chosen.tolist()
    assert again.to_frame().equals(choices.to_frame())


def test_the_frame_of_choices_without_a_choice_and_with_an_outside_option():
    without = sw.read(TRIPS.drop("taken"), **(ROLES | {"chosen": None}))
    assert "taken" not in without.to_frame().columns
    nothing = TRIPS.with_columns(taken=pl.Series([0, 1, 0, 0, 0]))
    outside = sw.read(nothing, **ROLES, on_none="outside")
    assert outside.to_frame()["taken"].to_list() == [0, 1, 0, 0, 0]
    assert "outside option" in outside._repr_html_()


def test_one_column_may_have_two_roles():
    choices = sw.read(TRIPS, set="trip", chosen="taken", items=["stops"], group="trip")
    assert choices.to_frame().columns == ["trip", "stops", "taken"]


def test_choices_on_disk_have_the_same_frame_and_html(tmp_path):
    choices = sw.read(TRIPS, **ROLES)
    sw.save_choices(choices, tmp_path / "trips.setwise-data")
    opened = sw.open_choices(tmp_path / "trips.setwise-data")
    assert opened.on_disk
    assert opened.to_frame().equals(choices.to_frame())
    assert opened._repr_html_() == choices._repr_html_()


def test_a_notebook_shows_sizes_roles_and_the_first_sets():
    text = sw.read(TRIPS, **ROLES)._repr_html_()
    assert "2 sets of 2 to 3 items, 5 rows" in text
    cells = Reader(text).cells
    assert ["items", "impute(mode), impute(log(cost)), stops, day, leaves"] in cells
    assert ["group", "person"] in cells
    assert [
        "b",
        "",
        "3",
        "2",
        "2020-01-31",
        "2020-01-01 02:00:00",
        "10",
        "1",
        "1",
        "p",
        "2020",
    ] in cells


def test_a_notebook_shows_few_sets_rows_and_columns():
    many = sw.datasets.generate("mnl", sets=50, items=4, features=2).choices
    text = many._repr_html_()
    assert "The first 3 of 50 sets." in text
    wide = sw.datasets.generate("mnl", sets=5, items=40, features=30).choices
    text = wide._repr_html_()
    assert "The first 1 of 5 sets. 20 of 32 columns, 12 of 40 rows of these sets" in text
    assert max(map(len, Reader(text).cells)) == 20
    assert len(many.take(np.array([], int))._repr_html_()) > 0
