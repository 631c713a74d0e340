"""Cases of the battery: arguments of estimators and functions, through Python."""

import decimal

import numpy as np

import setwise as sw
from battery import Battery
from battery_data import csv, fit, logit, model_file, network, pandas, quick, read, shown
from setwise import consequences, datasets, paper, reports, scoring, violations
from setwise.paper import theory

NAN, INF = float("nan"), float("inf")
NOT_WHOLE = (2.5, "8", None, NAN, -1, [3])
SEEDS = (None, -1, 2.5, "0", 2**40, True, np.random.RandomState(0))


def add(battery: Battery) -> None:
    """Add the cases of this module."""
    _networks(battery)
    _training(battery)
    _others(battery)
    _fits(battery)
    _functions(battery)
    _tools(battery)
    _odd_values(battery)
    _plots(battery)
    _places(battery)


def _networks(battery: Battery) -> None:
    for name in ("SDA", "SDW", "SDE"):
        for wiring in ("foo", None, 3):
            battery.refused(
                f"{name}(wiring={wiring!r})",
                lambda name=name, wiring=wiring: fit(quick(name, wiring=wiring)),
                "wiring",
                "joint",
                "shared",
            )
        for argument in ("dimension", "hidden", "ensemble"):
            for value in (*NOT_WHOLE, 0):
                battery.refused(
                    f"{name}({argument}={value!r})",
                    lambda name=name, argument=argument, value=value: fit(
                        quick(name, **{argument: value})
                    ),
                    argument,
                )
        for seed in SEEDS:
            battery.refused(
                f"{name}(seed={shown(seed)})",
                lambda name=name, seed=seed: fit(quick(name, seed=seed)),
                "seed",
            )
        for training in ({}, 3, "fast", {"epochs": 3}, sw.Training):
            battery.refused(
                f"{name}(training={shown(training)})",
                lambda name=name, training=training: fit(quick(name, training=training)),
                "training",
            )
    for comparison in ("iner", None, "inner product"):
        battery.refused(
            f"SDA(comparison={comparison!r})",
            lambda comparison=comparison: fit(
                quick("SDA", comparison=comparison, within_set=False)
            ),
            "comparison",
            "inner",
            "difference",
        )
    for value in ("no", 1, None, 0):
        battery.refused(
            f"SDA(within_set={value!r})",
            lambda value=value: fit(quick("SDA", within_set=value)),
            "within_set",
        )
    battery.refused(
        "SDA(inner, within_set)",
        lambda: fit(quick("SDA", comparison="inner", within_set=True)),
        "within_set",
    )
    for decays in ((), 0.1, (-1,), ("a",), (NAN,), (INF,), [None], "0.1"):
        for ensemble in (1, 2):
            battery.refused(
                f"SDA(weight_decays={decays!r}, ensemble={ensemble})",
                lambda decays=decays, ensemble=ensemble: fit(
                    quick("SDA", weight_decays=decays, ensemble=ensemble)
                ),
                "weight_decays",
            )
    battery.either(
        "SDA(ensemble=1) takes its weight decay",
        lambda: [
            fit(
                quick(
                    "SDA",
                    weight_decays=(one,),
                    ensemble=1,
                    training=sw.Training(epochs=5, batch_size=8),
                )
            ).predict_proba(read())
            for one in (0.0, 50.0)
        ],
        lambda both: not np.allclose(*both, atol=1e-6),
        "weight_decays",
    )
    battery.right(
        "options left out keep SDA's learning rate",
        lambda: [
            fit(quick("SDA", training=training)).predict_proba(read())
            for training in (sw.Training(epochs=3), sw.Training(epochs=3, learning_rate=3e-3))
        ],
        lambda both: np.array_equal(*both),
    )
    for model in ("zz", None, 3, ""):
        battery.refused(
            f"ChoiceModel({model!r})",
            lambda model=model: fit(sw.ChoiceModel(model, training=sw.Training(epochs=1))),
        )
    battery.refused(
        "ChoiceModel(components=0)",
        lambda: fit(sw.ChoiceModel("sda_inner", components=0)),
        "components",
    )


