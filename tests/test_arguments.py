"""Arguments of estimators and functions: each is checked, with what is allowed in the message."""

import inspect

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import setwise as sw
from setwise import consequences, violations
from setwise.estimators import CLASSES, fit_together
from setwise.paper import theory
from setwise.training import Options

pytestmark = pytest.mark.usefixtures("unchecked_types")

NEEDED = {
    "ChoiceModel": {"model": "lam"},
    "NestedLogit": {"nest": "brand"},
    "CrossNestedLogit": {"nests": {"road": ["bus"]}},
}
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
        if bad == {} and argument == "random":
            continue  # no random coefficients: the logit
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
        ({"seed": 2**32 - 1}, "seed=4294967295 must be at most 4294967290: the 6 members"),
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
    with pytest.raises(sw.InputError, match="reference=3 must be of type ndarray"):
        model.save(tmp_path / "model", reference=3)
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


# Functions


@pytest.fixture(scope="module")
def modes():
    """Three alternatives with a price, and no warning from a logit."""
    rng = np.random.default_rng(0)
    table = {
        "s": np.repeat(np.arange(40), 3), "price": rng.random(120), "q": rng.random(120),
        "mode": list("abc") * 40, "y": np.eye(3, dtype=int)[rng.integers(0, 3, 40)].ravel(),
    }  # fmt: skip
    return sw.read(table, set="s", chosen="y", items=["price", "q", "mode"])


@pytest.fixture(scope="module")
def calls(choices, modes):
    """Functions with arguments that they take."""
    model, of_modes = sw.MNL().fit(choices), sw.MNL().fit(modes)
    found = violations.violation_capacity(model, choices)
    dearer = consequences.Reprice("price", 2.0)
    drawn = {"sets": 4, "seed": 0}
    splits = {"splits": 1, "seed": 0, "sizes": (0.5, 0.25, 0.25), "split_by": "set"}
    trial = {"x0": 1.0, "x1": 2.0}
    compared = sw.compare(["random"], choices, splits=1)
    table = sw.datasets.table("decoy")
    named = dict.fromkeys(("set", "chosen", "condition", "favours", "option"))
    named = {name: "set_id" if name == "set" else name for name in named}
    by = {"estimator": of_modes, "data": modes, "by": "mode"}
    return {
        sw.compare: {"models": ["random"], "choices": choices, "metric": "nll", **splits},
        sw.tune: {"model": sw.SDW(), "choices": choices, "tuning": sw.Tuning()},
        sw.examine: {"table": table, "set": "set_id", "chosen": "chosen", "items": ["x1"]},
        sw.load: {"path": "model.setwise"},
        sw.save_choices: {"choices": choices, "path": "new.setwise-data"},
        sw.open_choices: {"path": "old.setwise-data"},
        sw.scoring.load_scorer: {"path": "model.setwise"},
        sw.scoring.export_onnx: {"model": "model.setwise", "out": "model.onnx"},
        sw.Range: {"low": 1.0, "high": 2.0, "log": True},
        sw.Tuning: {"trials": 1, "space": "wide", "batch": 1, "pruning": True, "storage": "a.db",
                    "seed": 0},
        sw.estimators.named: {"name": "mnl", "preset": "paper"},
        sw.estimators.configured: {"name": "sdw", "seed": 0, "dimension": 2, "training": {}},
        sw.estimators.reference_mnl: {"estimator": model, "choices": choices},
        sw.tuning.parse: {"text": "hidden=16,32"},
        sw.tuning.with_arguments: {"estimator": sw.SDW(), "values": {"epochs": 3}},
        sw.comparison.tune_splits: {"model": "sdw", "choices": choices, **splits},
        sw.reports.write_report: {"comparison": compared, "path": "page.html", "title": "a"},
        sw.reports.tuning_history: {"tuned": []},
        sw.reports.examine_iia: {"estimator": model, "choices": choices, "by": "x0"},
        sw.paper.theory.examine_theory: {"estimator": model, "choices": choices},
        sw.reports.decoy_map: {"estimator": model, "choices": choices, "columns": ("x0", "x1"),
                                   "steps": 2},
        sw.reports.explain_model: {**by, "column": "price", "changes": [dearer]},
        sw.doctor.write_page: {"examination": sw.examine(choices), "path": "page.html"},
        violations.violation_capacity: {"estimator": model, "data": choices, "group": "x"},
        violations.soft_violations: {"estimator": model, "data": choices, "group": "x"},
        violations.influence: by,
        violations.bootstrap_interval: {"measure": found, "level": 0.9, "resamples": 9, "seed": 0},
        violations.capacity_by_region: {"estimators": {"mnl": model}, "choices": choices,
                                        "seed": 0},
        violations.iia_test: {"choices": choices, "method": "small_hsiao", "seed": 0},
        violations.context_effects: {"table": table, **named, "seed": 0},
        violations.decoy_effect: {"estimator": model, "a": trial, "b": trial, "decoys": [trial]},
        violations.decoy_grid: {"x0": [1.0, 2.0], "x1": [1.0]},
        consequences.elasticities: {**by, "column": "price"},
        consequences.diversion_ratios: {**by, "column": "price"},
        consequences.expected_shares: by,
        consequences.counterfactual: {**by, "change": dearer, "price": "price"},
        consequences.willingness_to_pay: {"estimator": of_modes, "price": "price"},
        consequences.Reprice: {"column": "price", "to": 2.0, "where": {"mode": "a"}},
        consequences.Remove: {"where": {"mode": "a"}},
        consequences.Add: {"item": {"mode": "a", "price": 1.0, "q": 0.5}},
        sw.datasets.generate: {"name": "sda", "items": 3, "features": 2, "recipe": "sdw",
                               "dimension": 2, "strength": 1.0, **drawn},
        sw.datasets.load: {"name": "mnl"},
        sw.datasets.table: {"name": "mnl"},
        sw.datasets.roles: {"name": "mnl"},
        sw.paper.load_raw: {"name": "expedia", "path": "folder", "view": "paper"},
        sw.paper.imitate: {"name": "expedia", "out": "new", "sets": 2, "seed": 0},
        theory.tversky: {"rho": 1},
        theory.ccm: {"rho": 1},
        theory.nccm: {"rho": 1},
        theory.lam: {"loss": 2},
        theory.average_reference: {"loss": 2},
        theory.has_triple_basis: {"mechanism": theory.mnl()},
        theory.triple_basis: {"mechanism": theory.tversky()},
        theory.rationalise: {"choice_function": 3, "rho": 1},
        theory.universal: {"choice_function": 3},
        theory.bounds: {"estimator": model, "choices": choices, "delta": 0.05},
        theory.separable_regions: {"estimator": model, "data": choices},
        choices.limit: {"max_items": 3, "min_items": 1},
        choices.sample: {"sets": 3, "seed": 0},
    }  # fmt: skip


