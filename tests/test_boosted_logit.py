"""Boosted trees on the choice likelihood: derivatives by hand, laws, recovery, files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import setwise as sw
from setwise import _segments
from setwise.choices import Encoded
from setwise.training import boosting

FEW = {"rounds": 40, "threads": 1}
SETS = 1600


@pytest.fixture(scope="module")
def drawn() -> sw.datasets.Generated:
    return sw.datasets.generate("sharp", sets=1600, seed=1)


@pytest.fixture(scope="module")
def parts(drawn: sw.datasets.Generated) -> tuple[sw.Choices, ...]:
    return sw.split(drawn.choices, seed=0)


@pytest.fixture(scope="module")
def model(parts: tuple[sw.Choices, ...]) -> sw.BoostedLogit:
    return sw.BoostedLogit(**FEW).fit(parts[0], parts[1])


def of_two_sets() -> Encoded:
    """Two items, then three; the second and the first are chosen; the first set counts double."""
    return Encoded(
        np.zeros((5, 1), np.float32), np.zeros((2, 0), np.float32), np.array([0, 2, 5]),
        np.array([1, 0]), np.array([2.0, 1.0]),
    )  # fmt: skip


def test_derivatives_are_those_of_the_choice_likelihood_by_hand() -> None:
    scores = np.log([1.0, 3.0, 1.0, 1.0, 2.0])
    gradient, curvature = boosting._objective(of_two_sets())(scores, None)
    # p = 1/4, 3/4 and 1/4, 1/4, 1/2; weights 4/3 and 2/3, which are 1 on average.
    expected = np.array([0.25, -0.25, -0.75, 0.25, 0.5]) * np.array([4, 4, 2, 2, 2]) / 3
    assert gradient == pytest.approx(expected)
    p = np.array([0.25, 0.75, 0.25, 0.25, 0.5])
    assert curvature == pytest.approx(p * (1 - p) * np.array([4, 4, 2, 2, 2]) / 3)


def test_gradient_is_the_slope_of_the_loss() -> None:
    data, scores, step = of_two_sets(), np.array([0.3, -1.0, 0.2, 0.9, 0.0]), 1e-6
    gradient, _ = boosting._objective(data)(scores, None)

    def loss(v: np.ndarray) -> float:
        log_p = _segments.log_softmax(v, data.offsets)
        return -float(np.array([4, 2]) / 3 @ log_p[[1, 2]])

    slopes = [(loss(scores + step * e) - loss(scores - step * e)) / (2 * step) for e in np.eye(5)]
    assert gradient == pytest.approx(slopes, abs=1e-8)


def test_one_stump_takes_the_newton_step_by_hand() -> None:
    """With equal scores and one split, a leaf is -rate * sum(gradient) / (sum(curvature) + l2)."""
    table = {
        "set": np.repeat(np.arange(100), 2), "x": np.tile([0.0, 1.0], 100),
        "chosen": np.ravel([[1, 0] if n % 4 == 0 else [0, 1] for n in range(100)]),
    }  # fmt: skip
    choices = sw.read(table, set="set", chosen="chosen", items=["x"])
    model = sw.BoostedLogit(
        within_set=False, rounds=1, leaves=2, columns=1.0, l2=5.0, learning_rate=0.5, min_rows=1
    ).fit(choices, choices)
    # 25 of 100 choose x = 0: gradients sum to 50 - 25 = 25 there, curvatures to 25.
    low, high = -0.5 * 25 / (25 + 5), 0.5 * 25 / (25 + 5)
    expected = np.exp([low, high]) / np.exp([low, high]).sum()
    assert model.predict_proba(choices)[:2] == pytest.approx(expected, abs=1e-6)


def test_it_recovers_sharp_effects(drawn: sw.datasets.Generated) -> None:
    train, valid, test = sw.split(drawn.choices, seed=0)
    trees = sw.BoostedLogit(within_set=False, leaves=4, columns=1.0, l2=1.0, threads=1)
    trees.fit(train, valid)
    truth = drawn.probabilities[test.rows]

    def lost(model: sw.estimators.Estimator) -> float:
        """Nats per choice, against the truth."""
        p = model.row_probabilities(test)
        return float((truth * np.log(truth / p)).sum() / len(test))

    assert 8 * lost(trees) < lost(sw.MNL().fit(train))
    assert next(iter(trees.importances_)) == "price"
    assert sum(trees.importances_.values()) == pytest.approx(1)


def test_early_stopping_keeps_the_best_round(parts: tuple[sw.Choices, ...]) -> None:
    model = sw.BoostedLogit(rounds=300, patience=5, learning_rate=0.3, threads=1)
    model.fit(parts[0], parts[1])
    assert model.best_round_ == int(np.argmin(model.history_)) + 1
    assert len(model.history_) == model.best_round_ + 5
    assert model.evaluate(parts[1]).nll == pytest.approx(min(model.history_), abs=1e-5)


def test_same_seed_same_numbers(parts: tuple[sw.Choices, ...], model: sw.BoostedLogit) -> None:
    again = sw.BoostedLogit(**FEW).fit(parts[0], parts[1])
    assert np.array_equal(again.predict_proba(parts[2]), model.predict_proba(parts[2]))
    other = sw.BoostedLogit(**FEW, seed=1).fit(parts[0], parts[1])
    assert not np.array_equal(other.predict_proba(parts[2]), model.predict_proba(parts[2]))


def test_without_within_set_iia_holds_and_with_it_need_not(
    parts: tuple[sw.Choices, ...], model: sw.BoostedLogit
) -> None:
    alone = sw.BoostedLogit(within_set=False, **FEW).fit(parts[0], parts[1])
    assert sw.violation_capacity(alone, parts[2]).kappa == 0
    assert sw.violation_capacity(model, parts[2]).kappa > 0


@pytest.mark.parametrize(
    ("column", "sign"), [("price", -1), ("price", 1), ("rating", 1), ("stars", -1)]
)
def test_monotone_effects_are_obeyed(parts: tuple[sw.Choices, ...], column: str, sign: int) -> None:
    model = sw.BoostedLogit(monotone={column: sign}, **FEW).fit(parts[0], parts[1])
    table = parts[2].to_frame().head(6 * 40)
    first = np.arange(len(table)) % 6 == 0
    low, high = table[column].min(), table[column].max()
    before = None
    for value in np.linspace(low, high, 12):
        moved = table.with_columns(
            pl.when(pl.Series(first)).then(value).otherwise(pl.col(column)).alias(column)
        )
        p = model.predict_proba(moved)[first]
        if before is not None:
            assert (sign * (p - before) >= -1e-6).all()
        before = p


def test_without_a_constraint_the_same_data_are_not_monotone(
    parts: tuple[sw.Choices, ...], model: sw.BoostedLogit
) -> None:
    """So the test above can fail: stars help at three of them alone."""
    table = parts[2].to_frame().head(6 * 40)
    first = np.arange(len(table)) % 6 == 0
    p = [
        model.predict_proba(table.with_columns(
            pl.when(pl.Series(first)).then(value).otherwise(pl.col("stars")).alias("stars")
        ))[first]
        for value in (1.0, 3.0, 5.0)
    ]  # fmt: skip
    assert (p[1] > p[0] + 0.01).any()
    assert (p[2] < p[1] - 0.01).any()


@pytest.mark.parametrize(
    ("monotone", "said"),
    [
        ({"prize": -1}, "monotone= names 'prize'; it takes columns of numbers among the items"),
        ({"price": 2}, "must be 1 or -1"),
        ({"price": True}, "must be 1 or -1"),
        (["price"], "monotone"),
    ],
)
def test_constraints_that_make_no_sense_are_refused(
    parts: tuple[sw.Choices, ...], monotone: object, said: str, unchecked_types: None
) -> None:
    with pytest.raises(sw.InputError, match=said):
        sw.BoostedLogit(monotone=monotone).fit(parts[0], parts[1])  # type: ignore[arg-type]


def with_everything() -> sw.Choices:
    """Ragged sets, a category, context, weights, an outside option."""
    rng = np.random.default_rng(3)
    sizes = rng.integers(2, 6, size=SETS)
    owner = np.repeat(np.arange(SETS), sizes)
    brand = rng.choice(["a", "b", "c", "d", "e", "f"], len(owner))
    price, age = rng.normal(size=len(owner)), np.repeat(rng.normal(size=SETS), sizes)
    utility = np.where(np.isin(brand, ["b", "e"]), 1.5, 0.0) - price * np.where(age > 0, 2, 0)
    noisy = utility + rng.gumbel(size=len(owner))
    starts = np.cumsum(sizes) - sizes
    best = np.maximum.reduceat(noisy, starts)
    taken = noisy == np.repeat(best, sizes)
    taken &= np.repeat(best > rng.gumbel(size=SETS), sizes)
    table = pl.DataFrame({
        "s": owner, "chosen": taken.astype(int), "price": price, "brand": brand, "age": age,
        "w": np.repeat(rng.uniform(0.5, 2, SETS), sizes),
    })  # fmt: skip
    return sw.read(
        table, set="s", chosen="chosen", items=["price", "brand"], context=["age"], weight="w",
        on_none="outside",
    )  # fmt: skip


def test_ragged_sets_categories_context_weights_and_an_outside_option(tmp_path: Path) -> None:
    train, valid, test = sw.split(with_everything(), seed=0)
    model = sw.BoostedLogit(rounds=150, threads=1).fit(train, valid)
    logit = sw.MNL().fit(train)
    assert model.evaluate(test).nll < logit.evaluate(test).nll
    p = model.predict_proba(test)
    assert (np.add.reduceat(p, test.offsets[:-1]) < 1).all()  # the rest is the outside option's
    names = set(model.importances_)
    assert {"brand", "age"} <= names
    path = tmp_path / "m.setwise"
    model.save(path)
    assert np.array_equal(sw.load(path).predict_proba(test), p)
    assert sw.scoring.load_scorer(path).predict_proba(test) == pytest.approx(p, abs=1e-6)


def test_weights_count(parts: tuple[sw.Choices, ...]) -> None:
    """Sets that count nothing but by rounding might as well be gone."""
    train, valid, test = parts
    half = len(train) // 2
    light = np.where(np.arange(len(train)) < half, 1.0, 1e-9)
    weighted = replace(train, weight=light)
    alone = train.take(np.arange(half))
    settings = {"within_set": False, "columns": 1.0, "l2": 0.0, "min_rows": 1, "leaves": 2}
    one = sw.BoostedLogit(rounds=5, **settings).fit(weighted, valid)  # type: ignore[arg-type]
    two = sw.BoostedLogit(rounds=5, **settings).fit(alone, valid)  # type: ignore[arg-type]
    assert one.predict_proba(test) == pytest.approx(two.predict_proba(test), abs=0.05)


def test_a_missing_library_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "lightgbm", None)
    with pytest.raises(sw.InputError, match="trees need LightGBM: pip install lightgbm"):
        boosting.lightgbm()


def test_a_library_that_cannot_be_loaded_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import builtins

    real = builtins.__import__

    def broken(name: str, *rest: object) -> object:
        if name == "lightgbm":
            raise OSError("libgomp.so.1: cannot open shared object file")
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", broken)
    with pytest.raises(sw.InputError, match=r"libgomp\.so\.1.*install libgomp1"):
        boosting.lightgbm()


def test_a_deadline_ends_boosting_early(parts: tuple[sw.Choices, ...]) -> None:
    import time

    from setwise.choices import Schema

    schema, seen = Schema.learn(parts[0])
    model = sw.BoostedLogit(threads=1)
    model.learn(schema, seen.encoded(), schema.encode(parts[1]), deadline=time.monotonic())
    assert len(model.history_) == 1
