"""The report of a reproduction: arithmetic by hand, the paper's layout, the same bytes."""

import csv
import html
import io
import math
import re
from html.parser import HTMLParser
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise._errors import InputError
from setwise._page import as_html, as_markdown
from setwise.paper import published_results
from setwise.paper.reproduction.panels import (
    classical_table,
    dimension_table,
    panels,
    pictures,
    region_table,
)
from setwise.paper.reproduction.protocol import (
    ABLATION,
    CLASSICAL,
    MAIN_DIMENSION,
    REGIONS,
    TABLE,
    Method,
    MethodResult,
    Region,
    Results,
    Setting,
)
from setwise.paper.reproduction.report import as_csv, headline, tables_beside_paper, write_report
from setwise.paper.reproduction.tables import (
    Measured,
    ResultRow,
    ResultTable,
    Value,
    ablation_tables,
    display_name,
    full_tables,
    main_tables,
    significance,
)

MODELS = [model for models in TABLE.values() for model in models]
RUN = {
    "command": "setwise reproduce all --set <id>",
    "seconds": 4321.5,
    "machine": "2 cores",
    "versions": {"setwise": "0.1", "jax": "0.8"},
    "finished": "2026-01-02",
}


def setting(data: str = "Expedia", max_items: int = 10) -> Setting:
    return Setting(data, max_items, 20_000, 600, 7.25, 8)


def outcomes(
    where: Setting, method: Method, top1: list[float], kappa: float | None = None, **others: float
) -> list[MethodResult]:
    """One split for each top-1; the other measures follow from it where they are not given."""
    return [
        MethodResult(
            where.data,
            where.max_items,
            method,
            split,
            {"top1": v, "top5": v + 0.5, "mean_rank": 4 - v, "mrr": v, "nll": 2 - v} | others,
            kappa,
        )
        for split, v in enumerate(top1)
    ]


def results(part: str, *found: list[MethodResult], regions: tuple[Region, ...] = ()) -> Results:
    """Of all settings that the outcomes have."""
    flat = [one for some in found for one in some]
    places = dict.fromkeys((one.data, one.max_items) for one in flat)
    protocol = {"part": part, "splits": 2, "sets": 600, "trials": 4, "epochs": 30, "seed": 0}
    return Results(protocol, RUN, tuple(setting(*one) for one in places), tuple(flat), regions)


def everything() -> Results:
    """All methods on two sizes of Expedia and one of other data, drawn with a seed."""
    rng = np.random.default_rng(0)
    places = [setting("Expedia", 20), setting("Expedia", 10), setting("My <data> | 1", 10)]
    found = []
    for where in places:
        main = where == places[1]
        names = dict.fromkeys([*MODELS, *ABLATION, *(CLASSICAL if main else ())])
        methods = [Method(name) for name in names]
        methods += [Method("sda", length) for length in (1, 4)] if main else []
        for method in methods:
            known = method.model in REGIONS and main
            kappa = float(rng.uniform(0, 0.2)) if known else None
            found.append(outcomes(where, method, rng.uniform(0.1, 0.4, 3).tolist(), kappa))
    regions = tuple(
        Region("Expedia", 10, split, right, 10, dict.fromkeys(REGIONS, 0.25))
        for split in range(3)
        for size in range(4)
        for right in combinations(REGIONS, size)
    )
    return results("all", *found, regions=regions)


def cell(table: ResultTable, row: str, column: tuple[str, str]) -> Value:
    (found,) = [one for one in table.rows if one.name == row]
    value = found.cells[table.columns.index(column)]
    assert isinstance(value, Value)
    return value


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_report(everything(), folder)
    return folder


