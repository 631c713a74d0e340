"""Arguments of estimators and functions: each is checked, with what is allowed in the message."""

import inspect

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import setwise as sw
from setwise.estimators import CLASSES, fit_together
from setwise.training import Options

pytestmark = pytest.mark.usefixtures("unchecked_types")

NEEDED = {"ChoiceModel": {"model": "lam"}, "NestedLogit": {"nest": "brand"}}
"""Arguments without which there is no estimator."""

ARGUMENTS = [
    (name, argument)
    for name, kind in CLASSES.items()
    for argument in inspect.signature(kind.__init__).parameters
    if argument not in ("self", "args", "kwargs")
]


def estimator(name, **arguments):
    return CLASSES[name](**(NEEDED.get(name, {}) | arguments))


@pytest.fixture(scope="module")
def choices():
    return sw.datasets.generate("mnl", sets=40, items=3, features=2).choices


@pytest.mark.parametrize("name", CLASSES)
def test_every_argument_of_every_estimator_has_a_check(name):
    assert set(CLASSES[name].CHECKS) == set(estimator(name).get_params(deep=False))
    estimator(name).check_arguments()


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS)
def test_no_argument_takes_what_it_cannot_be(name, argument, choices):
    for bad in (object(), {}, -1, float("nan"), [], [None], b"x", ""):
        with pytest.raises(sw.InputError, match=rf"^{argument}"):
            estimator(name, **{argument: bad}).fit(choices)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"wiring": "foo"}, "wiring='foo' must be one of: joint, shared"),
        ({"comparison": "iner", "within_set": False}, "must be one of: difference, inner"),
        ({"within_set": "no"}, "within_set='no' must be True or False"),
        ({"within_set": 1}, "within_set=1 must be True or False"),
        ({"weight_decays": 0.1}, "weight_decays=0.1 must be a list or tuple of at least 1 value"),
        ({"weight_decays": (-1,), "ensemble": 1}, r"weight_decays\[0\]=-1 must be a number of"),
        ({"weight_decays": "none"}, "weight_decays='none' must be .* or 'auto'"),
        ({"seed": None}, "seed=None must be a whole number of at least 0 and at most 4294967295"),
        ({"seed": np.random.RandomState(0)}, "seed=RandomState"),
        ({"seed": 2**40}, "seed=1099511627776 must be a whole number"),
        ({"seed": 2**32 - 1}, "seed=4294967295 must be at most 4294967288: the 8 members"),
        ({"seed": True}, "seed=True must be a whole number"),
        ({"dimension": "8"}, "dimension='8' must be a whole number of at least 1"),
        ({"dimension": 8.0}, "dimension=8.0 must be a whole number of at least 1"),
        ({"training": {}}, r"training={} must be of type Training; write .*Training\(epochs=20\)"),
        ({"training": Options()}, "must be of type Training"),
        ({"ensemble": 0}, "ensemble=0 must be a whole number of at least 1"),
        (
            {"weight_decays": (1.0,), "training": sw.Training(weight_decay=0.1)},
            "weight_decays=.* and a training with weight_decay=0.1 contradict each other",
        ),
    ],
)
def test_values_that_no_sda_can_have_are_refused(arguments, message, choices):
    with pytest.raises(sw.InputError, match=message):
        sw.SDA(**arguments).fit(choices)
    if "training" not in arguments:
        with pytest.raises(sw.InputError, match=message):
            fit_together(sw.SDA(**arguments), [(choices, choices)], seeds=[0])
        with pytest.raises(sw.InputError, match=message):
            sw.tune(sw.SDA(**arguments), choices, tuning=sw.Tuning(trials=1, storage=None))
        with pytest.raises(sw.InputError, match=message):
            sw.compare({"first": sw.MNL(), "sda": sw.SDA(**arguments)}, choices)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3,), "fit needs Choices, not int"),
        (({"x": [1.0]},), "fit needs Choices, not dict"),
        (("self", 3), "validation= needs Choices, not int"),
        (("self", "other"), "validation= has no column 'x0' among its items"),
        (("self", "unknown"), "in validation=: these choices do not say what was chosen"),
    ],
)
@pytest.mark.parametrize("name", ["MNL", "SDW"])
def test_sets_that_cannot_be_learned_from_are_refused(name, arguments, message, choices):
    unknown = sw.read({"s": [1, 1], "x0": [1.0, 2.0], "x1": [0.0, 1.0]}, set="s")
    known = {"self": choices, "unknown": unknown, "other": sw.datasets.load("modecanada")}
    given = [known[one] if isinstance(one, str) else one for one in arguments]
    with pytest.raises(sw.InputError, match=message):
        estimator(name).fit(*given)


