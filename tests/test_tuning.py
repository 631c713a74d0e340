"""Search spaces, studies and the loop: each trial once, the test part never seen."""

import dataclasses
import math
import warnings
from contextlib import closing

import numpy as np
import pytest
from optuna.trial import TrialState, create_trial
from sklearn.base import clone

import setwise as sw
from setwise._executor import SerialExecutor
from setwise.comparison.comparison import tune_splits
from setwise.reports.figures import tuning_history
from setwise.tuning import SPACES, Range, Tuning, parse, tunable, tune_tasks, with_arguments
from setwise.tuning.options import STARTUP
from setwise.tuning.space import check_space
from setwise.tuning.storage import GRACE, Storage, WorkerWatch, is_dead, this_worker
from setwise.tuning.study import Study, distributions
from setwise.tuning.trials import _Pruner
from setwise.tuning.tuning_run import TuningRun

CHOICES = sw.datasets.generate("sda", sets=120, items=3, features=2, dimension=2).choices
PARTS = sw.split(CHOICES, seed=0)
TRAIN, VALID, TEST = PARTS
SMALL = sw.SDA.paper(
    dimension=2, components=2, hidden=4, training=sw.Training(epochs=4, batch_size=32, patience=2)
)
QUICK = Tuning(trials=6, batch=3, storage=None)


def parameters(estimator):
    import jax

    return [np.asarray(leaf) for leaf in jax.tree.leaves(estimator.model_)]


def same(one, two):
    pairs = zip(parameters(one), parameters(two), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


# Spaces


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("hidden=16,32", ("hidden", (16, 32))),
        ("hidden=8..64", ("hidden", Range(8, 64))),
        ("dropout=0..0.5", ("dropout", Range(0, 0.5))),
        ("learning_rate=1e-4..1e-2 log", ("learning_rate", Range(1e-4, 1e-2, log=True))),
        ("wiring=joint,shared", ("wiring", ("joint", "shared"))),
        ("within_set=True,false", ("within_set", (True, False))),
    ],
)
def test_ranges_on_the_command_line(text, wanted):
    assert parse(text) == wanted


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("hidden", "is not a range"),
        ("=1..2", "is not a range"),
        ("hidden=", "is not a range"),
        ("hidden=1..2 cubic", "is not a range"),
        ("hidden=a..b", "'a' is not a number"),
        ("hidden=1..true", "'true' is not a number"),
        ("dropout=0..inf", "high=inf must be a number, and finite"),
        ("hidden=2..1", "from 2 to 1 is empty"),
        ("dropout=0..1 log", "must begin above 0"),
        ("hidden=1,2 log", "leave 'log' out"),
    ],
)
def test_bad_ranges_say_why(text, complaint):
    with pytest.raises(sw.InputError, match=complaint):
        parse(text)


def test_whole_bounds_give_whole_numbers():
    space = distributions({"hidden": Range(8, 64), "dropout": Range(0.0, 0.5), "k": (1, 2)})
    assert [type(one).__name__ for one in space.values()] == [
        "IntDistribution",
        "FloatDistribution",
        "CategoricalDistribution",
    ]


def test_the_papers_space():
    paper = SPACES["paper"]
    assert paper["learning_rate"] == Range(1e-5, 1e-3, log=True)
    assert paper["weight_decay"] == Range(1e-10, 1e-3, log=True)
    assert paper["dropout"] == Range(0.0, 0.5)  # keep probability 0.5 to 1


OF_TREES = {"trees": sw.BoostedLogit(), "lambdamart": sw.LambdaMART()}


@pytest.mark.parametrize("name", SPACES)
def test_every_space_fits_its_models(name):
    check_space(SPACES[name], OF_TREES.get(name, SMALL))


def test_the_default_space_goes_by_the_estimator():
    assert Tuning().space_of(SMALL) == SPACES["training"]
    for name, model in OF_TREES.items():
        assert Tuning().space_of(model) == SPACES[name]
    with pytest.raises(sw.InputError, match=r"MNL has no default search space; .* arguments: l2"):
        Tuning().space_of(sw.MNL())


def test_unknown_arguments_are_refused():
    with pytest.raises(sw.InputError, match="SDA has no argument 'depth' to tune"):
        check_space({"depth": (1, 2)}, SMALL)
    with pytest.raises(sw.InputError, match="the space is empty"):
        check_space({}, SMALL)
    with pytest.raises(sw.InputError, match="the values of 'hidden' to choose from must be a list"):
        check_space({"hidden": ()}, SMALL)