class Tags(HTMLParser):
    """The tags of a page, checked to close in order; and every address in it."""

    VOID = ("meta", "br", "img", "link")

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)
        self.addresses += [v for k, v in attrs if k in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


# Means, errors and units


def test_table_1_by_hand():
    found = results("table1", outcomes(setting(), Method("sda"), [0.30, 0.34, 0.35]))
    table, own = main_tables(Measured(found), TABLE)
    top1 = cell(table, "SDA", ("Expedia (n ≤ 10)", "top-1 %"))
    # mean 33 %; deviations -3, 1, 2: variance 7, error sqrt(7 / 3)
    assert top1.mean == pytest.approx(33)
    assert top1.error == pytest.approx(math.sqrt(7 / 3))
    assert str(top1) == "33.00 ± 1.53"
    assert str(cell(table, "SDA", ("Expedia (n ≤ 10)", "mean rank"))) == "3.67 ± 0.02"
    assert cell(own, "SDA", ("Expedia (n ≤ 10)", "NLL")).mean == pytest.approx(1.67)


def test_table_1_has_the_papers_groups_rows_and_columns():
    found = everything()
    table, _ = main_tables(Measured(found), TABLE)
    names = {ours: theirs for theirs, ours in published_results.METHODS.items()}
    assert [(row.group, row.name) for row in table.rows] == [
        (group, names[model]) for group, models in TABLE.items() for model in models
    ]
    # each data set at its least N, whatever the order of the settings
    assert list(dict.fromkeys(group for group, _ in table.columns)) == [
        "Expedia (n ≤ 10)",
        "My <data> | 1 (n ≤ 10)",
    ]
    assert [name for _, name in table.columns][:3] == ["top-1 %", "top-5 %", "mean rank"]


def test_the_best_of_a_column_is_the_highest_accuracy_and_the_lowest_rank():
    found = results(
        "table1",
        outcomes(setting(), Method("sda"), [0.3, 0.3], mean_rank=3.0),
        outcomes(setting(), Method("mnl"), [0.2, 0.2], mean_rank=2.0),
    )
    table, own = main_tables(Measured(found), TABLE)
    best = {
        (row.name, name): value.best
        for row in table.rows
        for (_, name), value in zip(table.columns, row.cells, strict=True)
    }
    assert best["SDA", "top-1 %"]
    assert not best["MNL", "top-1 %"]
    assert best["MNL", "mean rank"]
    assert not best["SDA", "mean rank"]
    assert "**30.00 ± 0.00**" in as_markdown("", [table.block()])
    assert "<b>30.00 ± 0.00</b>" in as_html([table.block()])
    assert not any("κ" in column for column in own.columns)  # not measured: no column


def test_means_that_read_the_same_are_both_best():
    found = results(
        "table1",
        outcomes(setting(), Method("sda"), [0.1, 0.2, 0.3]),
        outcomes(setting(), Method("mnl"), [0.3, 0.2, 0.1]),
        outcomes(setting(), Method("sde"), [0.3, 0.2, 0.0999]),
    )
    table, _ = main_tables(Measured(found), TABLE)
    best = {row.name: row.cells[0].best for row in table.rows}
    # summed in another order, the two means differ in their last bit; 19.997 % reads as 20.00
    assert best == {"SDA": True, "SDE": True, "MNL": True}


def test_a_method_that_was_not_run_has_no_row_and_one_not_run_here_an_empty_cell():
    other = setting("Outbrain", 12)
    found = results(
        "table1",
        outcomes(setting(), Method("sda"), [0.3, 0.4]),
        outcomes(other, Method("sda"), [0.3, 0.4]),
        outcomes(other, Method("mnl"), [0.2, 0.3]),
    )
    table, _ = main_tables(Measured(found), TABLE)
    assert [row.name for row in table.rows] == ["SDA", "MNL"]
    assert table.rows[1].cells[:3] == (None, None, None)
    assert "| MNL |  |  |  | 25.00 ± 5.00 |" in as_markdown("", [table.block()])


def test_the_full_table_is_for_data_with_several_sizes():
    table, *others = full_tables(Measured(everything()), TABLE)
    assert others == []
    assert [group for group, _ in table.columns][::3] == ["Expedia (n ≤ 10)", "Expedia (n ≤ 20)"]


def test_the_ablation_has_its_eight_rows_in_order():
    first, *_ = ablation_tables(Measured(everything()))
    assert [row.name for row in first.rows] == [display_name(model) for model in ABLATION]
    assert len(first.rows) == 8
    assert len(first.columns) == 6  # two sizes, three measures


# Beside the paper


def test_the_difference_from_the_paper_by_hand():
    found = results("table1", outcomes(setting(), Method("sda"), [0.31, 0.33]))
    (table,) = tables_beside_paper(Measured(found), TABLE)
    # the paper: 31.49 ± 0.2; ours: 32 ± 1
    assert str(cell(table, "SDA", ("top-1 %", "paper"))) == "31.49 ± 0.20"
    difference = cell(table, "SDA", ("top-1 %", "difference"))
    assert difference.mean == pytest.approx(0.51)
    assert difference.error == pytest.approx(math.hypot(1, 0.2))
    assert str(difference) == "+0.51 ± 1.02"
    # top-5: 82 ± 1 against 86.91 ± 0.2 is far; mean rank: 3.68 ± 0.01 against 2.99 ± 0 too
    assert "1 of the 3 values" in table.notes[0]


def test_values_of_the_ablation_come_from_the_papers_ablation():
    found = results("ablation", outcomes(setting(), Method("sda_tanh"), [0.31, 0.33]))
    (table,) = tables_beside_paper(Measured(found), {"ablation": ABLATION})
    assert cell(table, "SDA with g=tanh", ("top-1 %", "paper")).mean == 31.19


def test_artefacts_of_the_paper_are_marked_and_not_counted():
    outbrain = setting("Outbrain", 12)
    found = results(
        "table1",
        outcomes(setting(), Method("random"), [0.14, 0.15]),
        outcomes(setting(), Method("single_feature"), [0.14, 0.15]),
        outcomes(outbrain, Method("single_feature"), [0.2, 0.3]),
    )
    expedia, other = tables_beside_paper(Measured(found), TABLE)
    marks = {
        (row.name, column): value.mark
        for row in expedia.rows
        for column, value in zip(expedia.columns, row.cells, strict=True)
    }
    assert {where for where, mark in marks.items() if mark} == {
        ("Random", (measure, column))
        for measure in ("top-5 %", "mean rank")
        for column in ("paper", "difference")
    }
    assert "of the 4 values" in expedia.notes[0]  # Random's top-1, and all three of Price/Quality
    assert expedia.notes[1].startswith("* ")
    assert cell(other, "Price/Quality", ("top-5 %", "paper")).mark == "*"
    assert cell(other, "Price/Quality", ("top-1 %", "paper")).mark == ""


@pytest.mark.parametrize(("data", "max_items"), [("Expedia bookings", 10), ("Expedia", 15)])
def test_what_the_paper_does_not_have_is_not_beside_it(data, max_items):
    found = results("table1", outcomes(setting(data, max_items), Method("sda"), [0.3, 0.4]))
    assert tables_beside_paper(Measured(found), TABLE) == []


# Significance


def test_places_and_comparisons_by_hand():
    found = results(
        "table1",
        outcomes(setting(), Method("sda"), [0.40, 0.50]),
        outcomes(setting(), Method("mnl"), [0.30, 0.30]),
        outcomes(setting(), Method("random"), [0.30, 0.10]),
    )
    (friedman, pairs), untested = significance(Measured(found), "methods", MODELS)
    assert untested == []
    assert [row.name for row in pairs.rows] == ["SDA", "MNL", "Random"]
    places = [cell(pairs, row.name, ("top-1 %", "place")).mean for row in pairs.rows]
    assert places == [1, 2.25, 2.75]  # equals share the places 2 and 3 on the first split
    less = cell(pairs, "MNL", ("top-1 %", "less SDA"))
    assert less.mean == pytest.approx(-15)
    assert less.error == pytest.approx(5)
    # t = -15 / sqrt((1/2 + 1/2) * 50), one degree of freedom; Random: -25 / sqrt(450), the larger
    p = [1 - 2 / math.pi * math.atan(t) for t in (15 / math.sqrt(50), 25 / math.sqrt(450))]
    assert cell(pairs, "MNL", ("top-1 %", "p")).mean == pytest.approx(2 * p[0])
    assert cell(pairs, "Random", ("top-1 %", "p")).mean == pytest.approx(max(2 * p[0], p[1]))
    assert pairs.rows[0].cells[1:3] == (None, None)  # SDA less itself
    first = dict(zip([name for _, name in friedman.columns], friedman.rows[0].cells, strict=True))
    assert (first["methods"].mean, first["splits"].mean) == (3, 2)
    # Demšar's q for three methods is 2.343; sqrt(3 * 4 / (6 * 2)) is 1
    assert first["critical difference"].mean == pytest.approx(2.343, abs=1e-3)


def test_far_places_are_marked():
    found = [outcomes(setting(), Method("sda"), [0.4] * 10)]
    found += [outcomes(setting(), Method("mnl"), [0.39] * 10)]
    found += [outcomes(setting(), Method("random"), [0.1] * 10)]
    (_, pairs), _ = significance(Measured(results("table1", *found)), "methods", MODELS)
    # the critical difference is 2.343 * sqrt(12 / 60) = 1.05: 2 places are far, 1 is not
    assert [cell(pairs, one, ("top-1 %", "place")).mark for one in ("MNL", "Random")] == ["", "†"]


def test_equal_methods_are_not_told_apart():
    found = [outcomes(setting(), Method(model), [0.3, 0.4]) for model in ("sda", "mnl", "random")]
    (friedman, pairs), _ = significance(Measured(results("table1", *found)), "methods", MODELS)
    assert [value.mean for value in friedman.rows[0].cells[2:4]] == [0, 1]
    assert cell(pairs, "MNL", ("top-1 %", "p")).mean == 1


def test_only_shared_splits_are_compared():
    found = results(
        "table1",
        outcomes(setting(), Method("sda"), [0.4, 0.5, 0.6]),
        outcomes(setting(), Method("mnl"), [0.3, 0.3]),
    )
    (friedman, pairs), _ = significance(Measured(found), "methods", MODELS)
    assert friedman.rows[0].cells[1].mean == 2
    assert friedman.rows[0].cells[2:4] == (None, None)  # Friedman needs three methods
    assert cell(pairs, "MNL", ("top-1 %", "less SDA")).mean == pytest.approx(-15)


def test_without_sda_there_are_places_alone():
    found = [outcomes(setting(), Method(model), [0.3, 0.4]) for model in ("mnl", "random")]
    (_, pairs), _ = significance(Measured(results("table1", *found)), "methods", MODELS)
    assert [name for _, name in pairs.columns] == ["place", "place"]


def test_one_split_cannot_be_tested_and_has_no_errors(tmp_path):
    found = [outcomes(setting(), Method(model), [0.3]) for model in MODELS]
    write_report(results("table1", *found), tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert "the methods have one split in common; a test needs two" in text
    assert "From a single split" in text
    assert "| Ours | SDA | **30.00** | **80.00** | **3.70** |" in text
    assert not re.search(r"\bnan\b", text)


# Figures


def test_the_left_panel_is_sda_by_dimension():
    found = results(
        "figures",
        outcomes(setting(), Method("sda"), [0.3, 0.4], kappa=0.25),
        outcomes(setting(), Method("sda", 4), [0.2, 0.3], kappa=0.125),
        outcomes(setting(), Method("sda", 32), [0.2, 0.4]),
    )
    table = dimension_table(found, Measured(found), setting())
    assert [row.name for row in table.rows] == ["4", str(MAIN_DIMENSION), "32"]
    assert [row.cells[0].mean for row in table.rows] == pytest.approx([25, 35, 30])
    assert table.rows[0].cells[1].mean == 0.125
    assert table.rows[2].cells[1] is None


def test_the_centre_panel_is_sorted_and_named_as_economists_know_them():
    values = dict(zip(CLASSICAL, np.linspace(0.2, 0.3, len(CLASSICAL)).tolist(), strict=True))
    found = [outcomes(setting(), Method(model), [v, v]) for model, v in values.items()]
    found.append(outcomes(setting(), Method("sda"), [0.25, 0.24]))
    table = classical_table(Measured(results("figures", *found)), setting())
    means = [row.cells[0].mean for row in table.rows]
    assert all(a > b for a, b in pairwise(means))
    names = [row.name for row in table.rows]
    assert len(set(names)) == 10
    assert {"SDA", "MNL", "Tversky 1969", "McFadden 1978", "Kivetz et al. 2004 (LAM)"} <= set(names)


def test_regions_are_pooled_over_the_sets_of_all_splits():
    none = dict.fromkeys(REGIONS)
    here = (
        Region("Expedia", 10, 0, ("sda",), 30, {"sda": 0.5, "mnl": 0.0, "deep_sets": 1.0}),
        Region("Expedia", 10, 1, ("sda",), 10, {"sda": 0.1, "mnl": 0.0, "deep_sets": 1.0}),
        Region("Expedia", 10, 0, (), 60, {"sda": 0.2, "mnl": 0.0, "deep_sets": 0.5}),
        Region("Expedia", 10, 1, ("mnl",), 0, none),
        Region("Expedia", 20, 0, ("sda",), 99, {"sda": 0.9, "mnl": 0.0, "deep_sets": 1.0}),
    )
    table = region_table(results("figures", regions=here), setting())
    assert len(table.rows) == 8
    shown = {row.name: [None if v is None else v.mean for v in row.cells] for row in table.rows}
    assert shown["SDA only"] == pytest.approx([40, (30 * 0.5 + 10 * 0.1) / 40, 0, 1])
    assert shown["none"] == pytest.approx([60, 0.2, 0, 0.5])
    assert shown["MNL only"] == [0, None, None, None]


def test_panels_without_outcomes_are_not_drawn():
    found = results(
        "figures",
        outcomes(setting(), Method("sda"), [0.3]),
        outcomes(setting(), Method("sda", 1), [0.2]),
        outcomes(setting(), Method("mnl"), [0.2]),
    )
    (panel,) = panels(found, Measured(found), setting())
    assert panel.name == "dimensions"
    first, alone = pictures("expedia", "Expedia", [panel])
    assert (first.figure.name, alone.figure.name) == ("expedia", "expedia-dimensions")
    assert first.png.startswith(b"\x89PNG")
    assert pictures("expedia", "Expedia", []) == []


# The files


def test_the_folder_holds_the_report_and_its_figures(written):
    names = {str(path.relative_to(written)) for path in written.rglob("*") if path.is_file()}
    parts = ("", "-dimensions", "-classical", "-regions")
    assert names == {"report.html", "report.md", "tables.csv"} | {
        f"figures/expedia{part}.{kind}" for part in parts for kind in ("svg", "png")
    }


def test_the_page_is_whole_and_asks_the_network_for_nothing(written):
    text = (written / "report.html").read_text()
    tags = Tags()
    tags.feed(text)
    tags.close()
    assert tags.open == []
    assert tags.seen.count("svg") == 1  # the three panels of Expedia
    assert "nowrap" not in text.partition("</style>")[0]  # cells break before they are cut off
    assert text.count("<table") == text.count('<div class="scroll"><table')
    assert tags.addresses
    assert all(address.startswith(("#", "data:")) for address in tags.addresses)
    assert not re.search(r"@import|url\((?!#)", text)
    assert "My &lt;data&gt; | 1" in text
    assert "My <data>" not in text


def test_page_and_markdown_say_the_same(written):
    page = (written / "report.html").read_text()
    text = (written / "report.md").read_text()
    titles = [html.unescape(title) for title in re.findall(r"<h2>(.*)</h2>", page)]
    assert titles == [one.replace("\\", "") for one in re.findall(r"^## (.*)", text, re.M)]
    numbers = re.compile(r"[-+]?\d+\.\d+ ± \d+\.\d+")
    tables = "".join(re.findall(r"<table>.*?</table>", page, re.S))
    assert numbers.findall(tables) == numbers.findall(text)
    assert not re.search(r"\b(nan|inf)\b", text)
    for name in re.findall(r"\]\((figures/.*?)\)", text):
        assert (written / name).is_file()


def test_the_sections_stand_in_the_papers_order(written):
    titles = re.findall(r"^## (.*)", (written / "report.md").read_text(), re.M)
    assert titles[:5] == [
        "What was run",
        "Main results",
        "All sizes of sets",
        "Ablation",
        "Beside the paper's values",
    ]
    assert titles[5].startswith("Are the differences")
    assert titles[-1] == "Figure: Expedia (n ≤ 10)"  # the other data have none


def test_what_was_run_is_said(written):
    text = (written / "report.md").read_text()
    assert "2 random splits (50:25:25 of whole sets), each of at most 600 sampled sets" in text
    assert "4 trials of tuning" in text
    assert "| Expedia (n ≤ 20) | 20,000 | 600 | 7.25 | 8 |" in text
    assert "setwise reproduce all --set <id>" in text
    assert "Time: 1 h 12 min; machine: 2 cores; versions: setwise 0.1, jax 0.8" in text


def test_every_number_of_the_tables_is_in_the_file(written):
    with (written / "tables.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(math.isfinite(float(row["value"])) for row in rows)
    (one,) = [
        row
        for row in rows
        if (row["table"], row["row"], row["column_group"], row["column"])
        == ("table1", "SDA", "Expedia (n ≤ 10)", "top-1 %")
    ]
    shown = f"{float(one['value']):.2f} ± {float(one['standard_error']):.2f}"
    line = next(
        line for line in (written / "report.md").read_text().splitlines() if "| SDA |" in line
    )
    assert line.split(" | ")[2].strip("*†") == shown
    assert {row["table"] for row in rows} >= {
        "settings", "table1", "table1_own", "full", "ablation", "beside", "methods_friedman",
        "methods_pairs", "figure_dimensions", "figure_classical", "figure_regions",
    }  # fmt: skip
    places = [tuple(row.values())[:6] for row in rows]
    assert len(set(places)) == len(places)


def test_the_same_results_give_the_same_bytes(written, tmp_path):
    kept = tmp_path / "results.json"
    everything().save(kept)
    for path in write_report(Results.open(kept), tmp_path / "again"):
        first = written / path.relative_to(tmp_path / "again")
        assert path.read_bytes() == first.read_bytes(), path


@pytest.mark.parametrize(
    ("part", "there", "missing"),
    [
        ("table1", "Main results", ("All sizes of sets", "Ablation", "Figure")),
        ("ablation", "Ablation", ("Main results", "All sizes of sets", "Figure")),
        ("figures", "Figure", ("Main results", "Ablation", "Are the differences", "Beside")),
    ],
)
def test_a_part_has_its_own_sections_only(part, there, missing, tmp_path):
    names = {"table1": MODELS, "ablation": ABLATION, "figures": ("sda", "mnl", "lam")}[part]
    found = [outcomes(setting(), Method(name), [0.3, 0.4]) for name in names]
    files = write_report(results(part, *found), tmp_path)
    titles = re.findall(r"^## (.*)", (tmp_path / "report.md").read_text(), re.M)
    assert any(title.startswith(there) for title in titles)
    assert not any(title.startswith(missing) for title in titles)
    assert ((tmp_path / "figures").exists()) is (part == "figures")
    assert all(path.is_file() for path in files)


def test_nothing_measured_is_a_short_report(tmp_path):
    write_report(results("all"), tmp_path)
    titles = re.findall(r"^## (.*)", (tmp_path / "report.md").read_text(), re.M)
    assert titles == ["What was run"]
    assert headline(results("all")) == ""


def test_a_file_is_no_folder_to_write_to(tmp_path):
    taken = tmp_path / "taken"
    taken.touch()
    with pytest.raises(InputError, match="it is a file; name a folder"):
        write_report(everything(), taken)


@given(st.text())
def test_any_name_stays_in_its_cell(name):
    table = ResultTable(
        "t", name, "s", (("", name),), (ResultRow("", name, (Value(1.0),)),), (name,)
    )
    tags = Tags()
    tags.feed(as_html([table.block()]))
    tags.close()
    assert tags.open == []
    assert tags.seen.count("td") == 1
    lines = [line for line in as_markdown("", [table.block()]).split("\n") if line.startswith("| ")]
    assert [len(re.findall(r"(?<!\\)\|", line.replace(r"\\", ""))) for line in lines] == [3, 3, 3]
    _, row = csv.reader(io.StringIO(as_csv([table]), newline=""))
    plain = " ".join(name.split())
    assert row == ["t", plain, "", plain, "", plain, "1.0", ""]


# The terminal


def test_rows_worse_than_random_are_marked_and_explained():
    where = setting()
    found = results(
        "table1",
        outcomes(where, Method("sda"), [0.3, 0.34]),
        outcomes(where, Method("mnl"), [0.1, 0.12]),
        outcomes(where, Method("sdw"), [0.3, 0.3], nll=9.0),
        outcomes(where, Method("random"), [0.14, 0.14]),
    )
    first, own = main_tables(Measured(found), TABLE)
    marks = {row.name: [cell.mark for cell in row.cells] for row in first.rows}
    assert marks == {"SDA": [""] * 3, "SDW": [""] * 3, "MNL": ["†"] * 3, "Random": [""] * 3}
    assert sum(note.startswith("† Worse than Random") for note in first.notes) == 1
    nll = {row.name: row.cells[1].mark for row in own.rows}
    assert nll == {"SDA": "", "SDW": "†", "MNL": "†", "Random": ""}
    assert headline(found) == (
        "Expedia (n ≤ 10): SDA is first by top-1 with 32.00 %, 21.00 points over MNL; worse than "
        "Random (14.00 %): MNL."
    )


def test_nothing_is_marked_where_nothing_is_worse_than_random():
    where = setting()
    found = results(
        "table1",
        outcomes(where, Method("mnl"), [0.3, 0.34]),
        outcomes(where, Method("random"), [0.14, 0.14]),
    )
    (first, _) = main_tables(Measured(found), TABLE)
    assert not any("†" in str(cell) for row in first.rows for cell in row.cells)
    assert not any("†" in note for note in first.notes)
    assert "worse" not in headline(found)


def test_tables_with_sda_say_which_it_is():
    where = setting()
    with_sda = results("ablation", outcomes(where, Method("sda"), [0.3]))
    without = results("ablation", outcomes(where, Method("sdw"), [0.3]))
    assert any("SDA.paper()" in note for note in ablation_tables(Measured(with_sda))[0].notes)
    assert not any("SDA.paper()" in note for note in ablation_tables(Measured(without))[0].notes)


def test_the_headline_names_the_first_and_its_lead():
    found = results(
        "table1",
        outcomes(setting(), Method("sda"), [0.30, 0.32]),
        outcomes(setting(), Method("mnl"), [0.30, 0.30]),
        outcomes(setting("Outbrain", 12), Method("mnl"), [0.30, 0.30]),
        outcomes(setting("Outbrain", 12), Method("sde"), [0.20, 0.30]),
        outcomes(setting("Swissmetro", 3), Method("sde"), [0.20, 0.30]),
    )
    assert headline(found) == (
        "Expedia (n ≤ 10): SDA is first by top-1 with 31.00 %, 1.00 points over MNL. "
        "Outbrain (n ≤ 12): MNL is first by top-1 with 30.00 %, 5.00 points over SDE. "
        "Swissmetro (n ≤ 3): SDE is first by top-1 with 25.00 %."
    )
