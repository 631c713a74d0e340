"""Soft violations, influence and bootstrap: by hand, by tables, and as laws over the zoo."""

import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import setwise as sw
from setwise.choices import Schema
from setwise.choices.alternatives import Alternatives
from setwise.estimators import Estimator, removals
from setwise.estimators.removals import Removals
from setwise.metrics.pairs import LevelMatrix, Pairs
from setwise.metrics.set_means import SetMean, bootstrap, bootstrap_interval
from setwise.models import ZOO, Ensemble
from setwise.violations import Violations, soft, violation_capacity
from setwise.violations.soft import influence, soft_violations
from test_violations import (
    DECOY,
    RIVAL,
    TARGET,
    Spread,
    numeric,
    random_sets,
    random_weights,
    read,
    table,
    with_model,
)

QUICK = ("mnl", "mlp", "sda", "mixed_mnl", "cdm")
ONE_OF_EACH = [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in ZOO]
REGULAR = ("mixed_mnl", "mcfadden")  # random utility: an item more takes from all others


def without_rows(estimator, frame: pl.DataFrame):
    """(set, gone, item) -> P, by tables without a row; gone None for the whole set."""
    frame = frame.with_row_index("row")
    asked = [frame.with_columns(copy=pl.lit(-1, pl.Int64))]
    for (_, row), part in frame.group_by("trip", "row", maintain_order=True):
        whole = frame.filter(pl.col("trip") == part["trip"][0])
        asked.append(whole.filter(pl.col("row") != row).with_columns(copy=pl.lit(row, pl.Int64)))
    asked = pl.concat(asked).with_columns(name=pl.format("{} {}", pl.col("trip"), pl.col("copy")))
    p = estimator.predict_proba(
        asked.drop("trip").rename({"name": "trip"}).select(frame.drop("row").columns)
    )
    keys = zip(asked["trip"], asked["copy"], asked["row"], strict=True)
    return dict(zip(keys, p.tolist(), strict=True))


# By hand


def test_odds_of_three_items_move_as_their_scores_say():
    """Whole 18, 17, -4; without the decoy 9, 14; the rival 16, -8; the target 11, -2."""
    choices = numeric([TARGET, RIVAL, DECOY], [TARGET, RIVAL], [TARGET])
    found = soft_violations(with_model(Spread(), choices, plain=True), choices)
    # |1 + 5|, |22 - 24| and |21 - 13| over three pairs.
    np.testing.assert_allclose(found.odds.of_sets, [16 / 3, np.nan, np.nan], rtol=1e-6)
    # The target falls without the decoy, the decoy without the rival: two of six.
    np.testing.assert_allclose(found.regularity.of_sets, [1 / 3, 0, np.nan])
    assert (found.odds.sets, found.regularity.sets) == (1, 2)
    assert "over 2 sets" in str(found)


def test_sets_of_one_alone_are_refused():
    choices = numeric([TARGET], [RIVAL])
    with pytest.raises(sw.InputError, match="only one item"):
        soft_violations(with_model(Spread(), choices), choices)


def test_scores_that_are_not_numbers_are_refused():
    choices = numeric([TARGET, RIVAL], [TARGET, RIVAL, DECOY])
    estimator = with_model("mnl", choices)
    estimator.model_ = jax.tree.map(lambda leaf: leaf * jnp.nan, estimator.model_)
    with pytest.raises(sw.InputError, match="'trip'=0 are not numbers"):
        soft_violations(estimator, choices)


# By tables


