"""What the page on the paper says is computed, and what it concludes follows."""

import importlib.util
import itertools
import json
import sys
import types
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from beside import DATA, needs
from setwise._errors import InputError
from setwise.models import ZOO, Sizes
from setwise.paper.published_results import MAX_ITEMS, main_table, published

DOCS = Path(__file__).parent.parent / "docs"
STORED = json.loads((DOCS / "results" / "paper_evidence.json").read_text("utf-8"))
TEXT = (DOCS / "paper.md").read_text("utf-8")


def _program(name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # one program imports the other
    spec.loader.exec_module(module)
    return module


evidence = _program("paper_evidence")
page = _program("paper_page")
RANDOM = page.random_rows()
BY_SIZE = {
    dataset: [RANDOM[dataset, items] for items in sizes] for dataset, sizes in MAX_ITEMS.items()
}


def mean(values) -> Fraction:
    """Exact, so that bounds need no tolerance."""
    values = [Fraction(value) for value in values]
    return sum(values) / len(values)


# The page


def test_the_page_has_the_computed_numbers():
    assert page.filled(TEXT, page.blocks(STORED)) == TEXT, "run: python docs/paper_page.py"


def test_a_part_that_the_page_lacks_is_missed():
    with pytest.raises(AssertionError, match="no part absent"):
        page.filled(TEXT, {"absent": "nothing"})


@needs("amadeus_itinerary.parquet", "expedia_full.parquet", "outbrain_sample.parquet")
def test_the_stored_numbers_are_those_of_the_samples():
    found = evidence.measure(DATA)
    assert {k: list(v) for k, v in found.items()} == {k: list(v) for k, v in STORED.items()}
    for dataset, settings in STORED.items():
        for items, figures in settings.items():
            for name, value in figures.items():
                np.testing.assert_allclose(found[dataset][items][name], value, rtol=1e-9)


def test_absent_samples_are_named(tmp_path):
    with pytest.raises(InputError, match=r"amadeus_itinerary.parquet is not there"):
        evidence.measure(tmp_path)


# MRR


@given(st.integers(6, 50), st.data())
def test_ranks_lie_within_their_bounds(items, data):
    ranks = data.draw(st.lists(st.integers(1, items), min_size=1))
    top1, top5 = mean(r <= 1 for r in ranks), mean(r <= 5 for r in ranks)
    one = evidence.Triple("any", items, "any", top1, top5, mean(ranks))
    low, high = evidence.mean_rank_bounds(one)
    assert low <= one.mrr <= high
    least, most = evidence.reciprocal_bounds(one)
    assert least <= mean(Fraction(1, rank) for rank in ranks) <= most


@pytest.mark.parametrize(("second", "rest", "side"), [(2, 6, 0), (5, 10, 1)])
def test_the_bounds_of_the_mean_rank_are_attained(second, rest, side):
    one = evidence.Triple("any", 10, "any", Fraction(1, 4), Fraction(3, 4), 0)
    assert evidence.mean_rank_bounds(one)[side] == mean([1, second, second, rest])
    reciprocals = evidence.reciprocal_bounds(one)[1 - side]
    assert reciprocals == mean([1, *[Fraction(1, second)] * 2, Fraction(1, rest)])


def test_every_mrr_of_the_paper_fits_a_mean_rank_and_none_a_reciprocal_rank():
    everything = evidence.triples(published())
    assert len(everything) == 190
    assert len(evidence.triples(main_table())) == 33
    for one in everything:
        assert evidence.within(one.mrr, evidence.mean_rank_bounds(one)), one
        assert not evidence.within(one.mrr, evidence.reciprocal_bounds(one)), one


def test_those_that_fit_a_percentage_are_random():
    fit = [one for one in evidence.triples(published())
           if evidence.within(one.mrr / 100, evidence.reciprocal_bounds(one))]  # fmt: skip
    assert [one.method for one in fit] == ["Random", "Random"]


# The Random row


@given(st.integers(6, 50), st.data())
def test_random_rankings_lie_within_their_bounds(items, data):
    sizes = data.draw(st.lists(st.integers(1, items), min_size=1))
    top1 = mean(Fraction(1, n) for n in sizes)
    top5 = mean(min(Fraction(1), Fraction(5, n)) for n in sizes)
    one = evidence.Triple("any", items, "any", top1, top5, mean(Fraction(n + 1, 2) for n in sizes))
    # Here the bounds have 1 / N as a float: the margin is its rounding.
    low, high = evidence.random_top5_bounds(one)
    assert low - 1e-12 <= one.top5 <= high + 1e-12
    low, high = evidence.random_mean_rank_bounds(one)
    assert low - 1e-12 <= one.mrr <= high + 1e-12


def test_the_row_is_impossible_at_the_least_sizes():
    for row in BY_SIZE.values():
        assert row[0].top5 < 5 / row[0].max_items
        assert not evidence.within(row[0].top5, evidence.random_top5_bounds(row[0]))
        assert not evidence.within(row[0].mrr, evidence.random_mean_rank_bounds(row[0]))


@pytest.mark.parametrize("items", [10, 12, 20, 50])
def test_sorted_places_have_each_rank_once_and_the_mark_comes_first(items):
    ranks = evidence.sorted_ranks(items)
    assert (np.sort(ranks, 1) == np.arange(1, items + 1)).all()
    assert (np.diag(ranks) == 1).all()


def test_short_arrays_are_read_from_the_end_and_long_ones_are_not():
    assert evidence.sorted_ranks(4).tolist() == [
        [1, 4, 3, 2], [4, 1, 3, 2], [4, 3, 1, 2], [4, 3, 2, 1],
    ]  # fmt: skip
    for items, kept in ((16, True), (17, False)):
        others = [np.delete(row, i) for i, row in enumerate(evidence.sorted_ranks(items))]
        assert all((np.diff(row) < 0).all() for row in others) == kept


def test_a_small_table_by_hand():
    found = evidence.measure_setting(np.array([1, 2, 2, 4]), np.array([0, 1, 0, 3]), items=3)
    assert (found["sets"], found["single"]) == (3, 1)
    assert found["filtered_top1"] == pytest.approx([2 / 3, 1 / 6])
    assert found["several_top1"] == pytest.approx([1 / 2, 0])
    assert found["truncated_top1"][0] == pytest.approx((1 + 1 / 2 + 1 / 2 + 1 / 3) / 4)
    assert found["true_mean_rank"][0] == pytest.approx(4 / 3)
    # In a set of two, the chosen item is first where it is marked, and else after the padding.
    assert found["filed_mean_rank"] == pytest.approx([5 / 3, 1 / 3])
    assert found["shuffled_mean_rank"] == pytest.approx([5 / 3, 1 / 3])


def test_the_top5_of_the_paper_and_of_the_sorted_mark_rises_where_a_true_one_falls():
    for dataset in ("Amadeus", "Expedia"):
        small, large = STORED[dataset]["10"], STORED[dataset]["20"]
        assert RANDOM[dataset, 10].top5 < RANDOM[dataset, 20].top5
        assert small["true_top5"][0] > large["true_top5"][0]
        for way in ("filed", "shuffled"):
            assert small[f"{way}_top5"][0] < large[f"{way}_top5"][0]


def test_the_order_that_is_nearer_is_the_one_that_the_page_names():
    def away(dataset: str, way: str) -> float:
        return sum(abs(STORED[dataset][str(one.max_items)][f"{way}_top5"][0] - one.top5)
                   for one in BY_SIZE[dataset])  # fmt: skip

    assert away("Amadeus", "filed") < away("Amadeus", "shuffled") < away("Amadeus", "true")
    assert away("Expedia", "shuffled") < away("Expedia", "filed") < away("Expedia", "true")


def test_our_random_has_the_true_values():
    sizes = [2, 3, 7, 9]
    table = {
        "set_id": np.repeat(np.arange(4), sizes),
        "chosen": np.concatenate([np.arange(n) == n // 2 for n in sizes]).astype(int),
        "x": np.arange(sum(sizes)) * 0.5,
    }
    choices = sw.read(table, set="set_id", chosen="chosen", items=["x"])
    metrics = sw.RandomChoice().fit(choices).evaluate(choices)
    assert metrics.top1 == pytest.approx(float(mean(Fraction(1, n) for n in sizes)))
    assert metrics.top5 == pytest.approx(
        float(mean(min(Fraction(1), Fraction(5, n)) for n in sizes))
    )
    assert metrics.mean_rank == pytest.approx(float(mean(Fraction(n + 1, 2) for n in sizes)))


# Filtering


@given(st.integers(1, 50), st.lists(st.integers(1, 50), min_size=1))
def test_truncated_sizes_respect_the_limit(items, sizes):
    uncut = np.mean([1 / n for n in sizes])
    truncated = np.mean([1 / min(n, items) for n in sizes])
    assert truncated <= evidence.most_truncated_top1(uncut, items, largest=50) + 1e-12


def test_the_paper_exceeds_the_limit_of_truncation_wherever_something_is_cut():
    for dataset, largest in evidence.LARGEST.items():
        *cut, uncut = BY_SIZE[dataset]
        assert uncut.max_items >= largest
        for one in cut:
            limit = evidence.most_truncated_top1(uncut.top1, one.max_items, largest)
            assert one.top1 > limit


def test_on_amadeus_the_paper_is_nearer_to_the_values_with_sets_of_one_item():
    for one in BY_SIZE["Amadeus"]:
        found = STORED["Amadeus"][str(one.max_items)]
        with_single, without = found["filtered_top1"][0], found["several_top1"][0]
        assert abs(one.top1 - with_single) < abs(one.top1 - without)


# Violation capacity


@pytest.mark.parametrize("items", [2, 3, 4, 5])
def test_a_model_of_own_scores_changes_no_prediction_but_is_wrong_about_choices(items):
    names = "abcde"[:items]
    whole = frozenset(names)
    for order in itertools.permutations(names):
        predict = evidence.by_score({name: float(-place) for place, name in enumerate(order)})
        first, second, *rest = order
        assert evidence.kappa(predict, whole, stays=first) == 0
        assert evidence.kappa(predict, whole, stays=second) == (items - 2) / (items - 1)
        assert all(evidence.kappa(predict, whole, stays=name) == 1 for name in rest)


# Parameters


def test_no_architecture_has_the_printed_count():
    found = list(evidence.architectures())
    assert evidence.PRINTED not in found
    assert any(slope == evidence.PRINTED[1] for _, slope in found)


@pytest.mark.parametrize(("wiring", "reads"), [("joint", "scores"), ("shared", "one score")])
@pytest.mark.parametrize("k", [1, 6, 16])
def test_parameters_are_counted_as_our_sda_has_them(wiring, reads, k):
    w = evidence.set_network(reads, k, 24, biases=True)
    r = evidence.set_network(reads, k, 24 * k, biases=True)
    wanted = w[0] + r[0] + 1 + 24 * k * 7
    assert ZOO["sda_inner"].parameters(7, Sizes(components=k, wiring=wiring)) == wanted
    assert (w[0] + r[0] + 1, 24 * k) in set(evidence.architectures())


# Decay


def test_our_training_decays_as_the_page_says():
    training = sw.training.Options()
    assert training.batch_size == evidence.BATCH
    for epochs in page.EPOCHS:
        left = training.rate(epochs) / training.rate(0)
        assert left == pytest.approx(evidence.left_in_epochs(epochs))


def test_counted_in_minibatches_the_steps_add_up_to_five_epochs():
    rates = 0.95 ** (np.arange(40 * 500) // 10)
    assert rates.sum() == pytest.approx(200)
    assert rates[40 * 25] == pytest.approx(evidence.left_in_minibatches(25))