def _training(battery: Battery) -> None:
    for name in ("epochs", "batch_size", "decay_every", "patience"):
        for value in (0, -1, 2.5, "3", NAN, True, [1]):
            battery.refused(
                f"Training({name}={value!r})",
                lambda name=name, value=value: fit(quick(training=sw.Training(**{name: value}))),
                name,
            )
    for name in ("learning_rate", "decay"):
        for value in (0, -1, "3", NAN, INF, [1]):
            battery.refused(
                f"Training({name}={value!r})",
                lambda name=name, value=value: fit(quick(training=sw.Training(**{name: value}))),
                name,
            )
    battery.refused("Training(decay=5)", lambda: fit(quick(training=sw.Training(decay=5))), "decay")
    for value in (-1, "3", NAN, INF):
        battery.refused(
            f"Training(weight_decay={value!r})",
            lambda value=value: fit(quick(training=sw.Training(weight_decay=value))),
            "weight_decay",
        )
    for value in (-0.1, 1, 1.5, "3", NAN):
        battery.refused(
            f"Training(dropout={value!r})",
            lambda value=value: fit(quick(training=sw.Training(dropout=value))),
            "dropout",
        )
    for name in ("objective", "stop_on"):
        for value in ("foo", 3, ["nll"]):
            battery.refused(
                f"Training({name}={value!r})",
                lambda name=name, value=value: fit(quick(training=sw.Training(**{name: value}))),
                name,
            )
    battery.warned(
        "Training(learning_rate=1e9)",
        lambda: fit(quick(training=sw.Training(epochs=2, learning_rate=1e9))),
        "learning rate",
    )


def _others(battery: Battery) -> None:
    lightgbm = {"rounds": 5, "min_rows": 2}
    for argument, values in {
        "objective": ("foo", None),
        "rounds": (0, 2.5, "5"),
        "learning_rate": (0, -1, "x", NAN),
        "leaves": (1, 0, 2.5, "x"),
        "min_rows": (-1, "x"),
        "patience": (0, "x"),
        "threads": (-1, "x"),
        "seed": (None, -1, "x"),
    }.items():
        for value in values:
            battery.refused(
                f"LambdaMART({argument}={value!r})",
                lambda argument=argument, value=value: fit(
                    sw.LambdaMART(**(lightgbm | {argument: value}))
                ),
                argument,
            )
    for argument, values in {
        "classes": (0, -1, 2.5, "2"),
        "starts": (0, -1, "x", 2.5, None),
        "seed": (None, -1, "x"),
    }.items():
        for value in values:
            battery.refused(
                f"MixedMNL({argument}={value!r})",
                lambda argument=argument, value=value: fit(
                    sw.MixedMNL(**({"classes": 2, "starts": 1} | {argument: value}))
                ),
                argument,
            )
    for value in ("zz", "", None, 3, ["brand"], "cost"):
        battery.refused(f"NestedLogit({value!r})", lambda value=value: fit(sw.NestedLogit(value)))
    for value in (-1, 0, "x", NAN):
        battery.refused(f"SVMRank(C={value!r})", lambda value=value: fit(sw.SVMRank(value)), "C")
    for value in (0, -1, "x", 2.5):
        battery.refused(
            f"SVMRank(max_pairs={value!r})",
            lambda value=value: fit(sw.SVMRank(max_pairs=value)),
            "max_pairs",
        )
        battery.refused(
            f"AdaRank(rounds={value!r})", lambda value=value: fit(sw.AdaRank(value)), "rounds"
        )
        battery.refused(
            f"AdaRank(patience={value!r})",
            lambda value=value: fit(sw.AdaRank(3, patience=value)),
            "patience",
        )
    for value in ("zz", 3, "", ["cost"]):
        battery.refused(
            f"SingleFeature({value!r})", lambda value=value: fit(sw.SingleFeature(value))
        )
    for value in ("up", 3):
        battery.refused(
            f"SingleFeature(direction={value!r})",
            lambda value=value: fit(sw.SingleFeature("cost", value)),
            "direction",
        )