@pytest.mark.parametrize(("name", "outside"), [("lcl", True), ("cdm", False)])
def test_tables_without_a_row_say_the_same(name, outside):
    frame = table([4, 4, 1, 4, 4] * 2, outside=outside)
    choices = read(frame, outside)
    estimator = with_model(name, choices, seed=3)
    estimator.model_ = jax.tree.map(lambda leaf: 0.3 * leaf, estimator.model_)  # no P near 1
    p = without_rows(estimator, frame)
    odds, falls = [], []
    for trip in range(10):
        rows = [r for t, c, r in p if t == trip and c == -1]
        before = {r: p[trip, -1, r] for r in rows}
        moved, fell = [], []
        for gone in rows if len(rows) > 1 else ():
            after = {r: p[trip, gone, r] for r in rows if r != gone}
            was = {r: before[r] for r in after}
            fell += [after[r] < was[r] for r in after]
            if outside:
                after["out"] = 1 - sum(after.values())
                was["out"] = 1 - sum(before.values())
                fell.append(after["out"] < was["out"])
            logs = {r: np.log(after[r] / was[r]) for r in after}
            moved += [abs(logs[a] - logs[b]) for a, b in itertools.combinations(logs, 2)]
        odds.append(np.mean(moved) if moved else np.nan)
        falls.append(np.mean(fell) if fell else np.nan)
    found = soft_violations(estimator, frame)
    np.testing.assert_allclose(found.odds.of_sets, odds, rtol=1e-3)  # 1 - sum loses digits
    np.testing.assert_allclose(found.regularity.of_sets, falls)
    assert 0 < found.regularity.mean < 1

    change = influence(estimator, frame)
    for trip in range(10):
        rows = [r for t, c, r in p if t == trip and c == -1]
        for (i, a), (j, b) in itertools.product(enumerate(rows), enumerate(rows)):
            wanted = -p[trip, -1, a] if a == b else p[trip, b, a] - p[trip, -1, a]
            got = change.of_set(trip)[i, j]
            if len(rows) == 1 and not outside:
                assert np.isnan(got)
            elif len(rows) > 1:
                assert got == pytest.approx(wanted, abs=1e-6)


# Two ways, and parts


def test_both_ways_agree_on_a_network_with_context(monkeypatch):
    choices = read(table([5] * 8, outside=True), outside=True, weight="weight")
    estimator = with_model("deep_sets", choices)
    fast, change = soft_violations(estimator, choices), influence(estimator, choices)
    monkeypatch.setattr(Estimator, "has_jax_model", property(lambda self: False))
    slow, same = soft_violations(estimator, choices), influence(estimator, choices)
    np.testing.assert_allclose(fast.odds.of_sets, slow.odds.of_sets, rtol=1e-4)
    np.testing.assert_array_equal(fast.regularity.of_sets, slow.regularity.of_sets)
    np.testing.assert_allclose(change.change.values, same.change.values, atol=1e-6)
    assert fast.odds.mean == pytest.approx(
        np.average(fast.odds.of_sets[fast.odds.of_sets == fast.odds.of_sets],
                   weights=choices.weight[fast.odds.of_sets == fast.odds.of_sets])
    )  # fmt: skip


def test_the_size_of_batches_and_chunks_changes_nothing(monkeypatch):
    choices = read(table([9, 8] * 6))
    estimator = with_model("cdm", choices)
    whole, change = soft_violations(estimator, choices), influence(estimator, choices)
    monkeypatch.setattr(removals, "ROWS_PER_BATCH", 20)
    monkeypatch.setattr(removals, "PAIRS_PER_CHUNK", 100)
    monkeypatch.setattr(sw.choices.choices, "ROWS_PER_BLOCK", 30)
    parts, same = soft_violations(estimator, choices), influence(estimator, choices)
    np.testing.assert_allclose(parts.odds.of_sets, whole.odds.of_sets, rtol=1e-5)
    np.testing.assert_allclose(same.change.values, change.change.values, atol=1e-6)
    np.testing.assert_allclose(same.probability, change.probability, atol=1e-6)


# Laws


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_odds_stand_still_exactly_where_iia_is_promised(name):
    choices = read(table([5] * 40))
    estimator = with_model(name, choices)
    found = soft_violations(estimator, choices)
    if ZOO[name].about.satisfies_iia:
        assert (found.odds.of_sets == 0).all()
        assert (found.regularity.of_sets == 0).all()
        assert found.odds.interval() == (0.0, 0.0)
        assert bootstrap_interval(violation_capacity(estimator, choices)) == (0.0, 0.0)
    else:
        assert found.odds.mean > 1e-4
        assert (found.regularity.mean == 0) == (name in REGULAR)