def test_arguments_go_to_the_estimator_or_to_its_training():
    changed = with_arguments(SMALL, {"hidden": 7, "dropout": 0.3})
    assert (changed.hidden, changed.training.dropout, changed.training.epochs) == (7, 0.3, 4)
    assert (SMALL.hidden, SMALL.training.dropout) == (4, 0.1)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"trials": 0}, "trials=0"),
        ({"batch": 0}, "batch=0"),
        ({"seed": -1}, "seed=-1"),
        ({"trials": 2.5}, "trials=2.5 must be a whole number"),
        ({"pruning": "no"}, "pruning='no' must be True or False"),
        ({"storage": 3}, "storage=3 must be a path"),
        ({"space": 3}, "space=3 must be one of: paper"),
        ({"space": "huge"}, "must be one of: paper, training, wide"),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_bad_options(arguments, complaint):
    with pytest.raises(sw.InputError, match=complaint):
        Tuning(**arguments)


def test_models_without_arguments_have_nothing_to_tune():
    with pytest.raises(sw.InputError, match="RandomChoice has no arguments"):
        tunable("random")


# Studies


@pytest.fixture
def study(tmp_path):
    with closing(Storage(tmp_path / "s.sqlite")) as storage:
        yield Study(storage, "one", SPACES["paper"], maximise=False)


def claim(study, most=3, trials=5):
    return study.claim(most, trials, seed=0, pruning=False)


def test_claims_stop_at_the_number_of_trials(study):
    first = claim(study)
    assert len(first) == 3
    assert [len(claim(study)), len(claim(study))] == [2, 0]


def test_a_large_batch_is_not_all_at_random(study, monkeypatch):
    first = claim(study, most=50, trials=100)
    assert len(first) == STARTUP
    for place, one in enumerate(first):
        study.finish(one, float(place), {}, pruned=False)

    def at_random(*arguments):
        raise AssertionError("a proposal at random")

    monkeypatch.setattr("optuna.samplers.RandomSampler.sample_independent", at_random)
    second = claim(study, most=50, trials=100)
    assert len(second) == 50
    assert len({tuple(one.values.values()) for one in second}) == 50
    # The first did best: more like it are proposed than the half that chance would give.
    best = np.log([one.values["learning_rate"] for one in first[:3]]).mean()
    near = [abs(np.log(one.values["learning_rate"]) - best) for one in second]
    assert np.median(near) < np.log(1e-3 / 1e-5) / 4


def test_the_default_batches_of_a_device(monkeypatch):
    assert (Tuning().together, Tuning().batches) == (8, 13)
    monkeypatch.setattr("setwise.training.population_plan._on_cpu", lambda: False)
    assert (Tuning().together, Tuning().batches) == (20, 6)
    assert Tuning(trials=4).batches == 1


def test_a_trial_given_back_is_proposed_again(study):
    values = [one.values for one in claim(study, most=2)]
    third = claim(study, most=1)[0]
    study.give_back(third)
    again = claim(study, most=1)[0]
    assert again.values == third.values
    assert again.values not in values
    assert len(study.trials()) == 3


def test_proposals_depend_on_the_trials_that_count_alone(tmp_path):
    def values(where):
        with closing(Storage(where)) as storage:
            study = Study(storage, "one", SPACES["paper"], maximise=False)
            for value, one in enumerate(claim(study, most=3, trials=20)):
                study.finish(one, float(value), {}, pruned=False)
            return [one.values for one in claim(study, most=4, trials=20)]

    assert values(None) == values(tmp_path / "s.sqlite")


def test_the_best_is_the_first_of_equals(study):
    for value, one in zip([2.0, 1.0, 1.0], claim(study), strict=True):
        study.finish(one, value, {"epochs": 3}, pruned=False)
    assert study.best().number == 1
    assert study.best().user_attrs["result"] == {"epochs": 3}


def test_pruned_trials_are_never_the_best(study):
    one, two = claim(study, most=2)
    study.finish(one, 0.1, {}, pruned=True)
    with pytest.raises(sw.InputError, match="no trial of study 'one' ran to its end"):
        study.best()
    study.finish(two, 0.2, {}, pruned=False)
    assert study.best().values == [0.2]


def test_a_result_that_comes_too_late_changes_nothing(study):
    one = claim(study, most=1)[0]
    study.give_back(one)
    study.finish(one, 0.5, {}, pruned=False)
    assert study.trials() == []


def test_trials_of_the_dead_are_free_again(study, monkeypatch):
    import socket

    dead = f"{socket.gethostname()}/999999999/1"
    with monkeypatch.context() as patch:
        patch.setattr("setwise.tuning.study.this_worker", lambda: dead)
        lost = claim(study)
    assert [one.values for one in claim(study)] == [one.values for one in lost]
    assert sum(trial.state == TrialState.RUNNING for trial in study.trials()) == 3


