"""scikit-learn's own tools with our estimators and choices."""

import pickle

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.model_selection import train_test_split as split_by_scikit_learn
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

import setwise as sw
from setwise.estimators.scikit_learn import Parameters, unfitted

TINY = sw.SDW(2, hidden=2, training=sw.Training(epochs=2))


@pytest.fixture(scope="module")
def choices():
    return sw.datasets.generate("mnl", sets=60, items=(2, 4), features=3).choices


@pytest.fixture(scope="module")
def pairs():
    """Sets of one size: a network is one program for them."""
    return sw.datasets.generate("mnl", sets=60, items=2, features=3).choices


def ids(choices):
    return choices.set_ids.tolist()


# Choices


@pytest.mark.parametrize(
    ("index", "wanted"),
    [
        (3, [3]),
        (-1, [59]),
        (np.int64(3), [3]),
        (slice(2, 8, 3), [2, 5]),
        ([4, 1, 1], [4, 1, 1]),
        (np.array([5, -60]), [5, 0]),
        (np.arange(60) >= 58, [58, 59]),
        ([False] * 59 + [True], [59]),
        ((np.array([2, 3]), ...), [2, 3]),
    ],
)
def test_choices_are_indexed_by_set(index, wanted, choices):
    some = choices[index]
    assert ids(some) == wanted
    np.testing.assert_array_equal(some.chosen, choices.chosen[wanted])
    np.testing.assert_array_equal(some.sizes, choices.sizes[wanted])


@pytest.mark.usefixtures("unchecked_types")
@pytest.mark.parametrize(
    ("index", "message"),
    [
        (60, "there is no set 60: there are 60 sets"),
        ([0, -61], "there is no set -61"),
        (np.ones(59, bool), "the mask has 59 values, but there are 60 sets"),
        ("x0", "'x0' does not index sets; give a number, a slice, a list of numbers or a mask"),
        (1.5, "1.5 does not index sets"),
        (None, "None does not index sets"),
        ([[1, 2]], "does not index sets"),
        ([], "no set is selected"),
        (slice(3, 3), "no set is selected"),
        (np.zeros(60, bool), "no set is selected"),
    ],
)
def test_indices_that_name_no_set_are_refused(index, message, choices):
    with pytest.raises(sw.InputError, match=message):
        choices[index]


def test_going_through_choices_gives_one_set_after_another(choices):
    assert [ids(one) for one in choices] == [[place] for place in range(60)]
    assert choices.shape == (len(choices),)


def test_choices_on_disk_are_indexed_alike(choices, tmp_path):
    sw.save_choices(choices, tmp_path / "all.setwise-data")
    disk = sw.open_choices(tmp_path / "all.setwise-data")
    assert ids(disk[[7, 3]]) == [7, 3]
    np.testing.assert_array_equal(disk[[7, 3]].columns["x0"].values,
                                  choices[[7, 3]].columns["x0"].values)  # fmt: skip


# Model selection


def test_scikit_learn_splits_choices(choices):
    train, test = split_by_scikit_learn(choices, test_size=0.25, random_state=0)
    assert isinstance(train, sw.Choices)
    assert sorted(ids(train) + ids(test)) == list(range(60))
    folds = [test for _, test in KFold(3).split(choices)]
    assert [len(fold) for fold in folds] == [20, 20, 20]
    for train, test in GroupKFold(2).split(choices, groups=np.arange(60) % 4):
        assert not set(train % 4) & set(test % 4)


@pytest.mark.parametrize("model", [sw.MNL(), TINY], ids=["mnl", "sdw"])
def test_cross_validation_is_fit_and_score_of_each_fold(model, pairs):
    scores = cross_val_score(model, pairs, cv=3)
    by_hand = [
        clone(model).fit(pairs[train]).score(pairs[test]) for train, test in KFold(3).split(pairs)
    ]
    np.testing.assert_array_equal(scores, by_hand)


def test_grid_search_varies_options_of_training_too(pairs):
    grid = {"training__epochs": [1, 2], "dimension": [2]}
    search = GridSearchCV(
        TINY, grid, cv=2, scoring=lambda model, sets: -model.evaluate(sets).nll, error_score="raise"
    ).fit(pairs)
    assert len(search.cv_results_["params"]) == 2
    best = search.best_estimator_
    assert best.training.epochs == search.best_params_["training__epochs"]
    assert search.n_features_in_ == 3
    assert search.predict_proba(pairs).shape == pairs.rows.shape


def test_groups_of_sets_stay_together_in_cross_validation(choices):
    people, folds = np.arange(60) % 7, GroupKFold(3)
    scores = cross_val_score(sw.MNL(), choices, groups=people, cv=folds)
    by_hand = []
    for train, test in folds.split(choices, groups=people):
        assert not set(people[train]) & set(people[test])
        by_hand.append(sw.MNL().fit(choices[train]).score(choices[test]))
    np.testing.assert_array_equal(scores, by_hand)
    search = GridSearchCV(sw.SingleFeature(), {"feature": ["x0", "x1"]}, cv=folds)
    assert search.fit(choices, groups=people).best_params_["feature"] in ("x0", "x1")


@pytest.mark.usefixtures("unchecked_types")
def test_tables_are_refused_in_training_and_read_in_prediction():
    table = sw.datasets.generate("mnl", sets=60, items=3, features=2).table
    with pytest.raises(sw.InputError, match=r"fit needs Choices, not DataFrame.*setwise\.read"):
        cross_val_score(sw.MNL(), table, cv=3, error_score="raise")
    choices = sw.read(table, set="set_id", chosen="chosen")
    search = GridSearchCV(sw.SingleFeature(), {"feature": ["x0", "x1"]}, cv=2).fit(choices)
    np.testing.assert_array_equal(search.predict_proba(table), search.predict_proba(choices))
    assert search.score(table) == search.score(choices)
    with pytest.raises(sw.InputError, match="score takes no y"):
        search.best_estimator_.score(table, table["chosen"])