def test_an_ensemble_of_logits_moves_odds_and_keeps_regularity():
    choices = read(table([5] * 30))
    estimator = with_model("mnl", choices)
    width = estimator.schema_.width
    estimator.model_ = Ensemble.of([random_weights("mnl", width, seed) for seed in range(3)])
    found = soft_violations(estimator, choices)
    assert found.odds.mean > 0.01
    assert found.regularity.mean == 0


def test_large_sets_of_iia_models_stand_still_too():
    choices = read(table([150, 140]))
    found = soft_violations(with_model("mlp", choices), choices)
    assert (found.odds.of_sets == 0).all()


def test_trees_move_odds_by_a_rounding_error_only():
    pytest.importorskip("lightgbm")
    choices = read(table([2, 3, 5, 4, 8] * 20))
    trees = sw.LambdaMART(threads=1, rounds=3, min_rows=5).fit(choices)
    found = soft_violations(trees, choices)
    assert 0 <= found.odds.mean < 1e-14
    assert found.regularity.mean == 0


@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
@settings(max_examples=25, deadline=None)
def test_the_gaps_of_all_pairs_are_added_up(seed, size):
    rng = np.random.default_rng(seed)
    present = np.arange(6) < size
    can_go = present & (rng.random(6) < 0.7)
    whole = np.where(present, rng.normal(size=6), -np.inf)
    left = rng.normal(size=(6, 6))
    given = (random_sets([6]), np.arange(6)[None], present[None], can_go[None])
    one = Removals(np.array([0]), *given, whole[None], left[None])
    gaps = [
        abs((left[x, a] - whole[a]) - (left[x, b] - whole[b]))
        for x in np.flatnonzero(can_go)
        for a, b in itertools.combinations([i for i in range(size) if i != x], 2)
    ]
    found = soft._moved_odds(one)[0]
    assert np.isnan(found) if not gaps else found == pytest.approx(np.mean(gaps))


# Influence


def test_a_logit_deals_out_in_proportion():
    choices = read(table([4] * 3))
    estimator = with_model("mnl", choices)
    found = influence(estimator, choices)
    start = 0
    for number, size in enumerate(choices.sizes):
        p = found.probability[start : start + size]
        start += size
        if size > 1:
            matrix = found.of_set(number)
            np.testing.assert_allclose(matrix.sum(0), 0, atol=1e-12)
            np.testing.assert_allclose(found.beyond_iia(number), 0, atol=1e-12)
            assert matrix[0, 1] == pytest.approx(p[0] * p[1] / (1 - p[1]))
    np.testing.assert_allclose(found.probability, estimator.predict_proba(choices), atol=1e-6)
    assert np.abs(influence(with_model("sda", choices), choices).beyond_iia(0)).max() > 1e-3


def test_influence_between_alternatives_is_the_mean_over_those_that_leave():
    frame = table([4, 3, 5, 2] * 3, outside=True)
    choices = read(frame, outside=True, weight="weight")
    found = influence(with_model("cdm", choices), choices, by="brand")
    brands = np.array(choices.columns["brand"].text())
    names = ("blue", "green", "red", "outside option")
    sums, counts = np.zeros((4, 4)), np.zeros(4)
    for number, (begin, end) in enumerate(itertools.pairwise(choices.offsets)):
        codes = [*(names.index(one) for one in brands[begin:end]), 3]
        matrix, weight = found.of_set(number), choices.weight[number]
        for b in range(end - begin):
            counts[codes[b]] += weight
            for a in range(end - begin + 1):
                sums[codes[a], codes[b]] += weight * matrix[a, b] * (a != b)
    assert found.between.names == names
    np.testing.assert_allclose(found.between.values[:, :3], sums[:, :3] / counts[:3])
    assert np.isnan(found.between.values[:, 3]).all()  # the outside option never leaves
    inside = (found.between.low <= found.between.values)[:, :3]
    assert inside.all()
    assert (found.between.values <= found.between.high)[:, :3].all()
    assert "outside option" in str(found.between)


# Alternatives and pairs