def _fits(battery: Battery) -> None:
    for name, data in {
        "a frame": pandas(),
        "None": None,
        "a path": "t.csv",
        "an array": np.ones((3, 2)),
        "a list": [],
    }.items():
        battery.refused(f"fit of {name}", lambda data=data: sw.MNL().fit(data), "read")
        battery.refused(
            f"fit with {name} to validate",
            lambda data=data: quick().fit(read(), validation="x" if data is None else data),
            "validation",
        )
    battery.refused(
        "validation without a column",
        lambda: quick().fit(read(), validation=read(items=["time"])),
        "cost",
    )
    battery.refused(
        "validation without choices",
        lambda: quick().fit(read(), validation=read(chosen=None)),
        "chosen",
    )
    battery.refused("checkpoint=3", lambda: quick().fit(read(), checkpoint=3), "checkpoint")
    battery.refused("progress='yes'", lambda: quick().fit(read(), progress="yes"), "progress")
    battery.refused("two sets to fit a network", lambda: quick().fit(read().take(np.arange(1))))
    for method in ("predict_proba", "predict", "rank", "evaluate", "score"):
        battery.refused(
            f"{method} before fit",
            lambda method=method: (
                getattr(sw.MNL(), method)(pandas()) if _input_error(sw.MNL(), method) else None
            ),
            "not fitted",
        )
    battery.refused(
        "save before fit", lambda: _unfitted(lambda: sw.MNL().save("m.setwise")), "not fitted"
    )
    battery.refused(
        "summary before fit", lambda: _unfitted(lambda: sw.MNL().summary()), "not fitted"
    )
    for path in (3, None, "", "gone/m.setwise", "."):
        battery.refused(f"save to {path!r}", lambda path=path: logit().save(path))
        battery.refused(f"load of {path!r}", lambda path=path: sw.load(path))
        battery.refused(f"scorer load of {path!r}", lambda path=path: scoring.load_scorer(path))
    battery.refused(
        "a parameter that is not there",
        lambda: _value_error(lambda: sw.SDA().set_params(foo=3)),
        "foo",
    )
    battery.right(
        "set_params(training__epochs=1)",
        lambda: fit(quick().set_params(training__epochs=1)),
        lambda model: len(model.history_) == 1,
    )


def _unfitted(call: object) -> None:
    """scikit-learn's own error of models that are not fitted counts as a clear refusal."""
    from sklearn.exceptions import NotFittedError

    try:
        call()
    except NotFittedError as error:
        raise sw.InputError(str(error)) from None


def _input_error(model: object, method: str) -> bool:
    _unfitted(lambda: getattr(model, method)(pandas()))
    return True


def _value_error(call: object) -> None:
    """scikit-learn's own error of unknown parameters counts as a clear refusal."""
    try:
        call()
    except sw.InputError:
        raise
    except ValueError as error:
        raise sw.InputError(" ".join(str(error).split())) from None


