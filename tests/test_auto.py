"""The default predictor: what it weighs, laws, files, time, little data."""

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import setwise as sw
from setwise.choices import Schema
from setwise.estimators import auto


@contextmanager
def quick_members() -> Iterator[None]:
    """Members that take a second: two kinds of small trees, and networks of two epochs."""
    trees = {
        "trees, items alone": {"within_set": False, "leaves": 4, "columns": 1.0, "rounds": 60},
        "trees": {"leaves": 7, "rounds": 60},
    }
    training = sw.Training(epochs=2, batch_size=64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auto, "TREES", {k: v | {"threads": 1} for k, v in trees.items()})
        patch.setattr(auto, "NETWORKS", {**auto.NETWORKS, "training": training})
        yield


@pytest.fixture
def quick() -> Iterator[None]:
    with quick_members():
        yield


@pytest.fixture(scope="module")
def drawn() -> sw.datasets.Generated:
    return sw.datasets.generate("sharp", sets=1000, seed=2)


def lost(model: sw.estimators.Estimator, drawn: sw.datasets.Generated, test: sw.Choices) -> float:
    """Nats per choice, against the truth."""
    truth, p = drawn.probabilities[test.rows], model.row_probabilities(test)
    return float((truth * np.log(truth / p)).sum() / len(test))


def behind_the_logit(sets: int, seed: int) -> float:
    """Nats per choice that Auto loses against an MNL, on data of an MNL."""
    drawn = sw.datasets.generate("mnl", sets=sets + 4000, items=5, features=4, seed=seed)
    train = drawn.choices.take(np.arange(sets))
    test = drawn.choices.take(np.arange(sets, sets + 4000))
    return lost(sw.Auto().fit(train), drawn, test) - lost(sw.MNL().fit(train), drawn, test)


@pytest.fixture(scope="module")
def fitted(drawn: sw.datasets.Generated) -> sw.Auto:
    train, valid, _ = sw.split(drawn.choices, seed=0)
    with quick_members():
        return sw.Auto().fit(train, valid)