def test_dummies_name_alternatives_and_are_checked():
    choices = read(table([2, 2]), items=["cost"], context=[])
    data = {"a": [1, 0, 1, 0], "b": [0, 1, 0, 1], "bad": [0, 1, 1, 1]}
    data |= {name: table([2, 2])[name].to_numpy() for name in ("trip", "cost")}
    found = Alternatives.of(data, choices, ["a", "b"])
    assert (found.names, found.codes.tolist()) == (("a", "b"), [0, 1, 0, 1])
    with pytest.raises(sw.InputError, match="row 0 must have 1 in exactly one"):
        Alternatives.of(data, choices, ["b", "bad"])
    with pytest.raises(sw.InputError, match="give the table itself"):
        Alternatives.of(choices, choices, "a")


def test_a_column_of_many_numbers_names_no_alternatives():
    choices = read(table([2] * 60), items=["cost"], context=[])
    with pytest.raises(sw.InputError, match="120 different values"):
        Alternatives.of(choices, choices, "cost")


def test_numbers_and_missing_values_are_levels_too():
    data = {"trip": [1, 1, 2], "x": [1.0, 2.0, 3.0], "stars": [3.0, np.nan, 4.5],
            "taken": [1, 0, 1]}  # fmt: skip
    choices = sw.read(data, set="trip", chosen="taken", items=["x"])
    found = Alternatives.of(data, choices, "stars")
    assert (found.names, found.codes.tolist()) == (("3", "4.5", "missing"), [0, 2, 1])


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.booleans(), st.booleans())
@settings(max_examples=25, deadline=None)
def test_pairs_are_summed_by_alternative(sizes, outside, apart):
    columns = np.array(sizes)
    rows = columns + outside
    pairs = Pairs(np.arange(float((rows * columns).sum())), rows, columns)
    codes = np.arange(rows.sum()) % 3
    sums, start = np.zeros((len(sizes), 3, 3)), 0
    for number, (tall, wide) in enumerate(zip(rows, columns, strict=True)):
        for a, b in itertools.product(range(tall), range(wide)):
            if a != b or not apart:
                place = number, codes[start + a], codes[start + b]
                sums[place] += pairs.of_set(number)[a, b]
        start += tall
    np.testing.assert_array_equal(pairs.between(codes, 3, apart), sums)


# Bootstrap


def test_the_interval_is_that_of_the_normal_where_there_are_many_sets():
    rng = np.random.default_rng(0)
    found = SetMean(rng.exponential(size=2000), rng.random(2000) + 0.5)
    low, high = found.interval(resamples=4000)
    width = 2 * 1.96 * found.standard_error
    assert high - low == pytest.approx(width, rel=0.05)
    assert low < found.mean < high
    assert found.interval(seed=1) == found.interval(seed=1) != found.interval(seed=2)
    kappa = Violations(found.of_sets, found.weight)
    assert bootstrap_interval(kappa) == found.interval()
    assert kappa.kappa == pytest.approx(found.mean)


def test_sets_without_a_value_are_not_drawn():
    values = np.array([1.0, np.nan, 3.0, np.nan])
    assert SetMean(values, None).interval() == SetMean(values[::2], None).interval()
    assert np.isnan(SetMean(values[1:2], None).interval()).all()
    assert np.isnan(SetMean(values[1:2], None).mean)


@pytest.mark.parametrize("wrong", [{"level": 1.0}, {"resamples": 0}, {"seed": -1}])
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(sw.InputError, match=next(iter(wrong))):
        bootstrap(np.ones(3), np.ones(3), **wrong)


def test_quotients_have_their_interval_by_entry():
    above, below = np.array([[[1.0, 0], [3, 4]]] * 3), np.array([[[2.0, 0]]] * 3)
    found = LevelMatrix.ratio(["a", "b"], above, below)
    np.testing.assert_array_equal(found.values, [[0.5, np.nan], [1.5, np.nan]])
    np.testing.assert_array_equal(found.low, found.high)


@pytest.mark.slow
def test_ten_thousand_sets_of_thirty_take_less_than_ten_seconds():
    choices = sw.datasets.generate("mnl", sets=10_000, items=30, features=8).choices
    estimator = sw.SDA()
    estimator.schema_ = Schema.fit(choices)
    estimator.model_ = ZOO["sda"].build(8, sw.models.Sizes(), jax.random.key(0))
    for measure in (soft_violations, influence, violation_capacity):
        begin = time.perf_counter()
        measure(estimator, choices)
        assert time.perf_counter() - begin < 10
