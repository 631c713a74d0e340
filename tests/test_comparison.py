"""Comparisons: the same splits for all, statistics by hand, a page that stands alone."""

import json
import re

import numpy as np
import pytest

import setwise as sw
from setwise.comparison.comparison import Cell, Comparison
from setwise.comparison.statistics import (
    critical_difference,
    friedman,
    holm,
    mean_places,
    paired_p,
    standard_error,
)
from setwise.reports.comparison import cells, write_report


def invented(table: dict[str, list[float]]) -> Comparison:
    cells = [
        Cell(
            model, split, {"top1": 1 - v, "top5": 1.0, "mean_rank": 1.0, "mrr": 1.0, "nll": v}, 1.0
        )
        for model, values in table.items()
        for split, v in enumerate(values)
    ]
    return Comparison(tuple(cells), "invented data", (0.5, 0.25, 0.25))


def test_the_leaderboard_by_hand():
    result = invented({"a": [0.5, 0.7], "b": [0.4, 0.5]})
    best, other = result.leaderboard()
    assert (best.model, other.model) == ("b", "a")
    assert best.p is None
    assert best.mean["nll"] == pytest.approx(0.45)
    assert best.standard_error["nll"] == pytest.approx(0.05)
    assert other.difference == pytest.approx(0.15)  # (0.1 + 0.2) / 2
    assert other.difference_standard_error == pytest.approx(0.05)


def test_higher_is_better_where_it_is():
    result = invented({"a": [0.5, 0.7], "b": [0.4, 0.5]})
    by_accuracy = Comparison(result.cells, result.data, result.sizes, metric="top1")
    assert [row.model for row in by_accuracy.leaderboard()] == ["b", "a"]


def test_the_corrected_t_test_by_hand():
    # mean 0.15, variance 0.005, 2 splits: t = 0.15 / sqrt((1/2 + 1/2) * 0.005) = 2.12132, 1 df
    # two-sided p with one degree of freedom: 1 - 2/pi * atan(2.12132)
    p = paired_p(np.array([0.1, 0.2]), 0.5)
    assert p == pytest.approx(1 - 2 / np.pi * np.arctan(2.1213203), abs=1e-6)


def test_holm_by_hand():
    # sorted .005, .01, .03, .04 -> 4 * .005, 3 * .01, 2 * .03, then not below the one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_under_the_null_the_corrected_test_is_not_too_eager():
    rng = np.random.default_rng(0)
    p = [paired_p(rng.normal(size=10), 0.5) for _ in range(2000)]
    assert np.mean(np.array(p) < 0.05) < 0.05


def test_friedman_needs_three_models():
    assert friedman(np.zeros((2, 5))) is None
    ordered = np.arange(3)[:, None] + np.zeros((3, 10)) + np.linspace(0, 0.1, 10)
    assert friedman(ordered)[1] < 0.001
    assert friedman(np.ones((3, 4))) == (0, 1)


def test_friedmans_statistic_by_hand():
    # rank sums 4, 8, 12 on 4 splits: 12 / (4 * 3 * 4) * (16 + 64 + 144) - 3 * 4 * 4 = 8
    ordered = np.arange(3)[:, None] + np.zeros((3, 4))
    statistic, p = friedman(ordered)
    assert statistic == pytest.approx(8)
    assert p == pytest.approx(np.exp(-4))  # chi-squared with two degrees of freedom
    assert friedman(np.ones((3, 4))) == (0, 1)
    assert friedman(np.ones((3, 1))) is None


def test_equal_models_share_their_places():
    table = np.array([[0.3, 0.5], [0.3, 0.4], [0.1, 0.6]])
    assert mean_places(table, True).tolist() == [1.75, 2.25, 2.0]
    assert mean_places(table, False).tolist() == [2.25, 1.75, 2.0]


@pytest.mark.parametrize(("models", "q"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)])
def test_the_critical_difference_has_the_published_quantiles(models, q):
    """Table 5(a) of Demšar (2006), for a level of 5 %; its last digit is not always rounded."""
    scale = np.sqrt(models * (models + 1) / (6 * 20))
    assert critical_difference(models, 20) / scale == pytest.approx(q, abs=1e-3)