def _functions(battery: Battery) -> None:
    mnl = {"mnl": sw.MNL()}
    for models in (
        [sw.MNL()],
        {},
        [],
        None,
        3,
        "zz",
        ["zz"],
        {"a": 3},
        {"a": sw.MNL},
        {3: sw.MNL()},
        ["mnl", "mnl"],
    ):
        battery.refused(
            f"compare({shown(models)})", lambda models=models: sw.compare(models, read(), splits=2)
        )
    battery.refused("compare on a frame", lambda: sw.compare(mnl, pandas()), "read")
    for argument, values in {
        "splits": (0, -1, 2.5, "2", None),
        "seed": (None, -1, "x", 2**40),
        "metric": ("foo", None, 3),
        "split_by": ("foo", None, "group"),
        "sizes": ((0.5, 0.5), (1,), "x", None, (0, 1, 1)),
        "tuning": (3, "x", True),
    }.items():
        for value in values:
            battery.refused(
                f"compare({argument}={value!r})",
                lambda argument=argument, value=value: sw.compare(
                    mnl, read(), **({"splits": 2} | {argument: value})
                ),
                "group" if value == "group" else argument,
            )
    battery.right(
        "compare on one split",
        lambda: str(sw.compare(mnl, read(), splits=1).to_json()),
        lambda text: "nan" not in text.lower(),
    )
    none = {"storage": None}
    for argument, values in {
        "trials": (0, -1, 2.5, "3", None),
        "batch": (0, 2.5, "x"),
        "seed": (None, -1, "x"),
        "space": (
            "foo",
            {},
            {"foo": (1, 2)},
            {"dropout": ()},
            {"wiring": ("joint", "foo")},
            {"dropout": sw.Range(0, 2)},
            3,
            {"epochs": (2.5,)},
            {"training": (1,)},
        ),
        "pruning": ("x", 3),
        "storage": (3, "/gone/away/x.sqlite", "mysql-ish://x"),
    }.items():
        for value in values:
            battery.refused(
                f"tune({argument}={shown(value)})",
                lambda argument=argument, value=value: sw.tune(
                    quick(), read(), tuning=sw.Tuning(**({"trials": 1} | none | {argument: value}))
                ),
            )
    for model in ("mnl", "zz", None, 3, sw.MNL()):
        battery.refused(
            f"tune({shown(model)})",
            lambda model=model: sw.tune(model, read(), tuning=sw.Tuning(trials=1, storage=None)),
        )
    battery.refused("tune(tuning=3)", lambda: sw.tune(quick(), read(), tuning=3), "tuning")
    battery.refused(
        "tune on a frame",
        lambda: sw.tune(quick(), pandas(), tuning=sw.Tuning(trials=1, storage=None)),
        "read",
    )
    for low, high in ((2, 1), ("a", "b"), (NAN, 1), (0, INF), (None, 1), (1, 1)):
        battery.refused(f"Range({low!r}, {high!r})", lambda low=low, high=high: sw.Range(low, high))
    battery.refused("Range from 0 on a log scale", lambda: sw.Range(0, 1, log=True), "log")
    for name in ("zz", None, 3):
        battery.refused(f"datasets.load({name!r})", lambda name=name: datasets.load(name))
        battery.refused(f"datasets.generate({name!r})", lambda name=name: datasets.generate(name))
        battery.refused(f"datasets.table({name!r})", lambda name=name: datasets.table(name))
        battery.refused(f"paper.load_raw({name!r})", lambda name=name: paper.load_raw(name, "gone"))
    for argument, values in {
        "sets": (0, -1, 2.5, "x", None),
        "seed": (None, -1, "x"),
        "items": (0, "x"),
        "features": (0, "x"),
        "foo": (3,),
    }.items():
        for value in values:
            battery.refused(
                f"datasets.generate({argument}={value!r})",
                lambda argument=argument, value=value: datasets.generate(
                    "mnl", **{argument: value}
                ),
                argument,
            )
    for table in (None, 3, "gone.csv", []):
        battery.refused(f"examine({table!r})", lambda table=table: sw.examine(table, set="trip"))
    for argument in ("set", "chosen", "items", "context"):
        battery.refused(
            f"examine({argument}=3)",
            lambda argument=argument: sw.examine(pandas(), **{argument: 3}),
            argument,
        )
    battery.refused(
        "save_choices of a frame", lambda: sw.save_choices(pandas(), "x.setwise-data"), "read"
    )
    battery.refused(
        "save_choices to a folder that is not there",
        lambda: sw.save_choices(read(), "gone/x.setwise-data"),
        "gone",
    )
    for path in (3, None, "gone.setwise-data", "."):
        battery.refused(f"open_choices({path!r})", lambda path=path: sw.open_choices(path))