def test_workers_elsewhere_are_given_up_when_their_beat_stands_still(monkeypatch):
    def trial(beat):
        return create_trial(
            state=TrialState.RUNNING, user_attrs={"worker": "elsewhere/1/1", "beat": beat}
        )

    clock = [100.0]
    monkeypatch.setattr("setwise.tuning.storage.time.monotonic", lambda: clock[0])
    watch = WorkerWatch()
    assert not watch.given_up(trial(1))
    clock[0] += GRACE
    assert not watch.given_up(trial(1))
    clock[0] += 1
    assert not watch.given_up(trial(2))
    clock[0] += GRACE + 1
    assert watch.given_up(trial(2))


def test_this_worker_is_alive():
    assert not is_dead(this_worker())


def test_a_process_with_the_same_number_but_another_birth_is_another():
    host, number, _ = this_worker().rsplit("/", 2)
    assert is_dead(f"{host}/{number}/0")


# Storages


@pytest.mark.parametrize(
    ("where", "complaint"),
    [
        ("mysql://somewhere/studies", "SQLite files or PostgreSQL, not in mysql"),
        ("postgresql://nobody@127.0.0.1:1/none", "cannot be used: connection failed"),
        ("no://such/thing", "not in no"),
        ("no such folder/s.sqlite", "its folder does not exist"),
    ],
)
def test_bad_storages_say_why(where, complaint):
    with pytest.raises(sw.InputError, match=complaint):
        Storage(where)


def test_passwords_are_not_shown():
    with pytest.raises(sw.InputError) as caught:
        Storage("postgresql://me:secret@127.0.0.1:1/none")
    assert "secret" not in str(caught.value)


def test_other_files_are_left_alone(tmp_path):
    path = tmp_path / "letter.txt"
    path.write_text("dear reader, this is no database")
    with pytest.raises(sw.InputError, match="is not an SQLite file"):
        Storage(path)
    with pytest.raises(sw.InputError, match="is a folder"):
        Storage(tmp_path)
    assert path.read_text() == "dear reader, this is no database"


# The loop


@pytest.fixture(scope="module")
def tuned():
    return sw.tune(SMALL, TRAIN, VALID, tuning=QUICK)


def test_the_best_trial_is_the_fitted_estimator(tuned):
    assert len(tuned.trials) == 6
    assert tuned.value == min(trial.value for trial in tuned.trials)
    best = next(trial for trial in tuned.trials if trial.value == tuned.value)
    assert best.values == tuned.values
    assert math.isclose(tuned.estimator.evaluate(VALID).nll, tuned.value, rel_tol=1e-5)
    assert tuned.estimator.training.learning_rate == tuned.values["learning_rate"]
    assert tuned.best_so_far()[-1] == tuned.value