def test_no_function_takes_what_an_argument_cannot_be(calls, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for function, arguments in calls.items():
        for name in arguments:
            for bad in (object(), float("nan"), [None], np.zeros((2, 2)), b"x", sw.MNL()):
                print(function.__name__, name, bad)  # shown if it is taken
                with pytest.raises(sw.InputError) as refusal:
                    function(**(arguments | {name: bad}))
                assert "\n" not in str(refusal.value), "one sentence"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"models": [sw.MNL()]}, "models= has estimators without names to show; give them by name"),
        ({"models": sw.MNL()}, r"models=MNL\(\) is not a list; give names"),
        ({"models": "mnl"}, "models='mnl' is not a list; give names"),
        ({"models": {}}, "there is no model to compare"),
        ({"models": []}, "there is no model to compare"),
        ({"models": {"a": "mnl"}}, r"models\['a'\]='mnl' must be of type Estimator"),
        ({"models": ["foo"]}, "there is no model 'foo'; there are: mnl, sdw"),
        ({"splits": 0}, "splits=0 must be a whole number of at least 1"),
        ({"seed": None}, "seed=None must be a whole number"),
        ({"metric": "foo"}, "metric='foo' must be one of: top1"),
        ({"split_by": "foo"}, "split_by='foo' must be one of: set, group, time"),
        ({"sizes": (0.5, 0.5)}, "sizes=.* must be a list or tuple of at least 3 values"),
        ({"tuning": {}}, r"tuning={} must be of type Tuning; write tuning=setwise.Tuning\(trials="),
        ({"on_cell": 3}, "on_cell=3 must be a function"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments, message, choices):
    given = {"models": ["mnl"], "choices": choices} | arguments
    with pytest.raises(sw.InputError, match=message):
        sw.compare(**given)