# Parameters


def test_options_of_training_are_parameters():
    model = sw.SDA().set_params(training__epochs=8, dimension=3)
    assert (model.training, model.dimension) == (sw.Training(epochs=8), 3)
    assert model.training_options.learning_rate == 3e-3
    params = model.get_params()
    assert (params["training__epochs"], params["training__patience"]) == (8, None)
    assert "training__epochs" not in model.get_params(deep=False)
    assert clone(model).get_params() == params
    assert sw.SDA().set_params(**params).get_params() == params
    assert model.set_params(training__epochs=None).training == sw.Training()
    with_decay = sw.SDA().set_params(training__weight_decay=0.5)
    assert {one.options.weight_decay for one in with_decay.members()} == {0.5}


@pytest.mark.parametrize(
    ("model", "name", "message"),
    [
        (sw.SDA(), "dimensions", "SDA has no argument 'dimensions'; it has: .*dimension"),
        (sw.SDA(), "training__epoch", "there is no option 'epoch' of training; there are: epochs"),
        (sw.MNL(), "training__epochs", "MNL has no argument 'training__epochs'; it has: l2"),
    ],
)
def test_unknown_parameters_are_refused(model, name, message):
    with pytest.raises(sw.InputError, match=message):
        model.set_params(**{name: 3})


def test_what_was_fitted_on_is_told(choices):
    assert not hasattr(sw.MNL(), "n_features_in_")
    model = sw.MNL().fit(choices)
    assert (model.n_features_in_, model.feature_names_in_.tolist()) == (3, ["x0", "x1", "x2"])
    trips = pl.DataFrame({"trip": [1, 1, 2, 2, 3, 3], "cost": [1.0, 2.0, 3.0, 1.0, 1.0, 3.0],
                          "age": [3, 3, 5, 5, 4, 4], "taken": [1, 0, 1, 0, 0, 1]})  # fmt: skip
    read = sw.read(trips, set="trip", chosen="taken", items=["log(cost)"], context=["age"])
    assert sw.RandomChoice().fit(read).feature_names_in_.tolist() == ["cost", "age"]


def test_estimators_keep_the_conventions_of_scikit_learn(choices):
    model = sw.MNL(l2=3)
    assert get_tags(model).requires_fit
    assert not is_classifier(model)
    assert not is_regressor(model)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    with pytest.raises(NotFittedError, match="call fit") as refused:
        model.predict_proba(choices)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
    check_is_fitted(model.fit(choices))
    assert "MNL(l2=3)" in model._repr_html_()
    assert [repr(one) for one in (clone(model), unfitted(model), sw.SDA(), TINY)] == [
        "MNL(l2=3)", "MNL(l2=3)", "SDA()",
        "SDW(dimension=2, hidden=2, training=Training(epochs=2))",
    ]  # fmt: skip


def test_parameters_of_estimators_within_estimators():
    class Around(Parameters):
        def __init__(self, model, times=1):
            self.model, self.times = model, times

    around = Around(sw.MNL(l2=1))
    assert around.get_params() == {
        "model": around.model, "model__l2": 1, "model__monotone": None, "model__utility": None,
        "times": 1,
    }  # fmt: skip
    around.set_params(model__l2=2, model=sw.WithinSetMNL(), times=3)
    assert repr(around) == "Around(model=WithinSetMNL(l2=2), times=3)"
    copy = unfitted(around)
    assert repr(copy) == repr(around)
    assert copy.model is not around.model
    with pytest.raises(sw.InputError, match="Around has no argument 'times__l2'; it has: model, "):
        around.set_params(times__l2=1)


# Arrays


def test_arrays_are_predicted_with_their_sets(choices):
    made = sw.datasets.generate("mnl", sets=60, items=(2, 4), features=3)
    matrix = np.stack([made.columns[name] for name in made.items], 1)
    sets, chosen = made.columns["set_id"], made.columns["chosen"]
    model = sw.MNL().fit(sw.read(matrix, set=sets, chosen=chosen))
    wanted = sw.MNL().fit(choices).predict_proba(choices)
    np.testing.assert_array_equal(model.predict_proba(matrix, set=sets), wanted)
    np.testing.assert_array_equal(
        model.predict_proba(matrix, set=np.bincount(sets)), wanted, "sizes, as LightGBM has them"
    )
    assert model.predict(matrix, set=sets).sum() == 60
    assert model.evaluate(matrix, set=sets, chosen=chosen) == model.evaluate(choices)
    named = sw.MNL().fit(choices)  # a model of a table takes arrays too
    np.testing.assert_array_equal(named.predict_proba(matrix, set=sets), wanted)


def test_arrays_that_lack_something_are_refused(choices):
    model, matrix, sets = sw.MNL().fit(choices), np.zeros((4, 3)), [1, 1, 2, 2]
    for ask, message in [
        (lambda: model.predict_proba(matrix), "an array needs set=, vectors with one value per"),
        (lambda: model.evaluate(matrix, set=sets), "an array needs set= and chosen="),
        (lambda: model.predict(matrix[:, :2], set=sets), r"shape \(4, 2\).* 3 columns: x0, x1, x2"),
        (lambda: model.predict(matrix[0], set=sets), r"the array has shape \(3,\)"),
        (lambda: model.predict(choices, set=sets), "set= and chosen= go with an array"),
        (lambda: model.predict(matrix, set=[5, 5, 5]), "set"),
        (lambda: model.rank(matrix), r"rank gives a table back.*setwise.read\(array, set="),
    ]:
        with pytest.raises(sw.InputError, match=message):
            ask()