def test_trees_that_grow_at_the_same_time_are_the_same(
    quick: None, drawn: sw.datasets.Generated, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, valid, _ = sw.split(drawn.choices, seed=0)
    schema, seen = Schema.learn(train)
    parts = auto._parts(schema, seen, valid, 0)
    found = {}
    for number in (1, 2):
        monkeypatch.setattr(auto, "_trees_at_once", lambda _, n=number: n)
        found[number] = list(sw.Auto()._boosted(schema, parts, 0.0, np.inf, False))
    assert [one.name for one in found[2]] == list(auto.TREES)
    for one, other in zip(found[1], found[2], strict=True):
        np.testing.assert_array_equal(one.log_p, other.log_p)


def test_many_rows_leave_all_threads_to_one_setting(
    drawn: sw.datasets.Generated, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, valid, _ = sw.split(drawn.choices, seed=0)
    schema, seen = Schema.learn(train)
    parts = auto._parts(schema, seen, valid, 0)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert auto._trees_at_once(parts) == 2
    monkeypatch.setattr(auto, "FEW_ROWS", 1)
    assert auto._trees_at_once(parts) == 1


def test_members_are_weighed_on_validation(fitted: sw.Auto, drawn: sw.datasets.Generated) -> None:
    _, valid, test = sw.split(drawn.choices, seed=0)
    weights = [one.weight for one in fitted.members_]
    assert sum(weights) == pytest.approx(1)
    assert {one.name.partition(",")[0] for one in fitted.members_} == {
        "mnl", "mnl_within_set", "lcl", "trees", "sda",
    }  # fmt: skip
    # On sharp data trees count. The whole is at least as good as the best alone, but for what the
    # least share of the MNL costs at most with n < 500 sets: weights of n / (n + 10) remain.
    sets = fitted.validation_sets_
    assert sum(one.weight for one in fitted.members_ if one.name.startswith("trees")) > 0.5
    insured = np.log((sets + 10) / sets)
    assert fitted.validation_nll_ <= min(one.nll for one in fitted.members_) + insured
    least = 10 / (sets + 10)
    assert next(one.weight for one in fitted.members_ if one.name == "mnl") >= least - 1e-12
    assert fitted.evaluate(valid).nll == pytest.approx(fitted.validation_nll_, abs=1e-5)
    assert lost(fitted, drawn, test) < 0.1


def test_the_mixture_is_that_of_the_members_probabilities(
    fitted: sw.Auto, drawn: sw.datasets.Generated
) -> None:
    test = sw.split(drawn.choices, seed=0)[2]
    encoded = fitted.schema_.encode(test)
    expected, place = np.zeros(len(encoded.items)), 0
    model = fitted.model_
    for kind in model.members:  # of each kind as many members as its arrays are long
        count = 1 if not kind.differentiable else len(next(iter(_arrays(kind))))
        for number in range(count):
            one = kind if not kind.differentiable else _taken(kind, number)
            p = np.exp(sw.training.row_log_probabilities(one, encoded))
            expected += float(model.weight[place]) * p
            place += 1
    assert fitted.row_probabilities(test) == pytest.approx(expected, abs=1e-5)


def _arrays(model: object) -> list[np.ndarray]:
    import jax

    return [np.asarray(leaf) for leaf in jax.tree.leaves(model)]


def _taken(model: object, number: int) -> object:
    import jax

    return jax.tree.map(lambda leaf: leaf[number], model)


def test_files_scorers_and_exports_agree(
    fitted: sw.Auto, drawn: sw.datasets.Generated, tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    test = sw.split(drawn.choices, seed=0)[2]
    p, path = fitted.predict_proba(test), tmp_path / "auto.setwise"
    fitted.save(path)
    loaded = sw.load(path)
    assert isinstance(loaded, sw.Auto)
    assert np.array_equal(loaded.predict_proba(test), p)
    assert str(loaded.summary()) == str(fitted.summary())
    assert sw.scoring.load_scorer(path).predict_proba(test) == pytest.approx(p, abs=1e-6)
    sw.scoring.export_onnx(path, tmp_path / "auto.onnx")
    assert onnxruntime.InferenceSession(str(tmp_path / "auto.onnx"))


def test_a_file_with_other_kinds_is_refused(fitted: sw.Auto, tmp_path: Path) -> None:
    from dataclasses import replace

    artifact = fitted.artifact()
    kinds = artifact.fitted["kinds"]
    for bad in (["nonsense", *kinds[1:]], kinds[:-1], [*kinds, "mnl"]):
        path = tmp_path / "bad.setwise"
        replace(artifact, fitted=artifact.fitted | {"kinds": bad}).write(path)
        with pytest.raises(sw.InputError):
            sw.load(path)


def test_without_validation_every_set_trains(quick: None, drawn: sw.datasets.Generated) -> None:
    choices = drawn.choices.take(np.arange(300))
    model = sw.Auto().fit(choices)
    assert model.validation_sets_ == 300
    counting = [one for one in model.members_ if one.weight]
    assert len(model.kinds_) == auto.FOLDS * len(counting)
    # What weighs members was predicted without the set: in-sample it is better.
    assert model.evaluate(choices).nll < model.validation_nll_
    again = sw.Auto().fit(choices)
    assert np.array_equal(again.predict_proba(choices), model.predict_proba(choices))


def test_folds_keep_groups_whole(quick: None, drawn: sw.datasets.Generated) -> None:
    from dataclasses import replace

    choices = replace(drawn.choices, group=np.arange(1000) // 10)
    fold = auto._folds(choices, seed=0)
    assert (fold.reshape(-1, 10) == fold[::10, None]).all()
    assert np.bincount(fold).min() > 200
    few = replace(choices.take(np.arange(30)), group=np.arange(30) // 10)
    with pytest.raises(sw.InputError, match="there are 3 groups, and cross-fitting needs"):
        sw.Auto().fit(few)


def test_little_time_leaves_networks_out_and_says_so(drawn: sw.datasets.Generated) -> None:
    train, valid, test = sw.split(drawn.choices, seed=0)
    begun = time.monotonic()
    model = sw.Auto(time_budget=3).fit(train, valid)
    # A timed test on a busy machine: the bound is loose, the promise is a fifth on an idle one.
    assert time.monotonic() - begun < 30
    assert "Networks were left out" in str(model.summary())
    assert not any(one.name.startswith("sda") for one in model.members_)
    assert model.evaluate(test).nll < sw.MNL().fit(train).evaluate(test).nll


@pytest.mark.parametrize("sets", [4, 8, 20])
def test_a_handful_of_sets_is_enough(sets: int) -> None:
    choices = sw.datasets.generate("mnl", sets=sets, items=3, features=2).choices
    model = sw.Auto(time_budget=2).fit(choices)
    assert np.isfinite(model.predict_proba(choices)).all()
    few = 3 * 3 * sets // 4 < auto.FEWEST_ROWS
    assert ("Trees were left out" in str(model.summary())) == few


def test_a_deadline_stops_networks(
    quick: None, drawn: sw.datasets.Generated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock on which a second passes whenever one looks at it."""
    looks = itertools.count(time.monotonic())
    monkeypatch.setattr(auto, "time", SimpleNamespace(monotonic=lambda: next(looks)))
    monkeypatch.setattr(auto, "TO_COMPILE", 0.0)
    long = sw.Training(epochs=100_000, patience=100_000)
    monkeypatch.setattr(auto, "NETWORKS", {**auto.NETWORKS, "training": long})
    train, valid, _ = sw.split(drawn.choices.take(np.arange(200)), seed=0)
    model = sw.Auto(time_budget=60).fit(train, valid)  # it would train for hours
    assert any(one.name.startswith("sda") for one in model.members_)


@pytest.mark.parametrize("budget", [0, -1, "5", True, float("nan")])
def test_a_time_budget_must_be_positive(budget: object, unchecked_types: None) -> None:
    choices = sw.datasets.generate("mnl", sets=30, items=3, features=1).choices
    with pytest.raises(sw.InputError, match="time_budget"):
        sw.Auto(time_budget=budget).fit(choices)  # type: ignore[arg-type]


@pytest.mark.parametrize("sets", [100, 300])
def test_with_few_sets_of_a_logit_it_is_as_good_as_a_logit(quick: None, sets: int) -> None:
    """Averages over five draws; 20,000 test choices have a standard error of 0.005 each."""
    assert np.mean([behind_the_logit(sets, seed) for seed in range(5)]) < 0.01


@pytest.mark.slow  # full-size members, as users have them
@pytest.mark.parametrize("sets", [100, 300, 1000])
def test_the_whole_auto_is_as_good_as_the_logit_of_logit_data(sets: int) -> None:
    """The mean over draws: what 100 sets happen to be moves the difference by 0.01 itself."""
    assert np.mean([behind_the_logit(sets, seed) for seed in range(5)]) < 0.01


@pytest.mark.slow
def test_the_whole_auto_learns_sharp_effects_that_networks_do_not() -> None:
    drawn = sw.datasets.generate("sharp", sets=16_000, seed=2)
    train, valid, test = sw.split(drawn.choices, seed=0)
    assert lost(sw.Auto().fit(train, valid), drawn, test) < 0.01
    assert lost(sw.SDA().fit(train, valid), drawn, test) > 0.01


@pytest.mark.slow
def test_the_whole_auto_is_as_good_as_networks_with_decoys() -> None:
    drawn = sw.datasets.generate("decoy", sets=8000, seed=3)
    train, valid, test = sw.split(drawn.choices, seed=0)
    network = lost(sw.SDA().fit(train, valid), drawn, test)
    assert lost(sw.Auto().fit(train, valid), drawn, test) < network + 0.001


def test_violations_and_consequences_take_it(fitted: sw.Auto, drawn: sw.datasets.Generated) -> None:
    test = sw.split(drawn.choices, seed=0)[2].take(np.arange(20))
    assert 0 <= sw.violation_capacity(fitted, test).kappa <= 1
    found = sw.consequences.elasticities(fitted, test, "price")
    assert "arc elasticities: the model has steps" in str(found)


def test_summary_is_a_table(fitted: sw.Auto) -> None:
    summary = fitted.summary()
    frame = summary.to_frame()
    assert frame.columns == ["name", "weight", "nll", "seconds"]
    assert frame["weight"].sum() == pytest.approx(1)
    assert frame["weight"].is_sorted(descending=True)
    assert "did not learn from" in str(summary)
    assert "<table" in summary._repr_html_()
    assert summary.to_json()["members"][0]["name"] == frame["name"][0]
