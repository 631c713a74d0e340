"""One model trained by the machines of a real Ray cluster, one of which dies in the middle."""

import functools
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import jax
import numpy as np
import pytest

import setwise as sw
import together

pytest.importorskip("ray", reason="needs the extra 'cluster'")
import clusters
from setwise.cluster import training as room
from setwise.cluster.training import fit_on_cluster
from setwise.training import shards

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # Ray's own are not ours to mend
]

CASE = together.Case(items=(2, 6), weights=True, dropout=0.1, batch_size=15)
ROUNDING = 1e-4  # of hundreds of steps, each as in test_training_together.py


@pytest.fixture(scope="module", autouse=True)
def sent_by_value():
    """The machines do not have the tests' modules."""
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(together)
    yield
    cloudpickle.unregister_pickle_by_value(together)


@pytest.fixture(scope="module")
def cluster():
    with clusters.two_nodes() as found:
        yield found


@pytest.fixture(autouse=True)
def shards_as_they_were(monkeypatch):
    for name in together.SMALL_SHARDS:
        monkeypatch.setattr(shards, name, getattr(shards, name))


def estimator(epochs: int):
    return together.estimator_of(CASE, epochs)


def alone(epochs: int, folder: Path):
    return estimator(epochs).fit(together.slow_to_train(CASE, folder, 0.0))


def assert_same_fit(one, other) -> None:
    for mine, yours in zip(one.history_, other.history_, strict=True):
        assert yours == pytest.approx(mine, rel=ROUNDING)
    for mine, yours in zip(jax.tree.leaves(one.model_), jax.tree.leaves(other.model_), strict=True):
        np.testing.assert_allclose(np.asarray(yours), np.asarray(mine), atol=ROUNDING)


def test_bad_input_on_a_machine_is_the_users_error(cluster, tmp_path):
    missing = functools.partial(sw.open_choices, tmp_path / "nothing.setwise-data")
    with pytest.raises(sw.InputError, match=r"^there is no .*nothing\.setwise-data"):
        fit_on_cluster(estimator(2), missing)


def test_estimators_without_gradients_are_refused(tmp_path):
    with pytest.raises(sw.InputError, match="MNL is not trained by gradients"):
        fit_on_cluster(sw.MNL(), functools.partial(sw.open_choices, tmp_path / "x"))


def test_too_few_machines_are_said(cluster, monkeypatch):
    monkeypatch.setattr(room, "SECONDS_FOR_MACHINES", 0)
    monkeypatch.setattr(room, "_machines", lambda ray: {})
    with pytest.raises(sw.InputError, match="room for 0 processes, but at least 1 are required"):
        fit_on_cluster(estimator(2), sw.open_choices)


def test_two_machines_fit_as_one_and_one_goes_on_when_the_other_dies(cluster, tmp_path):
    fit_through_a_death(cluster, tmp_path)


def fit_through_a_death(cluster, folder: Path, epochs: int = 8) -> None:
    whole = alone(epochs, folder)
    kept, died = folder / "kept", threading.Event()

    def kill_when_begun() -> None:
        while not (kept / "0.checkpoint").exists():
            time.sleep(0.05)
        time.sleep(0.5)
        clusters.kill(cluster, clusters.other_node(cluster))
        died.set()

    killer = threading.Thread(target=kill_when_begun, daemon=True)
    killer.start()
    read = functools.partial(together.slow_to_train, CASE, folder, 0.3)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        survived = fit_on_cluster(estimator(epochs), read, checkpoint=kept)
    assert died.wait(10)
    cluster.add_node(**clusters.SMALL)
    told = [str(one.message) for one in raised if one.category is UserWarning]
    assert any("begin again at the last checkpoint" in text for text in told), told
    assert len(survived.history_) == epochs
    assert_same_fit(whole, survived)


def test_the_bar_is_drawn_here(cluster, tmp_path, monkeypatch):
    seen = []

    @contextmanager
    def collected(wanted):
        assert wanted is True
        yield seen.append

    monkeypatch.setattr(room, "drawn", collected)
    monkeypatch.setattr(room, "SECONDS_BETWEEN_LOOKS", 0.1)
    read = functools.partial(together.slow_to_train, CASE, tmp_path, 0.3)
    fit_on_cluster(estimator(4), read, progress=True)
    assert {(one.unit, one.total) for one in seen} == {("epoch", 4)}
    epochs = [one.done for one in seen]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) > 1
    assert "loss" in seen[-1].state


@pytest.mark.slow
def test_the_command_line_fits_on_a_cluster(cluster, tmp_path, monkeypatch):
    from setwise.cli.app import app

    with monkeypatch.context() as only_here:
        for name in together.SMALL_SHARDS:
            only_here.setattr(shards, name, getattr(shards, name))
        together.choices_of(CASE, tmp_path)
    data = next(tmp_path.glob("*.setwise-data"))
    monkeypatch.chdir(tmp_path)
    app(
        ["fit", data.name, "--model", "sdw", "--epochs", "2", "--out", "both.setwise",
         "--cluster", "--workers", "2", "--min-workers", "2", "--checkpoint", "kept"],
        standalone_mode=False,
    )  # fmt: skip
    app(
        ["fit", data.name, "--model", "sdw", "--epochs", "2", "--out", "one.setwise"],
        standalone_mode=False,
    )
    assert_same_fit(sw.load("one.setwise"), sw.load("both.setwise"))


@pytest.mark.slow
@pytest.mark.parametrize("time", range(20))
def test_a_death_is_survived_every_time(cluster, tmp_path, time):
    fit_through_a_death(cluster, tmp_path)