def test_the_other_arguments_of_fit_and_of_a_fitted_model_are_checked(choices, tmp_path):
    for name in ("MNL", "SDW"):
        with pytest.raises(sw.InputError, match="checkpoint=3 must be a path"):
            estimator(name).fit(choices, checkpoint=3)
        with pytest.raises(sw.InputError, match="progress='yes' must be True or False"):
            estimator(name).fit(choices, progress="yes")
    model = sw.MNL().fit(choices)
    for ask in (model.predict_proba, model.predict, model.rank, model.evaluate, model.score):
        for bad in (3, None, []):
            with pytest.raises(sw.InputError, match="cannot read choices from"):
                ask(bad)
    with pytest.raises(sw.InputError, match="choices=3 must be of type Choices"):
        model.outcomes(3)
    for bad in (3, None, ""):
        with pytest.raises(sw.InputError, match=r"path=.* must be a path"):
            model.save(bad)
        with pytest.raises(sw.InputError, match=r"path=.* must be a path"):
            sw.load(bad)
    with pytest.raises(sw.InputError, match="sample=3 must be of type Choices"):
        model.save(tmp_path / "model", sample=3)
    with pytest.raises(sw.InputError, match="beside=3 must be of type ndarray"):
        model.save(tmp_path / "model", beside=3)
    assert not list(tmp_path.iterdir())


def test_what_is_not_fitted_says_so_as_scikit_learn_and_as_setwise(choices, tmp_path):
    new = sw.MNL()
    asked = [
        lambda: new.predict(choices), lambda: new.outcomes(choices), lambda: new.summary(),
        lambda: new.save(tmp_path / "model"), lambda: new.read({}),
    ]  # fmt: skip
    for ask in asked:
        for kind in (sw.InputError, NotFittedError):
            with pytest.raises(kind, match="this MNL is not fitted yet; call fit"):
                ask()


def test_numbers_of_numpy_are_numbers_and_can_be_saved(choices, tmp_path):
    training = sw.Training(epochs=np.int64(1), learning_rate=np.float32(0.25))
    model = sw.SDW(np.int64(2), hidden=np.int32(2), seed=np.uint8(255), training=training)
    model.fit(choices).save(tmp_path / "model")
    assert sw.load(tmp_path / "model").get_params()["seed"] == 255
    assert repr(training) == "Training(epochs=1, learning_rate=0.25)"


def test_values_of_a_space_are_checked_before_the_first_trial(choices):
    small = sw.SDW(2, hidden=2, training=sw.Training(epochs=1))
    for space, message in [
        ({"wiring": ("joint", "foo")}, "wiring='foo' must be one of: joint, shared"),
        ({"decay": sw.Range(0.5, 2.0)}, "decay=2.0 must be a number above 0 and at most 1"),
        ({"hidden": 3}, "the values of 'hidden' to choose from must be a list"),
        ({"hidden": "16"}, "the values of 'hidden' to choose from must be a list"),
        ({}, "the space is empty"),
    ]:
        with pytest.raises(sw.InputError, match=message):
            sw.tune(small, choices, tuning=sw.Tuning(trials=1, space=space, storage=None))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((sw.MNL(), [()], [0]), "must be a pair of training and validation sets"),
        ((sw.SDW(), [3], [0]), r"parts\[0\] must be a pair of training and validation sets"),
        ((sw.SDW(), 3, [0]), "parts=3 must be a list or tuple of at least 1 value"),
        ((sw.SDW(), [(1, 2)], 0), "seeds=0 must be a list or tuple of at least 1 value"),
        ((sw.SDW(), [(1, 2)], [None]), r"seeds\[0\]=None must be a whole number"),
        ((sw.MNL(), [(1, 2)], [0]), "must be of type TrainedEstimator; give one that trains by"),
    ],
)
def test_arguments_of_fit_together_are_checked(arguments, message):
    with pytest.raises(sw.InputError, match=message):
        fit_together(*arguments)