def test_a_trial_is_the_fit_that_its_values_give(tuned):
    alone = with_arguments(SMALL, tuned.values).fit(TRAIN, VALID)
    assert alone.best_epoch_ == tuned.estimator.best_epoch_
    for one, two in zip(parameters(alone), parameters(tuned.estimator), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


def test_the_same_seed_gives_the_same_trials_and_weights(tuned):
    again = sw.tune(SMALL, TRAIN, VALID, tuning=QUICK)
    assert again.trials == tuned.trials
    assert same(again.estimator, tuned.estimator)


def test_another_seed_gives_other_trials(tuned):
    other = sw.tune(SMALL, TRAIN, VALID, tuning=dataclasses.replace(QUICK, seed=1))
    assert other.trials[0].values != tuned.trials[0].values


def test_a_finished_study_is_read_and_not_run_again(tuned, tmp_path):
    kept = dataclasses.replace(QUICK, storage=tmp_path / "s.sqlite")
    first = sw.tune(SMALL, TRAIN, VALID, tuning=kept)
    seen = []
    second = sw.tune(SMALL, TRAIN, VALID, tuning=kept, on_trials=lambda *one: seen.append(one))
    assert seen == []
    assert first.trials == second.trials == tuned.trials
    assert same(first.estimator, second.estimator)


def test_more_trials_go_on_from_those_there_are(tuned, tmp_path):
    kept = dataclasses.replace(QUICK, trials=3, storage=tmp_path / "s.sqlite")
    sw.tune(SMALL, TRAIN, VALID, tuning=kept)
    more = sw.tune(SMALL, TRAIN, VALID, tuning=dataclasses.replace(kept, trials=6))
    assert more.trials == tuned.trials


def test_an_error_gives_the_batch_back(tuned, tmp_path):
    kept = dataclasses.replace(QUICK, storage=tmp_path / "s.sqlite")

    def fail(done, total):
        if done > 3:
            raise RuntimeError("the roof fell in")

    with pytest.raises(RuntimeError, match="roof"):
        sw.tune(SMALL, TRAIN, VALID, tuning=kept, on_trials=fail)
    assert sw.tune(SMALL, TRAIN, VALID, tuning=kept).trials[:3] == tuned.trials[:3]


def test_progress_counts_every_trial():
    seen = []
    sw.tune(SMALL, TRAIN, VALID, tuning=QUICK, on_trials=lambda *one: seen.append(one))
    assert seen[-1] == (6, 6)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_sizes_can_vary():
    space = {"hidden": (3, 4), "learning_rate": Range(1e-3, 1e-2, log=True)}
    found = sw.tune(SMALL, TRAIN, VALID, tuning=dataclasses.replace(QUICK, space=space))
    assert {trial.values["hidden"] for trial in found.trials} == {3, 4}
    assert found.estimator.hidden == found.values["hidden"]


def test_a_diverging_trial_counts_as_the_worst():
    space = {"learning_rate": (1e-3, 1e30)}
    found = sw.tune(SMALL, TRAIN, VALID, tuning=dataclasses.replace(QUICK, space=space))
    assert found.values == {"learning_rate": 1e-3}
    assert math.inf in [trial.value for trial in found.trials]


def test_accuracy_is_maximised_where_it_is_what_stops():
    model = with_arguments(SMALL, {"stop_on": "accuracy"})
    found = sw.tune(model, TRAIN, VALID, tuning=QUICK)
    assert found.measure == "accuracy"
    assert found.value == max(trial.value for trial in found.trials)
    assert found.best_so_far() == sorted(found.best_so_far())


def test_pruning_stops_trials_that_are_behind(monkeypatch):
    monkeypatch.setattr("setwise.tuning.study.STARTUP", 2)
    monkeypatch.setattr("setwise.tuning.study.WARMUP", 0)
    monkeypatch.setattr("setwise.tuning.trials.EPOCHS_BETWEEN_LOOKS", 1)
    space = {"learning_rate": Range(1e-7, 1e-1, log=True)}
    tuning = Tuning(trials=12, batch=4, pruning=True, storage=None, space=space)
    found = sw.tune(SMALL, TRAIN, VALID, tuning=tuning)
    pruned = [trial for trial in found.trials if trial.pruned]
    assert pruned
    assert min(trial.result["epochs"] for trial in pruned) < 4
    assert len(found.trials) == 12


# Every trial scores the model that its values give


TINY = sw.Training(epochs=3, batch_size=32, learning_rate=1e-2, patience=2)
PLAIN = sw.SDA(2, components=2, hidden=3, within_set=False, ensemble=1, training=TINY)


def validation_of(estimator):
    """What a fit reached: of a single model in its best epoch, of an ensemble as evaluated."""
    if estimator.ensemble == 1:
        return estimator.history_[estimator.best_epoch_]["nll"]
    return estimator.evaluate(VALID).nll


@pytest.mark.parametrize(
    ("model", "space"),
    [
        (PLAIN, {"comparison": ("difference", "inner")}),
        (PLAIN, {"within_set": (True, False)}),
        (PLAIN, {"wiring": ("joint", "shared")}),
        (PLAIN, {"dimension": (1, 3)}),
        (PLAIN, {"ensemble": (1, 2)}),
        (PLAIN, {"seed": (0, 1)}),
        (sw.ChoiceModel("lam", dimension=2, hidden=3, training=TINY), {"model": ("lam", "orhun")}),
        (
            sw.ChoiceModel("mlp", hidden=3, training=TINY),
            {"objective": ("cross_entropy", "listwise")},
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_trial_reaches_what_its_values_reach_alone(model, space):
    found = sw.tune(model, TRAIN, VALID, tuning=Tuning(6, space, batch=3, storage=None))
    (name,) = space
    reached = {trial.values[name]: trial.value for trial in found.trials}
    assert len(set(reached.values())) == len(reached) == 2, "both values must be tried, and differ"
    for value, nll in reached.items():
        alone = with_arguments(model, {name: value}).fit(TRAIN, VALID, progress=False)
        assert math.isclose(validation_of(alone), nll, rel_tol=1e-6)
    assert math.isclose(found.estimator.evaluate(VALID).nll, found.value, rel_tol=1e-6)


@pytest.mark.parametrize(("stop_on", "decays"), [("nll", (0.3, 3.0)), ("accuracy", None)])
def test_an_ensemble_is_scored_as_it_is_returned(stop_on, decays):
    training = dataclasses.replace(TINY, stop_on=stop_on)
    model = sw.SDA(2, hidden=3, weight_decays=decays, ensemble=4, training=training)
    space = {"learning_rate": Range(1e-3, 3e-2, log=True)}
    found = sw.tune(model, TRAIN, VALID, tuning=Tuning(3, space, storage=None))
    measured = found.estimator.evaluate(VALID)
    expected = measured.nll if stop_on == "nll" else measured.top1
    assert math.isclose(found.value, expected, rel_tol=1e-6)
    best = next(trial for trial in found.trials if trial.values == found.values)
    assert math.isclose(best.result["nll"], measured.nll, rel_tol=1e-6)
    assert best.result["best_epoch"] == found.estimator.best_epoch_
    assert len(found.estimator.weights_) == 4
    other = next(trial for trial in found.trials if trial.values != found.values)
    alone = with_arguments(model, other.values).fit(TRAIN, VALID, progress=False).evaluate(VALID)
    assert math.isclose(other.value, alone.nll if stop_on == "nll" else alone.top1, rel_tol=1e-5)


def test_an_ensemble_of_a_finished_study_is_trained_again(tmp_path):
    model = sw.SDA(2, hidden=3, ensemble=2, training=TINY)
    space = {"learning_rate": Range(1e-3, 3e-2, log=True)}
    tuning = Tuning(3, space, batch=2, storage=tmp_path / "s.sqlite")
    first, second = (sw.tune(model, TRAIN, VALID, tuning=tuning) for _ in range(2))
    assert first.value == second.value
    assert same(first.estimator, second.estimator)


def test_pruning_an_ensemble_stops_all_its_members(monkeypatch):
    monkeypatch.setattr("setwise.tuning.study.STARTUP", 2)
    monkeypatch.setattr("setwise.tuning.study.WARMUP", 0)
    monkeypatch.setattr("setwise.tuning.trials.EPOCHS_BETWEEN_LOOKS", 1)
    model = sw.SDA(2, hidden=3, ensemble=4, training=dataclasses.replace(TINY, epochs=6))
    seen = []

    class Watched(_Pruner):
        def __call__(self, epoch, losses):
            stopped = super().__call__(epoch, losses)
            seen.append((epoch, set(losses), set(stopped), set(self.pruned), self._trial_of))
            return stopped

    monkeypatch.setattr("setwise.tuning.trials._Pruner", Watched)
    space = {"learning_rate": Range(1e-7, 1e-1, log=True)}
    found = sw.tune(model, TRAIN, VALID, tuning=Tuning(12, space, 4, pruning=True, storage=None))
    pruned = [trial for trial in found.trials if trial.pruned]
    assert pruned
    assert math.isclose(found.estimator.evaluate(VALID).nll, found.value, rel_tol=1e-6)
    for _, training, stopped, trials, trial_of in seen:
        assert stopped == {member for member in training if trial_of[member] in trials}


# What the estimator does not take


@pytest.mark.parametrize(
    ("space", "complaint"),
    [
        ({"dropout": Range(0.0, 2.0)}, "dropout=2.0, which SDA refuses"),
        ({"learning_rate": Range(-1.0, 1.0)}, "learning_rate=-1.0, which SDA refuses"),
        ({"hidden": (0, 3)}, "hidden=0, which SDA refuses"),
        ({"hidden": Range(2.0, 3.0)}, "hidden=2.0, which SDA refuses"),
        ({"wiring": ("joint", "foo")}, "wiring='foo', which SDA refuses: .* one of: joint, shared"),
        ({"comparison": ("inner", "iner")}, "comparison='iner', which SDA refuses"),
        ({"seed": (0, -1)}, "seed=-1, which SDA refuses"),
        ({"objective": ("cross_entropy", "foo")}, "objective='foo', which SDA refuses"),
        ({"within_set": (False, True)}, "within_set=True, which SDA refuses"),
        ({"hidden": "abc"}, "must be a list of at least one, or a setwise.Range; not 'abc'"),
        ({"weight_decays": [(0.1,), (0.2,)]}, "which no study can store"),
    ],
)
def test_values_that_are_refused_are_refused_before_any_trial(space, complaint):
    trained = []
    tuning = Tuning(4, space, storage=None)
    with pytest.raises(sw.InputError, match=complaint):
        sw.tune(SMALL, TRAIN, VALID, tuning=tuning, on_trials=lambda *one: trained.append(one))
    assert trained == []


def test_values_that_do_not_go_together_are_trials_that_failed():
    space = {"comparison": ("difference", "inner"), "within_set": (True, False)}
    found = sw.tune(PLAIN, TRAIN, VALID, tuning=Tuning(9, space, batch=3, storage=None))
    refused = [trial for trial in found.trials if trial.failed]
    assert {(one.values["comparison"], one.values["within_set"]) for one in refused} == {
        ("inner", True)
    }
    assert all("within_set=False" in one.failed for one in refused)
    assert all(one.value == math.inf for one in refused)
    assert len(found.trials) == 9
    assert math.isclose(found.estimator.evaluate(VALID).nll, found.value, rel_tol=1e-6)


def test_if_every_trial_fails_the_error_says_why():
    tuning = Tuning(2, {"learning_rate": (1e30, 1e31)}, storage=None)
    with pytest.raises(
        sw.InputError, match=r"all 2 trials .* failed; the first because: .*diverged"
    ):
        sw.tune(SMALL, TRAIN, VALID, tuning=tuning)


@pytest.mark.usefixtures("unchecked_types")
def test_lists_of_numpy_numbers_are_taken():
    space = {"hidden": np.array([3, 4])}
    found = sw.tune(SMALL, TRAIN, VALID, tuning=Tuning(2, space, storage=None))
    assert type(found.values["hidden"]) is int


# Splits


def test_every_split_has_a_study_of_its_own():
    parts = [sw.split(CHOICES, seed=seed)[:2] for seed in (0, 1)]
    both = tune_tasks(SMALL, parts, [0, 1], QUICK)
    assert both[0].study != both[1].study
    alone = tune_tasks(SMALL, parts[:1], [0], QUICK)[0]
    assert [trial.values for trial in alone.trials] == [trial.values for trial in both[0].trials]
    for one, two in zip(alone.trials, both[0].trials, strict=True):
        assert math.isclose(one.value, two.value, rel_tol=1e-5)


def test_a_study_with_more_trials_than_asked_for_does_not_stand_in_for_another(tmp_path):
    parts = [sw.split(CHOICES, seed=seed)[:2] for seed in (0, 1)]
    kept = dataclasses.replace(QUICK, storage=tmp_path / "s.sqlite")
    tune_tasks(SMALL, parts[:1], [0], kept)
    both = tune_tasks(SMALL, parts, [0, 1], dataclasses.replace(kept, trials=3))
    assert [len(one.trials) for one in both] == [6, 3]


def test_there_is_only_one_split_by_time():
    with pytest.raises(sw.InputError, match="only one split by time"):
        tune_splits(SMALL, CHOICES, splits=2, split_by="time", tuning=QUICK)


def test_the_test_part_is_never_seen(monkeypatch):
    """With the test choices turned around nothing changes but the test figures."""
    import setwise.comparison.comparison as module

    def with_other_test(*arguments):
        train, valid, test = sw.split(*arguments)
        moved = dataclasses.replace(test, chosen=(test.chosen + 1) % test.sizes)
        return train, valid, moved

    honest = tune_splits(SMALL, CHOICES, splits=1, tuning=QUICK)[0]
    monkeypatch.setattr(module, "split", with_other_test)
    moved = tune_splits(SMALL, CHOICES, splits=1, tuning=QUICK)[0]
    assert honest.tuned.trials == moved.tuned.trials
    assert same(honest.tuned.estimator, moved.tuned.estimator)
    assert honest.test != moved.test


def test_compare_tunes_what_can_be_tuned():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = sw.compare({"sda": SMALL, "mnl": sw.MNL()}, CHOICES, splits=2, tuning=QUICK)
    assert sorted((cell.model, cell.split) for cell in result.cells) == [
        ("mnl", 0), ("mnl", 1), ("sda", 0), ("sda", 1),
    ]  # fmt: skip


def test_the_history_is_a_picture(tuned):
    picture = tuning_history([tuned])
    assert picture.startswith("<svg")
    assert picture == tuning_history([tuned])


# Estimators that do not train by gradients: one fit per trial


TREES = sw.BoostedLogit(rounds=8, threads=1)
OF_FEW_ROWS = {**SPACES["trees"], "min_rows": Range(5, 20)}
FIVE = Tuning(trials=5, space=OF_FEW_ROWS, storage=None)


@pytest.fixture(scope="module")
def boosted():
    return sw.tune(TREES, TRAIN, VALID, tuning=FIVE)


def fitted(model, values):
    return clone(model).set_params(**values).fit(TRAIN, VALID, progress=False)


def test_whole_numbers_may_vary_on_a_log_scale():
    (leaves,) = distributions({"leaves": SPACES["trees"]["leaves"]}).values()
    assert (type(leaves).__name__, leaves.log) == ("IntDistribution", True)


def test_trials_of_trees_score_what_their_values_give(boosted):
    assert set(boosted.values) == set(SPACES["trees"])
    assert len({trial.value for trial in boosted.trials}) > 1
    for trial in boosted.trials:
        alone = fitted(TREES, trial.values)
        assert trial.value == alone.evaluate(VALID).nll
        assert math.isclose(trial.value, min(alone.history_), rel_tol=1e-6)
        assert trial.result["best_round"] == alone.best_round_
    assert (boosted.measure, boosted.value) == ("nll", min(one.value for one in boosted.trials))
    assert boosted.estimator.evaluate(VALID).nll == boosted.value
    assert boosted.estimator.get_params() == TREES.get_params() | boosted.values


@pytest.mark.parametrize(
    ("model", "space"),
    [
        (sw.LambdaMART(rounds=5, threads=1), None),
        (sw.MNL(), {"l2": Range(0.1, 1000, log=True)}),
        (sw.WithinSetMNL(), {"l2": (1.0, "validation")}),
        (sw.SVMRank(), {"C": Range(0.1, 10.0, log=True)}),
    ],
    ids=lambda value: "" if value is None or isinstance(value, dict) else type(value).__name__,
)
def test_other_estimators_are_fitted_once_per_trial(model, space):
    found = sw.tune(model, TRAIN, VALID, tuning=Tuning(3, space, storage=None))
    for trial in found.trials:
        assert trial.value == fitted(model, trial.values).evaluate(VALID).nll
    assert found.estimator.evaluate(VALID).nll == found.value


def test_each_proposal_knows_all_results_unless_a_batch_is_asked_for(monkeypatch):
    asked, claim_of = [], Study.claim

    def watched(self, most, *more):
        asked.append(most)
        return claim_of(self, most, *more)

    monkeypatch.setattr(Study, "claim", watched)
    for batch in (None, 2):
        sw.tune(TREES, TRAIN, VALID, tuning=Tuning(4, OF_FEW_ROWS, batch, storage=None))
    assert asked == [1, 1, 1, 1, 2, 2]


@pytest.mark.parametrize("ended", [1, 3])
def test_a_killed_study_of_trees_goes_on(boosted, tmp_path, ended):
    kept = dataclasses.replace(FIVE, storage=tmp_path / "s.sqlite")

    def die(done, total):
        if done == ended:
            raise SystemExit

    with pytest.raises(SystemExit):
        sw.tune(TREES, TRAIN, VALID, tuning=kept, on_trials=die)
    seen = []
    again = sw.tune(TREES, TRAIN, VALID, tuning=kept, on_trials=lambda *one: seen.append(one))
    assert seen == [(done, 5) for done in range(ended + 1, 6)]
    assert again.trials == boosted.trials
    finished = sw.tune(TREES, TRAIN, VALID, tuning=kept, on_trials=None)
    assert finished.trials == boosted.trials
    assert finished.estimator.evaluate(VALID).nll == boosted.value


def test_a_checkpoint_keeps_the_trials_of_trees(boosted, tmp_path, monkeypatch):
    path, run = tmp_path / "trees.search", TuningRun.run

    def killed(self, claimed, on_trials):
        run(self, claimed, on_trials)
        if len(self.studies[0].finished()) == 3:
            raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(TuningRun, "run", killed)
        with pytest.raises(SystemExit):
            tune_tasks(TREES, [(TRAIN, VALID)], [0], FIVE, checkpoint=path)
    (again,) = tune_tasks(TREES, [(TRAIN, VALID)], [0], FIVE, checkpoint=path)
    assert again.trials == boosted.trials


def test_a_fit_that_fails_is_a_trial_that_failed(monkeypatch):
    fit = sw.BoostedLogit._fit

    def sometimes(self, *arguments):
        if self.leaves == 4 and self.within_set:
            raise sw.InputError("four leaves see too little of a set")
        fit(self, *arguments)

    monkeypatch.setattr(sw.BoostedLogit, "_fit", sometimes)
    space = {"leaves": (4, 8), "within_set": (True, False)}
    found = sw.tune(TREES, TRAIN, VALID, tuning=Tuning(10, space, storage=None))
    failed = [trial for trial in found.trials if trial.failed]
    assert failed
    for trial in failed:
        assert trial.values == {"leaves": 4, "within_set": True}
        assert (trial.failed, trial.value) == ("four leaves see too little of a set", math.inf)
    assert found.values != failed[0].values
    with pytest.raises(sw.InputError, match=r"all 2 trials .* failed; the first because: four"):
        sw.tune(
            TREES, TRAIN, VALID,
            tuning=Tuning(2, {"leaves": (4,), "within_set": (True,)}, storage=None),
        )  # fmt: skip


def test_a_setting_that_lightgbm_refuses_is_a_trial_that_failed():
    with pytest.raises(sw.InputError, match="min_rows=150 may be too large"):
        fitted(TREES, {"min_rows": 150})
    space = {"min_rows": (5, 150)}
    found = sw.tune(TREES, TRAIN, VALID, tuning=Tuning(6, space, storage=None))
    reasons = {trial.values["min_rows"]: trial.failed for trial in found.trials}
    assert reasons[5] is None
    assert "LightGBM cannot grow trees with these arguments" in reasons[150]
    assert "lightgbm-python" not in reasons[150]


def test_trees_without_lightgbm_are_refused_before_any_trial(monkeypatch, tmp_path):
    def missing():
        raise sw.InputError("trees need LightGBM")

    monkeypatch.setattr("setwise.tuning.trials.lightgbm", missing)
    with pytest.raises(sw.InputError, match="trees need LightGBM"):
        sw.tune(TREES, TRAIN, VALID, tuning=Tuning(2, storage=tmp_path / "s.sqlite"))
    assert not (tmp_path / "s.sqlite").exists()


def test_only_the_best_trial_warns(monkeypatch):
    fit = sw.BoostedLogit._fit

    def warned(self, *arguments):
        fit(self, *arguments)
        warnings.warn(f"{self.leaves} leaves", sw.DataWarning, stacklevel=2)

    monkeypatch.setattr(sw.BoostedLogit, "_fit", warned)
    with pytest.warns(sw.DataWarning) as raised:
        found = sw.tune(TREES, TRAIN, VALID, tuning=FIVE)
    assert [str(one.message) for one in raised] == [f"{found.values['leaves']} leaves"]


@pytest.mark.parametrize(
    ("model", "space", "complaint"),
    [
        (
            TREES,
            {"dropout": (0.1, 0.2)},
            "BoostedLogit has no argument 'dropout' .* has: columns",
        ),
        (TREES, {"columns": Range(0.5, 2.0)}, "columns=2.0, which BoostedLogit refuses"),
        (TREES, {"leaves": (31, 200_000)}, "leaves=200000, which BoostedLogit refuses"),
        (TREES, "training", "BoostedLogit has no argument 'weight_decay' to tune"),
        (TREES, {}, "the space is empty"),
        (
            sw.LambdaMART(),
            "trees",
            "LambdaMART has no argument 'l2' to tune; it has: learning_rate",
        ),
        (sw.MNL(), None, "MNL has no default search space; .* arguments: l2"),
        (sw.MNL(), {"l2": (-1.0, 1.0)}, "l2=-1.0, which MNL refuses"),
        (sw.RandomChoice(), {"l2": (1.0,)}, "RandomChoice has no arguments"),
    ],
)
def test_spaces_that_estimators_do_not_take(model, space, complaint):
    with pytest.raises(sw.InputError, match=complaint):
        sw.tune(model, TRAIN, VALID, tuning=Tuning(2, space, storage=None))


def test_trees_on_several_splits_and_elsewhere():
    quick = Tuning(2, OF_FEW_ROWS, storage=None)
    here = tune_splits(TREES, CHOICES, splits=2, tuning=quick)
    there = tune_splits(TREES, CHOICES, splits=2, tuning=quick, executor=SerialExecutor())
    assert [one.tuned.trials for one in here] == [one.tuned.trials for one in there]
    assert [one.tuned.estimator.seed for one in here] == [0, 1]
    assert here[0].tuned.study != here[1].tuned.study


def tuned_cells(models, space, monkeypatch):
    """The models that a comparison tunes."""
    import setwise.comparison.comparison as module

    names, of_parts = [], module.tune_parts

    def watched(model, *more, **options):
        names.append(type(model).__name__)
        return of_parts(model, *more, **options)

    monkeypatch.setattr(module, "tune_parts", watched)
    sw.compare(models, CHOICES, splits=1, tuning=Tuning(2, space, storage=None))
    return names


@pytest.mark.parametrize(
    ("space", "tuned"),
    [
        (None, ["SDA", "BoostedLogit"]),
        ("paper", ["SDA"]),
        ({"learning_rate": (0.01, 0.02)}, ["SDA", "BoostedLogit"]),
    ],
)
def test_a_comparison_tunes_the_models_that_take_the_space(space, tuned, monkeypatch):
    models = {"sda": SMALL, "mnl": sw.MNL(), "trees": TREES, "random": sw.RandomChoice()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert tuned_cells(models, space, monkeypatch) == tuned


def test_a_comparison_tunes_a_logit_where_asked(monkeypatch):
    models = {"mnl": sw.MNL(), "trees": TREES, "random": sw.RandomChoice()}
    assert tuned_cells(models, {"l2": (1.0, 10.0)}, monkeypatch) == ["MNL", "BoostedLogit"]
    with pytest.raises(sw.InputError, match="MNL has no argument 'l3' to tune; it has: l2"):
        sw.compare(models, CHOICES, splits=1, tuning=Tuning(2, {"l3": (1.0,)}, storage=None))