def _tools(battery: Battery) -> None:
    for call in ("violation_capacity", "soft_violations", "influence"):
        run = getattr(violations, call)
        battery.refused(f"{call} of no model", lambda run=run: run(None, read()))
        battery.refused(f"{call} of no data", lambda run=run: run(logit(), None))
        battery.refused(
            f"{call} of an unfitted model", lambda run=run: _unfitted(lambda: run(sw.MNL(), read()))
        )
        battery.refused(
            f"{call} by an unknown group", lambda run=run: run(logit(), read(), group="zz"), "group"
        )
        battery.refused(
            f"{call} by a group that is too short",
            lambda run=run: run(logit(), read(), group=[1, 2]),
            "group",
        )
    for method in ("foo", None, 3):
        battery.refused(
            f"iia_test(method={method!r})",
            lambda method=method: violations.iia_test(read(), method),
            "method",
        )
    battery.refused("iia_test of a frame", lambda: violations.iia_test(pandas()), "read")
    battery.refused(
        "iia_test by an unknown column",
        lambda: violations.iia_test(read(), "hausman_mcfadden", alternatives="zz"),
        "zz",
    )
    capacity = lambda: violations.violation_capacity(logit(), read())  # noqa: E731
    for argument, values in {
        "level": (0, 1, 2, "x", NAN),
        "resamples": (0, -1, "x", 2.5),
        "seed": (None, -1, "x"),
    }.items():
        for value in values:
            battery.refused(
                f"bootstrap_interval({argument}={value!r})",
                lambda argument=argument, value=value: violations.bootstrap_interval(
                    capacity(), **{argument: value}
                ),
                argument,
            )
    for column in ("zz", None, 3, "brand", ["cost"]):
        battery.refused(
            f"elasticities({column!r})",
            lambda column=column: consequences.elasticities(logit(), read(), column),
        )
        battery.refused(
            f"willingness_to_pay({column!r})",
            lambda column=column: consequences.willingness_to_pay(logit(), column),
        )
        battery.refused(
            f"Reprice({column!r})",
            lambda column=column: consequences.counterfactual(
                logit(), read(), consequences.Reprice(column, 1.1)
            ),
        )
    for to in ("x", None, NAN, INF, [1.0], 1e300):
        battery.refused(
            f"Reprice to {to!r}",
            lambda to=to: consequences.counterfactual(
                logit(), read(), consequences.Reprice("cost", to)
            ),
        )
    for where in ({"zz": 1}, {"brand": "pink"}, "brand", 3, {}):
        battery.refused(
            f"Remove({where!r})",
            lambda where=where: consequences.counterfactual(
                logit(), read(), consequences.Remove(where)
            ),
        )
    for change in (None, [], 3, "x"):
        battery.refused(
            f"counterfactual({change!r})",
            lambda change=change: consequences.counterfactual(logit(), read(), change),
        )
    for by in ("zz", 3, [], ["brand", "zz"]):
        battery.refused(
            f"expected_shares(by={by!r})",
            lambda by=by: consequences.expected_shares(logit(), read(), by),
        )
        battery.refused(
            f"diversion_ratios(by={by!r})",
            lambda by=by: consequences.diversion_ratios(logit(), read(), by=by),
        )
    battery.refused(
        "willingness_to_pay of an unfitted model",
        lambda: _unfitted(lambda: consequences.willingness_to_pay(sw.MNL(), "cost")),
    )
    battery.refused(
        "export of a fitted model, not of a file", lambda: scoring.export_onnx(logit(), "m.onnx")
    )
    battery.refused(
        "export of a missing file", lambda: scoring.export_onnx("gone.setwise", "m.onnx"), "gone"
    )
    battery.refused(
        "export over its own model",
        lambda: scoring.export_onnx(model_file(), "m.setwise"),
        "m.setwise",
    )
    for value in (0, -1, 2.5, 99):
        battery.refused(
            f"a random choice function of {value!r} items",
            lambda value=value: theory.ChoiceFunction.random(value),
        )
    battery.refused(
        "a choice function that chooses what is not there",
        lambda: theory.ChoiceFunction.from_table({"ab": "c"}),
    )
    battery.refused(
        "a choice function with gaps",
        lambda: theory.ChoiceFunction.from_table({"ab": "a", "abc": "a"}),
    )
    battery.refused("rationalise of nothing", lambda: theory.rationalise(None))
    battery.refused("bounds of nothing", lambda: theory.bounds(None, read()))
    battery.refused("write_report of nothing", lambda: reports.write_report(None, "r.html"))
    battery.refused(
        "tune_splits(splits=0)",
        lambda: sw.comparison.tune_splits(
            quick(), read(), splits=0, tuning=sw.Tuning(trials=1, storage=None)
        ),
        "splits",
    )
    battery.refused(
        "explain_model by an unknown column",
        lambda: reports.explain_model(logit(), read(), "zz"),
        "zz",
    )
    battery.refused(
        "examine_theory of an unfitted model",
        lambda: _unfitted(lambda: paper.theory.examine_theory(sw.MNL(), read())),
    )
    battery.right(
        "capacity of a network",
        lambda: violations.violation_capacity(network(), read()),
        lambda found: 0 <= found.kappa <= 1,
    )


