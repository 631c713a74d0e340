"""A search that is kept round by round ends as if it had never been killed."""

import jax
import numpy as np
import pytest

import setwise as sw
from setwise import _tensorfile
from setwise._errors import InputError
from setwise.tuning.search import tune_tasks
from setwise.tuning.trials import PopulationTrials
from setwise.tuning.tuning_run import TuningRun

TRAINING = sw.Training(epochs=3, stop_on="accuracy", batch_size=16)
TUNING = sw.Tuning(trials=5, space="paper", batch=2, storage=None)  # rounds of 2, 2 and 1


@pytest.fixture(scope="module")
def parts():
    choices = sw.datasets.generate("mnl", sets=60, items=4, features=3).choices
    return [sw.split(choices, seed=seed)[:2] for seed in range(3)]


def searched(parts, checkpoint=None, tuning=TUNING, ensemble=1):
    # It has a scalar, mu's kink.
    model = sw.SDA.paper(dimension=2, hidden=3, training=TRAINING, ensemble=ensemble)
    return tune_tasks(model, parts, [0, 1, 2], tuning, checkpoint=checkpoint)


def same(one, other):
    """Whether two searches ended alike, to the bit."""
    for a, b in zip(one, other, strict=True):
        assert a.trials == b.trials
        assert (a.values, a.value, a.study) == (b.values, b.value, b.study)
        assert a.estimator.history_ == b.estimator.history_
        for x, y in zip(
            jax.tree.leaves(a.estimator.model_), jax.tree.leaves(b.estimator.model_), strict=True
        ):
            np.testing.assert_array_equal(x, y)
    return True


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_search_killed_after_any_round_ends_alike(parts, tmp_path, monkeypatch, rounds):
    # The file has studies sorted by name: let their order matter.
    monkeypatch.setattr(TuningRun, "_name", lambda self, task, seed: f"study-{9 - seed}")
    whole = searched(parts, tmp_path / "whole.search")
    studies = [one.study for one in whole]
    assert studies != sorted(studies)
    path, run, count = tmp_path / "killed.search", TuningRun.run, 0

    def killed(self, claimed, on_trials):
        nonlocal count
        run(self, claimed, on_trials)
        count += 1
        if count == rounds:
            raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(TuningRun, "run", killed)
        with pytest.raises(SystemExit):
            searched(parts, path)
    assert path.exists()
    assert same(searched(parts, path), whole)


def test_a_search_killed_within_a_round_does_that_round_again(parts, tmp_path, monkeypatch):
    whole = searched(parts)
    path, finish, count = tmp_path / "killed.search", TuningRun._finish, 0

    def killed(self, *arguments):
        nonlocal count
        finish(self, *arguments)
        count += 1
        if count == 8:  # of the second round two trials, of six, have been told
            raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(TuningRun, "_finish", killed)
        with pytest.raises(SystemExit):
            searched(parts, path)
    assert same(searched(parts, path), whole)


def test_a_finished_search_is_not_run_again(parts, tmp_path, monkeypatch):
    path = tmp_path / "done.search"
    whole = searched(parts, path)
    monkeypatch.setattr(PopulationTrials, "_fit", None)
    assert same(searched(parts, path), whole)


def test_the_members_of_an_ensemble_are_kept(parts, tmp_path, monkeypatch):
    path = tmp_path / "ensembles.search"
    whole = searched(parts, path, ensemble=2)
    monkeypatch.setattr(PopulationTrials, "_fit", None)
    assert same(searched(parts, path, ensemble=2), whole)


def test_the_file_of_another_search_is_refused(parts, tmp_path):
    path = tmp_path / "other.search"
    searched(parts, path)
    other = sw.Tuning(trials=5, space="paper", batch=2, storage=None, seed=1)
    with pytest.raises(InputError, match=r"other.search belongs to another search"):
        searched(parts, path, other)


@pytest.mark.parametrize(
    ("part", "damaged"),
    [
        ("studies", {}),
        ("studies", [1]),
        ("kept", None),
        ("kept", {"7": {"trial": 0, "value": 0.5, "fits": []}}),
        ("kept", {"0": {"trial": 99, "value": 0.5, "fits": []}}),
        ("kept", {"0": {"value": 0.5}}),
        ("trials", {"pruned": False}),
        ("trials", {"pruned": False, "params": {"dropout": 9}, "value": 0.5, "result": {}}),
        ("arrays", {}),
    ],
)
def test_a_damaged_file_is_refused(parts, tmp_path, finished, part, damaged):
    """Its checksum is right: another program, or a person, wrote it so."""
    arrays, meta = _tensorfile.read(finished, "search")
    if part == "trials":
        meta["studies"] = {name: [damaged] for name in meta["studies"]}
    elif part == "arrays":
        arrays = damaged
    else:
        meta[part] = damaged
    path = tmp_path / "damaged.search"
    _tensorfile.write(path, "search", arrays, meta)
    with pytest.raises(InputError, match=r"damaged.search (cannot be used|belongs to another)"):
        searched(parts, path)


@pytest.fixture(scope="module")
def finished(parts, tmp_path_factory):
    """The file of a finished search."""
    path = tmp_path_factory.mktemp("finished") / "whole.search"
    searched(parts, path)
    return path
