"""Violation capacity: by hand, by brute force through tables, and as a law over the zoo."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

import setwise as sw
from setwise import _masked
from setwise.choices import Encoded, Schema
from setwise.estimators import Estimator, removals
from setwise.models import ZOO, Ensemble, Model, Sizes
from setwise.violations import Violations, violation_capacity
from setwise.violations.capacity import changed_choices


class Spread(Model):
    """g(x, s) = sum_i (max_i - min_i) x_i: what differs most decides, as Tversky has it."""

    def scores(self, items, present, dropout=None):
        return items @ (_masked.maximum(items, present) - _masked.minimum(items, present))


class Jittery(Model):
    """g(x) = sum of x, with a rounding error that hangs on the place and on the set's size."""

    def scores(self, items, present, dropout=None):
        sign = jnp.where(present.sum() % 2 == 0, 1.0, -1.0)
        return items.sum(1) + 1e-5 * sign * jnp.arange(len(items))


def random_weights(name: str, features: int, seed: int = 0) -> Model:
    model = ZOO[name].build(
        features, Sizes(dimension=4, components=3, hidden=6), jax.random.key(seed)
    )
    leaves, tree = jax.tree.flatten(eqx.filter(model, eqx.is_inexact_array))
    rng = np.random.default_rng(seed)
    drawn = [jnp.asarray(rng.normal(size=leaf.shape), jnp.float32) for leaf in leaves]
    return eqx.combine(jax.tree.unflatten(tree, drawn), model)


def table(sizes, seed=0, outside=False) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    sets = np.repeat(np.arange(len(sizes)), sizes)
    starts = np.cumsum([0, *sizes[:-1]])
    taken = np.isin(np.arange(len(sets)), starts) & ~(outside & (sets % 3 == 0))
    return pl.DataFrame(
        {
            "trip": sets,
            "cost": rng.normal(size=len(sets)),
            "time": rng.normal(size=len(sets)),
            "brand": rng.choice(["red", "blue", "green"], len(sets)),
            "income": rng.normal(size=len(sizes))[sets],
            "weight": rng.integers(1, 5, len(sizes)).astype(float)[sets],
            "taken": taken.astype(np.int64),
        }
    )


def read(frame: pl.DataFrame, outside=False, **roles) -> sw.Choices:
    on_none = "outside" if outside else "error"
    columns = {"items": ["cost", "time", "brand"], "context": ["income"]} | roles
    return sw.read(frame, set="trip", chosen="taken", on_none=on_none, **columns)


def with_model(model: Model | str, choices: sw.Choices, plain=False, seed=0) -> Estimator:
    """An estimator as if fitted to have this model; ``plain`` leaves numbers as they are."""
    estimator = sw.ChoiceModel("sda")
    estimator.schema_, _ = schema, _ = Schema.learn(choices)
    width = schema.width
    if plain:
        numbers = {"mean": (0.0,) * len(schema.mean), "scale": (1.0,) * len(schema.scale)}
        estimator.schema_ = replace(schema, **numbers)
    estimator.model_ = random_weights(model, width, seed) if isinstance(model, str) else model
    return estimator


def numeric(*sets) -> sw.Choices:
    """Choices between items of two features, the first chosen."""
    rows = [(number, *item, place == 0) for number, items in enumerate(sets)
            for place, item in enumerate(items)]  # fmt: skip
    names = ["trip", "a", "b", "taken"]
    frame = pl.DataFrame(rows, names, orient="row").with_columns(pl.col("a", "b").cast(float))
    return sw.read(frame.cast({"taken": int}), set="trip", chosen="taken", on_duplicate="keep")


def by_tables(estimator: Estimator, frame: pl.DataFrame) -> list[float]:
    """kappa of each set by its definition: tables without a row, and predict on them."""
    whole = estimator.predict(frame)
    shorter, removed = [], []
    for (trip,), part in frame.with_row_index("row").group_by("trip", maintain_order=True):
        for row in part["row"]:
            if len(part) > 1:
                left = part.filter(pl.col("row") != row)
                shorter.append(left.with_columns(trip=pl.lit(len(removed), pl.Int64)))
                removed.append((trip, row))
    asked = pl.concat(shorter)
    best = asked.filter(pl.Series(estimator.predict(asked) == 1))
    after = dict(zip(best["trip"], best["row"], strict=True))  # none: the outside option
    chosen = frame.with_row_index("row").filter(pl.Series(whole == 1))
    before = dict(zip(chosen["trip"], chosen["row"], strict=True))
    changes: dict[int, list[bool]] = {
        trip: [] for trip in frame["trip"].unique(maintain_order=True)
    }
    for number, (trip, row) in enumerate(removed):
        if row != before.get(trip):
            changes[trip].append(after.get(number) != before.get(trip))
    return [float(np.mean(each)) if each else np.nan for each in changes.values()]


def random_sets(sizes, features=3, seed=0) -> Encoded:
    items = np.random.default_rng(seed).normal(size=(sum(sizes), features)).astype(np.float32)
    offsets = np.cumsum([0, *sizes])
    return Encoded(items, np.empty((len(sizes), 0), np.float32), offsets, None, None)


