"""The paper's results are all there, and every method of theirs is a model of ours."""

import itertools

import pytest

import setwise as sw
from setwise._errors import InputError
from setwise.paper import published_results

METRICS = ("top1", "top5", "mean_rank")
SETTINGS = [(name, size) for name, sizes in published_results.MAX_ITEMS.items() for size in sizes]
ROWS = {
    "full": [
        "SDA", "SDE", "SDW", "MNL", "SVMRank", "RankNet", "Mixed MNL", "AdaRank", "Deep Sets",
        "Price/Quality", "Random",
    ],
    "ablation": [
        "SDA", "SDA with g=tanh", "SDA with no g", "SDA with w vector variable", "SDE", "SDW",
        "MNL with w setnn", "MNL",
    ],
}  # fmt: skip


def key(one: published_results.Published) -> tuple:
    return one.table, one.dataset, one.max_items, one.method, one.metric


def test_each_table_has_each_method_at_each_size_by_each_measure_once():
    wanted = [
        (table, dataset, size, method, metric)
        for table, methods in ROWS.items()
        for (dataset, size), method, metric in itertools.product(SETTINGS, methods, METRICS)
    ]
    assert sorted(map(key, published_results.published())) == sorted(wanted)
    assert len(wanted) == 570


def test_values_are_in_the_units_that_are_promised():
    for one in published_results.published():
        most = one.max_items if one.metric == "mean_rank" else 100
        least = 1 if one.metric == "mean_rank" else 0
        assert least <= one.value <= most, one
        assert 0 <= one.standard_error < 5, one


def test_some_values_as_the_paper_prints_them():
    def value(*asked) -> tuple[float, float]:
        (one,) = published_results.published(*asked)
        return one.value, one.standard_error

    assert value("full", "Amadeus", 10, "SDA", "top1") == (45.42, 0.5)
    assert value("full", "Outbrain", 12, "Random", "mean_rank") == (8.32, 0.0)
    assert value("full", "Expedia", 40, "Random", "top5") == (13.25, 0.2)
    assert value("ablation", "Amadeus", 50, "SDA with g=tanh", "top1") == (20.67, 0.3)


def test_both_tables_agree_where_they_overlap():
    def shared(table: str) -> dict:
        methods = set(ROWS["full"]) & set(ROWS["ablation"])
        return {
            key(one)[1:]: one.value
            for one in published_results.published(table)
            if one.method in methods
        }

    assert shared("full") == shared("ablation")


def test_every_method_is_a_model_of_the_zoo_and_no_two_are_the_same():
    assert set(published_results.METHODS) == {one.method for one in published_results.published()}
    assert set(published_results.METHODS.values()) <= {entry.name for entry in sw.zoo()}
    assert len(set(published_results.METHODS.values())) == len(published_results.METHODS)


def test_every_measure_is_one_of_ours():
    assert set(published_results.COLUMNS.values()) == {
        one.metric for one in published_results.published()
    }
    assert set(published_results.COLUMNS.values()) <= set(sw.metrics.HIGHER_IS_BETTER)


def test_the_main_table_has_eleven_methods_on_three_data_sets():
    main = published_results.main_table()
    assert {(one.dataset, one.max_items) for one in main} == {
        ("Amadeus", 10), ("Expedia", 10), ("Outbrain", 12),
    }  # fmt: skip
    assert len(main) == 11 * 3 * 3


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"dataset": "expedia"}, "no dataset 'expedia'; it has: Amadeus, Expedia, Outbrain"),
        ({"max_items": 15}, "no max_items 15; it has: 10, 20, 30, 40, 50, 12"),
        ({"metric": "mrr"}, "no metric 'mrr'; it has: top1, top5, mean_rank"),
    ],
)
def test_what_the_paper_does_not_have_is_refused(asked, message):
    with pytest.raises(InputError, match=message):
        published_results.published(**asked)


def test_a_setting_that_no_data_set_has_is_empty():
    assert published_results.published(dataset="Outbrain", max_items=50) == ()