def _odd_values(battery: Battery) -> None:
    """Numbers that look right: of other types, or too large for any count."""
    small = {
        "SDW": quick,
        "MixedMNL": lambda **given: sw.MixedMNL(**({"classes": 2, "starts": 1} | given)),
        "LambdaMART": lambda **given: sw.LambdaMART(**({"rounds": 2, "min_rows": 2} | given)),
        "AdaRank": lambda **given: sw.AdaRank(**({"rounds": 2} | given)),
        "SVMRank": sw.SVMRank,
    }
    odd = (2.0, np.float32(2.5), np.array(2), decimal.Decimal(2), np.True_, 10**30, -INF)
    for name, argument in (
        ("SDW", "dimension"),
        ("SDW", "ensemble"),
        ("MixedMNL", "classes"),
        ("MixedMNL", "starts"),
        ("LambdaMART", "rounds"),
        ("AdaRank", "rounds"),
        ("SVMRank", "max_pairs"),
    ):
        for value in odd:
            battery.refused(
                f"{name}({argument}={shown(value)}), an odd number",
                lambda name=name, argument=argument, value=value: fit(
                    small[name](**{argument: value})
                ),
                argument,
            )
    for name, argument in (("SDW", "dimension"), ("MixedMNL", "starts"), ("AdaRank", "rounds")):
        battery.right(
            f"{name}({argument}) as a NumPy integer",
            lambda name=name, argument=argument: fit(small[name](**{argument: np.int64(2)})),
            lambda model: np.isfinite(model.predict_proba(read())).all(),
        )
    for decays in (np.array(0.1), {0.1}, {"a": 0.1}, 10**400):
        battery.refused(
            f"SDA(weight_decays={shown(decays)}), not a list",
            lambda decays=decays: fit(quick("SDA", weight_decays=decays)),
            "weight_decays",
        )
    for kinds in ((), "zz", ("zz",), np.array(2), None):
        battery.refused(
            f"SDA(kinds={kinds!r})", lambda kinds=kinds: fit(quick("SDA", kinds=kinds)), "kinds"
        )
    for option, value in (
        ("learning_rate", True),
        ("weight_decay", np.True_),
        ("decoupled_weight_decay", "no"),
        ("stop_on", "NLL"),
        ("batch_size", 10**20),
        ("epochs", np.float64(2)),
    ):
        battery.refused(
            f"Training({option}={shown(value)}), an odd value",
            lambda option=option, value=value: fit(quick(training=sw.Training(**{option: value}))),
            option,
        )
    battery.right(
        "Training of NumPy numbers",
        lambda: fit(
            quick(training=sw.Training(epochs=np.int64(1), learning_rate=np.float32(0.01)))
        ),
        lambda model: len(model.history_) == 1,
    )
    for parameter in ("training__foo", "dimension__x", "foo"):
        battery.refused(
            f"set_params({parameter}=1)",
            lambda parameter=parameter: _value_error(lambda: quick().set_params(**{parameter: 1})),
            parameter.rpartition("__")[2],
        )
    whole_item = {"cost": 3.0, "time": 2.0, "brand": "red"}
    for name, changed in {
        "a number as text": {"cost": "3"},
        "a number that is missing": {"cost": NAN},
        "an infinite number": {"cost": INF},
        "an unknown level": {"brand": "pink"},
        "an unknown column": {"zz": 1},
        "too many values": {"cost": [1.0, 2.0]},
    }.items():
        battery.refused(
            f"Add an item with {name}",
            lambda changed=changed: consequences.counterfactual(
                logit(), read(), consequences.Add(whole_item | changed)
            ),
            *changed,
        )
    battery.refused(
        "compare(executor=3)",
        lambda: sw.compare({"a": sw.MNL()}, read(), splits=1, executor=3),
        "executor",
    )
    battery.refused("a decoy grid of nothing", lambda: violations.decoy_grid(), "grid")
    battery.refused(
        "save_choices to a .csv", lambda: sw.save_choices(read(), "d.csv"), ".setwise-data"
    )
    battery.refused(
        "MixedMNL with more classes than sets", lambda: fit(sw.MixedMNL(61, starts=1)), "61", "60"
    )
    battery.refused(
        "a network that no memory holds", lambda: fit(quick(dimension=2**31 - 1)), "memory"
    )
    for space in (
        {"dropout": "0.1"},
        {"dropout": 0.1},
        {"epochs": sw.Range(1.5, 2.5)},
        {"seed": ("a",)},
    ):
        battery.refused(
            f"tune over {space!r}",
            lambda space=space: sw.tune(
                quick(), read(), tuning=sw.Tuning(trials=1, storage=None, space=space)
            ),
        )