def counted(model, encoded: Encoded, outside: bool) -> np.ndarray:
    """Of each set, how many removals are tried and how many change the choice."""
    found = np.full((2, len(encoded)), -1)
    for one in removals.removals(model, encoded, outside):
        found[:, one.sets] = changed_choices(one)
    assert (found >= 0).all()
    return found


# By hand

TARGET, RIVAL, DECOY = (1, 3), (4, 1), (2, -2)


def test_a_decoy_counts_once_in_its_set_of_three():
    """With the decoy 18 : 17 for the target; without it 9 : 14. Without the rival, the target."""
    choices = numeric([TARGET, RIVAL, DECOY], [RIVAL, DECOY, TARGET])
    found = violation_capacity(with_model(Spread(), choices, plain=True), choices)
    assert found.of_sets.tolist() == [0.5, 0.5]
    assert (found.kappa, found.standard_error, found.sets) == (0.5, 0.0, 2)


def test_sets_of_one_do_not_count_and_sets_of_two_cannot_break_iia():
    choices = numeric([TARGET], [TARGET, RIVAL], [TARGET, RIVAL, DECOY])
    found = violation_capacity(with_model(Spread(), choices, plain=True), choices)
    np.testing.assert_array_equal(found.of_sets, [np.nan, 0, 0.5])
    assert (found.kappa, found.sets) == (0.25, 2)
    assert found.standard_error == pytest.approx(0.25)  # s = 0.3536 over the root of two
    assert found.kappa_where(np.array([True, False, True])) == 0.5
    assert np.isnan(found.kappa_where(np.array([True, False, False])))


def test_sets_of_one_alone_are_refused():
    choices = numeric([TARGET], [RIVAL])
    with pytest.raises(sw.InputError, match="only one item"):
        violation_capacity(with_model(Spread(), choices), choices)


def test_weights_count_in_the_mean_and_its_error():
    found = Violations(np.array([1.0, 0.0, np.nan]), np.array([3.0, 1.0, 9.0]))
    assert found.kappa == 0.75
    # m/(m - 1) = 2, shares 3/4 and 1/4, deviations 1/4 and 3/4: 2 (9 + 9) / 256.
    assert found.standard_error == pytest.approx(np.sqrt(36 / 256))


def test_weights_of_the_choices_are_those_of_the_sets():
    choices = read(table([4] * 40), weight="weight")
    found = violation_capacity(with_model("cdm", choices), choices)
    assert 0 < found.kappa < 1
    assert found.kappa == pytest.approx(np.average(found.of_sets, weights=choices.weight))
    assert found.kappa != pytest.approx(found.of_sets.mean())


# By brute force


@pytest.mark.parametrize(("name", "outside"), [("sda", True), ("cdm", False)])
def test_tables_without_a_row_predict_the_same(name, outside):
    frame = table([5, 3, 1, 6, 4, 6, 2, 5] * 5, outside=outside)
    choices = read(frame, outside)
    estimator = with_model(name, choices, seed=3)
    found = violation_capacity(estimator, choices)
    np.testing.assert_array_equal(found.of_sets, by_tables(estimator, frame))
    assert 0 < found.kappa < 1
    np.testing.assert_array_equal(violation_capacity(estimator, frame).of_sets, found.of_sets)


def test_the_outside_option_is_predicted_but_never_taken_away():
    class Indicator(Model):
        """The outside option wins against two items or more, and loses against one."""

        def scores(self, items, present, dropout=None):
            return jnp.where(present.sum() > 2, 1.0, -1.0) * items[:, -1]

    frame = table([2, 3, 1], outside=True)
    choices = read(frame, outside=True, items=["cost"], context=[])
    found = violation_capacity(with_model(Indicator(), choices), choices)
    np.testing.assert_array_equal(found.of_sets, [1, 0, np.nan])  # two of two, none of three


@pytest.mark.parametrize("outside", [False, True])
def test_both_ways_agree_on_sets_full_of_ties(outside):
    """Whole numbers make sums exact, so that both see the same ties, and many of them."""

    def score(part: Encoded) -> np.ndarray:
        starts = part.offsets[:-1]
        high, low = (f.reduceat(part.items, starts) for f in (np.maximum, np.minimum))
        return (part.items * np.repeat(high - low, part.sizes, 0)).sum(1)

    encoded, rng = random_sets([6, 5, 6, 3, 6, 1] * 50, 2), np.random.default_rng(0)
    changed = []
    for levels in (1, 2, 3, 5):
        drawn = rng.integers(0, levels, encoded.items.shape).astype(np.float32)
        ties = replace(encoded, items=drawn)
        fast = counted(Spread(), ties, outside)
        np.testing.assert_array_equal(fast, counted(score, ties, outside))
        changed.append(int(fast[1].sum()))
    assert changed[0] == 0  # all items are equal
    assert changed[-1] > 0