def test_one_split_has_no_standard_error():
    assert np.isnan(standard_error(np.array([1.0])))
    best, other = invented({"a": [0.5], "b": [0.4]}).leaderboard()
    assert best.p is None
    assert np.isnan(other.p)
    assert cells(other)[-3:-1] == ["+0.1000", ""]


def test_an_interrupt_ends_the_whole_comparison(monkeypatch):
    """A fit that Ctrl-C cut short keeps its best model; a table must not take it for whole."""

    def interrupted(self, choices, validation=None, **_):
        fitted = original(self, choices, validation)
        fitted.interrupted_ = True
        return fitted

    original = sw.SDW.fit
    monkeypatch.setattr(sw.SDW, "fit", interrupted)
    choices = sw.datasets.generate("mnl", sets=60, features=3).choices
    with pytest.raises(KeyboardInterrupt):
        sw.compare({"w": sw.SDW(2, training=sw.Training(epochs=1))}, choices, splits=2)


@pytest.fixture(scope="module")
def result():
    choices = sw.datasets.generate("mnl", sets=300, items=(2, 5), features=3).choices
    models = {
        "logit": sw.MNL(),
        "weights": sw.SDW(3, training=sw.Training(epochs=2)),
        "all": sw.SDA.paper(3, training=sw.Training(epochs=2)),
    }
    return sw.compare(models, choices, splits=2, seed=7)


def test_the_same_seed_gives_the_same_table(result):
    choices = sw.datasets.generate("mnl", sets=300, items=(2, 5), features=3).choices
    again = sw.compare({"logit": sw.MNL()}, choices, splits=2, seed=7)
    np.testing.assert_array_equal(again.values("nll")[0], result.values("nll")[0])
    train, valid, test = sw.split(choices, seed=8)
    alone = sw.SDW(3, training=sw.Training(epochs=2), seed=8).fit(train, valid).evaluate(test)
    assert result.values("nll")[1, 1] == alone.nll


def test_a_set_of_one_item_is_refused_whatever_part_it_would_be_in():
    made = sw.datasets.generate("mnl", sets=40, items=(1, 4), features=3, seed=2)
    for seed in range(3):
        with pytest.raises(sw.InputError, match="has only one item"):
            sw.compare(["mnl"], made.choices, splits=1, seed=seed)


def test_to_json_is_plain(result):
    plain = json.loads(json.dumps(result.to_json()))
    assert len(plain["cells"]) == 6
    assert {row["model"] for row in plain["leaderboard"]} == {"logit", "weights", "all"}


def test_the_report_stands_alone_and_repeats_itself(result, tmp_path):
    write_report(result, tmp_path / "a.html", "A & B")
    write_report(result, tmp_path / "b.html", "A & B")
    page = (tmp_path / "a.html").read_text()
    assert page == (tmp_path / "b.html").read_text()
    assert "A &amp; B" in page
    assert page.count("<svg") == 2
    assert page.count("</svg>") == 2
    assert "http" not in page.replace("http://www.w3.org/", "")  # namespaces of SVG and no more
    asked = re.findall(r'(?:src|href)="(?!#)([^"]*)"', page)
    assert asked == []
    for row in result.leaderboard():
        assert row.model in page
        assert f"{100 * row.mean['top1']:.2f}" in page


def test_no_part_of_the_report_is_wider_than_the_screen(result, tmp_path):
    write_report(result, tmp_path / "a.html")
    style = (tmp_path / "a.html").read_text().partition("</style>")[0]
    # Cells break into lines before they would be cut off, and pictures shrink.
    assert "nowrap" not in style
    assert "overflow-wrap: break-word" in style
    assert "figure svg { width: 100%; height: auto; }" in style
    assert (tmp_path / "a.html").read_text().count('<div class="scroll"><table') == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"splits": 0}, "splits=0"),
        ({"metric": "auc"}, "metric='auc' must be one of: top1"),
        ({"split_by": "time"}, "only one split by time"),
        ({"models": []}, "no model"),
        ({"models": ["svm"]}, "no model 'svm'; there are: mnl"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    choices = sw.datasets.generate("mnl", sets=20).choices
    models = arguments.pop("models", ["mnl"])
    with pytest.raises(sw.InputError, match=message):
        sw.compare(models, choices, **arguments)