def _plots(battery: Battery) -> None:
    plots = sw.plots
    for name, call, word in (
        ("coefficients of nothing", lambda: plots.coefficients(None), "model"),
        ("coefficients of a network", lambda: plots.coefficients(network()), "SDW"),
        (
            "coefficients that are not there",
            lambda: plots.coefficients(logit(), names=["zz"]),
            "zz",
        ),
        ("coefficients by one word", lambda: plots.coefficients(logit(), names="cost"), "names"),
        ("coefficients in no axes", lambda: plots.coefficients(logit(), ax=3), "ax"),
        ("probability by a category", lambda: plots.probability(logit(), read(), "brand"), "brand"),
        ("probability of no data", lambda: plots.probability(logit(), None, "cost"), "None"),
        (
            "calibration without choices",
            lambda: plots.calibration(logit(), read(chosen=None)),
            "chosen",
        ),
        ("a learning curve of a logit", lambda: plots.learning_curve(logit()), "MNL"),
        (
            "a plot before fit",
            lambda: _unfitted(lambda: plots.coefficients(sw.MNL())),
            "not fitted",
        ),
    ):
        battery.refused(f"plot: {name}", call, word)


def _places(battery: Battery) -> None:
    """Where files are read and written, and what is not a file."""
    for path in ("a\0b", "/dev/full", "/proc/x/m.setwise", b"m.setwise", "x" * 300, "m.csv"):
        battery.refused(f"save to {shown(path)}, no place", lambda path=path: logit().save(path))
    for path in (b"m.setwise", "/dev/null", "https://example.org/m.setwise", "a\0b"):
        battery.refused(f"load of {shown(path)}, no place", lambda path=path: sw.load(path))
    battery.refused("load of a table", lambda: sw.load(csv()), "t.csv")
    battery.refused("save with a frame", lambda: logit().save("m", sample=pandas()), "sample")
    for source in (None, 3, pandas()):
        battery.refused(
            f"predict_file of {type(source).__name__}",
            lambda source=source: scoring.predict_file(logit(), source, "o.csv"),
            "source",
        )
    battery.refused(
        "predict_file without a model", lambda: scoring.predict_file("m", csv(), "o.csv"), "model"
    )
    battery.refused(
        "predict_file of CSV", lambda: scoring.predict_file(logit(), csv(), "o.csv"), "Parquet"
    )
    battery.refused(
        "a checkpoint with a NUL byte", lambda: quick().fit(read(), checkpoint="a\0"), "checkpoint"
    )
    battery.refused(
        "a report named .pdf",
        lambda: reports.write_report(sw.compare({"a": sw.MNL()}, read(), splits=1), "r.pdf"),
        ".html",
    )
    battery.refused(
        "examine with one column for two roles",
        lambda: sw.examine(pandas(), set="trip", chosen="trip"),
        "trip",
    )
    battery.refused("examine choices with roles", lambda: sw.examine(read(), set="trip"), "set")