def test_both_ways_agree_on_a_network_with_context():
    choices = read(table([6, 5, 6, 1] * 10, outside=True), outside=True)
    estimator = with_model("deep_sets", choices)
    encoded = estimator.schema_.encode(choices)
    fast = counted(estimator.model_, encoded, True)
    slow = counted(estimator.row_log_probabilities, encoded, True)
    assert fast[1].sum() > 0
    np.testing.assert_array_equal(fast, slow)


def test_the_size_of_batches_and_chunks_changes_nothing(monkeypatch):
    model, encoded = random_weights("cdm", 3), random_sets([9, 8, 9] * 6)

    def score(part: Encoded) -> np.ndarray:
        return part.items[:, 0] * np.repeat(part.items[part.offsets[:-1], 1], part.sizes)

    whole = [counted(one, encoded, False) for one in (model, score)]
    monkeypatch.setattr(removals, "ROWS_PER_BATCH", 20)
    monkeypatch.setattr(removals, "PAIRS_PER_CHUNK", 100)
    monkeypatch.setattr(removals, "COPIES_PER_CHUNK", 20)
    parts = [counted(one, encoded, False) for one in (model, score)]
    assert all(each[1].sum() > 0 for each in whole)
    np.testing.assert_array_equal(whole, parts)


def test_data_on_disk_give_the_same(tmp_path, monkeypatch):
    choices = read(table([4] * 40), weight="weight")
    estimator = with_model("cdm", choices)
    sw.save_choices(choices, tmp_path / "trips.setwise-data")
    stored = sw.open_choices(tmp_path / "trips.setwise-data")
    whole = violation_capacity(estimator, choices)
    monkeypatch.setattr(sw.choices.choices, "ROWS_PER_BLOCK", 40)
    assert len(list(stored.blocks())) > 2
    parts = violation_capacity(estimator, stored)
    np.testing.assert_array_equal(parts.of_sets, whole.of_sets)
    assert (parts.kappa, parts.standard_error) == (whole.kappa, whole.standard_error)


# Laws


@pytest.mark.parametrize("name", ZOO)
def test_capacity_is_nil_exactly_where_iia_is_promised(name):
    encoded = random_sets([6] * 300)
    _, changed = counted(random_weights(name, 3), encoded, False).sum(1)
    assert changed == 0 if ZOO[name].about.satisfies_iia else changed > 0


def test_an_ensemble_of_iia_models_breaks_iia():
    ensemble = Ensemble.of([random_weights("mnl", 3, seed) for seed in range(3)])
    assert counted(ensemble, random_sets([6] * 200), False)[1].sum() > 0


@pytest.mark.parametrize("name", [n for n in ZOO if ZOO[n].about.satisfies_iia])
def test_ties_of_iia_models_break_nothing(name):
    """Items twice, and in nearly equal versions, whose probabilities rounding makes equal."""
    encoded = random_sets([3] * 200)
    base = encoded.items.reshape(200, 3, 3)
    near = base * np.float32(1 + 1e-7)
    items = np.concatenate([base, near, base], 1).reshape(-1, 3)
    doubled = Encoded(items, encoded.context, np.arange(201) * 9, None, None)
    assert counted(random_weights(name, 3), doubled, False)[1].sum() == 0


def test_equal_items_are_one_whichever_rounding_puts_first():
    items = np.repeat(np.float32([[2, 2], [1, 1]]), 3, axis=0)
    one = Encoded(items, np.empty((1, 0), np.float32), np.array([0, 6]), None, None)
    assert counted(Jittery(), one, False).tolist() == [[5], [0]]


def test_rankers_and_chance_break_nothing():
    choices = sw.datasets.generate("decoy", sets=150, seed=0).choices
    for model in (sw.RandomChoice(), sw.SingleFeature(), sw.AdaRank(rounds=3), sw.MNL()):
        assert violation_capacity(model.fit(choices), choices).kappa == 0


def test_trees_break_nothing():
    pytest.importorskip("lightgbm")
    choices = read(table([2, 3, 5, 4, 8] * 20))
    trees = sw.LambdaMART(threads=1, rounds=3, min_rows=5).fit(choices)
    found = violation_capacity(trees, choices)
    assert (found.kappa, found.sets) == (0, 100)


# Refused


def test_a_model_that_is_not_fitted_is_refused():
    with pytest.raises(NotFittedError):
        violation_capacity(sw.SDA(), table([2, 3]))


def test_scores_that_are_not_numbers_are_refused(monkeypatch):
    choices = numeric([TARGET, RIVAL], [TARGET, RIVAL, DECOY])
    estimator = with_model("mnl", choices)
    estimator.model_ = jax.tree.map(lambda leaf: leaf * jnp.nan, estimator.model_)
    with pytest.raises(sw.InputError, match="'trip'=0 are not numbers"):
        violation_capacity(estimator, choices)
    monkeypatch.setattr(Estimator, "has_jax_model", property(lambda self: False))
    with pytest.raises(sw.InputError, match="'trip'=0 are not numbers"):
        violation_capacity(estimator, choices)
