"""Utilities as formulas: what they read, what they compute, and who follows them."""

import contextlib
import json

import numpy as np
import polars as pl
import pytest
from scipy.interpolate import BSpline
from statsmodels.discrete.conditional_models import ConditionalLogit

import setwise as sw
from serving import Direct
from setwise.choices.choices import Column
from setwise.choices.terms import Term, Terms, row_columns
from setwise.choices.utility import Utility
from setwise.consequences import elasticities
from setwise.scoring import export_onnx, load_scorer

MODES = ("bus", "car", "train")
SETS = 400


def trips(sets=SETS, seed=0):
    """A long table with named alternatives, an item category and two context columns."""
    rng = np.random.default_rng(seed)
    rows = sets * len(MODES)
    income = np.repeat(rng.uniform(1, 5, sets), len(MODES))
    table = {
        "trip": np.repeat(np.arange(sets), len(MODES)),
        "mode": np.tile(MODES, sets),
        "cost": rng.uniform(1, 9, rows).round(2),
        "time": rng.uniform(5, 60, rows).round(1),
        "seat": rng.choice(["hard", "soft", "sofa"], rows),
        "income": income,
        "zone": np.repeat(rng.integers(1, 4, sets), len(MODES)),
    }
    value = -0.5 * table["cost"] - 0.04 * table["time"] + 0.3 * income * (table["mode"] == "car")
    noisy = (value + rng.gumbel(size=rows)).reshape(sets, -1)
    table["taken"] = (noisy == noisy.max(1, keepdims=True)).ravel().astype(int)
    return table


TABLE = trips()


@pytest.fixture(scope="module")
def choices():
    return sw.read(
        TABLE, set="trip", chosen="taken", alternative="mode", context=["income", "zone"]
    )


def names(choices, formula, **options):
    return sw.Schema.fit(choices.with_utility(Utility(formula, **options))).item_names


def columns(choices, formula, **options):
    """The terms before they are standardised, by name."""
    utility = Utility(formula, **options)
    schema = sw.Schema.fit(choices.with_utility(utility))
    features = [one.feature for one in schema.items + schema.context]
    values = schema.terms.of(row_columns(features, choices))
    return dict(zip(schema.item_names, values.T, strict=True))


def test_the_parts_between_the_bars(choices):
    assert names(choices, "cost + time | income | seat") == [
        "cost", "time", "constant:car", "constant:train", "income:car", "income:train",
        "seat=sofa:bus", "seat=sofa:car", "seat=sofa:train",
        "seat=soft:bus", "seat=soft:car", "seat=soft:train",
    ]  # fmt: skip
    assert names(choices, "taken ~ cost", reference="train") == [
        "cost", "constant:bus", "constant:car",
    ]  # fmt: skip
    assert names(choices, "cost | 0") == ["cost"]
    assert names(choices, "cost | income - 1") == ["cost", "income:car", "income:train"]
    assert names(choices, "cost | 0 | time") == ["cost", "time:bus", "time:car", "time:train"]
    assert names(choices, "| income") == ["constant:car", "constant:train",
                                          "income:car", "income:train"]  # fmt: skip


def test_anonymous_alternatives_have_no_constants():
    plain = sw.read({n: TABLE[n] for n in ("trip", "cost", "taken")}, set="trip", chosen="taken")
    assert names(plain, "cost") == ["cost"]
    with pytest.raises(sw.InputError, match="do not name their alternatives; read them with"):
        names(plain, "cost | 1")
    with pytest.raises(sw.InputError, match="do not name their alternatives"):
        names(plain, "cost:only(car)")


def test_terms_by_hand(choices):
    cost, time, income = (TABLE[name] for name in ("cost", "time", "income"))
    mode, seat = TABLE["mode"], TABLE["seat"]
    found = columns(
        choices,
        "log(cost) + I(cost**2 / 10) + cost:income + cost*seat + time:only(car, train) + "
        "I(time * (income >= 3)) + max(cost, 4) + piecewise(time, 20, 40) | C(zone)",
    )
    np.testing.assert_allclose(found["log(cost)"], np.log(cost))
    np.testing.assert_allclose(found["I(cost ** 2 / 10)"], cost**2 / 10)
    np.testing.assert_allclose(found["cost:income"], cost * income)
    np.testing.assert_allclose(found["cost:seat=hard"], cost * (seat == "hard"))
    np.testing.assert_allclose(found["cost:seat=sofa"], cost * (seat == "sofa"))
    np.testing.assert_allclose(found["seat=sofa"], seat == "sofa")
    assert "seat=hard" not in found  # its reference
    np.testing.assert_allclose(found["time:only(car, train)"], time * (mode != "bus"))
    np.testing.assert_allclose(found["I(time * (income >= 3))"], time * (income >= 3))
    np.testing.assert_allclose(found["max(cost, 4)"], np.maximum(cost, 4))
    np.testing.assert_allclose(found["time[:20]"], np.minimum(time, 20))
    np.testing.assert_allclose(found["time[20:40]"], np.clip(time, 20, 40) - 20)
    np.testing.assert_allclose(found["time[40:]"], np.maximum(time, 40) - 40)
    np.testing.assert_allclose(found["zone=3:train"], (TABLE["zone"] == 3) & (mode == "train"))
    assert "zone=1:train" not in found


def test_a_spline_is_scipys(choices):
    found = columns(choices, "bs(time, df=6)")
    time = TABLE["time"]
    knots = np.quantile(time, np.linspace(0, 1, 5))
    padded = np.concatenate([[knots[0]] * 3, knots, [knots[-1]] * 3])
    expected = BSpline.design_matrix(time, padded, 3).toarray()[:, 1:]
    got = np.stack([found[f"bs(time, df=6)[{place}]"] for place in range(1, 7)], 1)
    np.testing.assert_allclose(got, expected, atol=1e-12)
    schema = sw.Schema.fit(choices.with_utility("bs(time, df=6)"))
    beyond = {"time": Column(np.array([-1e3, 1e3])), "mode": Column(np.zeros(2, int), MODES)}
    ends = schema.terms.of(beyond)[:, :6]
    np.testing.assert_allclose(ends, [[0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]], atol=1e-12)


def test_names_in_backticks():
    table = {"trip": [1, 1], "unit price": [1.0, 2.0], "a|b": [3.0, 5.0], "taken": [1, 0]}
    two = sw.read(table, set="trip", chosen="taken")
    found = columns(two, "log(`unit price`) + `a|b`")
    np.testing.assert_allclose(found["log(unit price)"], np.log([1, 2]))
    np.testing.assert_allclose(found["a|b"], [3, 5])


@pytest.mark.parametrize(
    ("formula", "options", "said"),
    [
        ("cost +", {}, "cannot be read"),
        ("cost | income | time | 1", {}, "more than two bars"),
        ("a ~ b ~ cost", {}, "'~' more than once"),
        ("price", {}, "names 'price', which is not a column"),
        ("mode2 ~ cost", {}, "explains 'mode2', but the chosen column is 'taken'"),
        ("income", {}, "is the same for all alternatives of a set and cancels"),
        ("cost | time", {}, "'time' differs between the alternatives of a set"),
        ("sin(cost)", {}, "uses sin, which is not a function here; the functions are: log"),
        ("log(cost, time)", {}, "gives log 2 arguments; it takes 1"),
        (
            "cost:only(plane)",
            {},
            r"only\(plane\), which is not an alternative; the alternatives are: bus",
        ),
        ("log(seat)", {}, "computes with 'seat', which is a category"),
        ("I(seat == 'silk')", {}, "compares 'seat' with 'silk'; it has: hard, sofa, soft"),
        ("cost", {"reference": "plane"}, "reference 'plane', which is not an alternative"),
        ("cost", {"fixed": {"time": 1.0}}, "has no term 'time' whose coefficient could be fixed"),
        ("bs(zone:cost)", {}, "correct it"),
        ("bs(time, df=2)", {}, "a df from the degree to 30"),
        ("piecewise(time, 40, 20)", {}, "points in rising order"),
        ("log(bs(time))", {}, r"computes with bs\(...\); use it alone"),
        ("I(cost if time else 1)", {}, "is not arithmetic, a comparison or a known function"),
        ("__import__('os')", {}, "uses __import__, which is not a function here"),
    ],
)
def test_what_cannot_be_read_is_refused(choices, formula, options, said):
    with pytest.raises(sw.InputError, match=said):
        names(choices, formula, **options)


def test_a_row_without_a_value_is_named(choices):
    with pytest.raises(sw.InputError, match=r"for which the term 'log\(I\(cost - 5\)\)' has no"):
        names(choices, "log(I(cost - 5))")
    model = sw.MNL("log(cost)").fit(choices)
    table = {name: values[:3].copy() for name, values in TABLE.items()}
    table["cost"][1] = 0
    with pytest.raises(sw.InputError, match=r"column 'cost' is 0 at row 1, for which the term"):
        model.predict_proba(table)
    table["cost"][1], table["mode"] = 2, np.array(["bus", "plane", "train"])
    with pytest.raises(sw.InputError, match="'mode' is 'plane' at row 1, which training data did"):
        model.predict_proba(table)


def test_the_logit_is_that_of_columns_made_by_hand(choices):
    by_hand = {
        "trip": TABLE["trip"], "taken": TABLE["taken"], "lcost": np.log(TABLE["cost"]),
        "car": (TABLE["mode"] == "car") * 1.0, "train": (TABLE["mode"] == "train") * 1.0,
    }  # fmt: skip
    by_hand |= {f"i{name}": TABLE["income"] * by_hand[name] for name in ("car", "train")}
    expected = sw.MNL().fit(sw.read(by_hand, set="trip", chosen="taken"))
    found = sw.MNL("log(cost) | income").fit(choices)
    assert found.log_likelihood_ == pytest.approx(expected.log_likelihood_, abs=1e-9)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-8)
    np.testing.assert_allclose(found.standard_errors_, expected.standard_errors_, rtol=1e-8)


def test_a_utility_of_modecanada_agrees_with_statsmodels():
    table = sw.datasets.table("modecanada").filter(pl.col("set_id") <= 1000)
    columns = ["cost", "freq", "ivt", "ovt"]
    choices = sw.read(table, set="set_id", chosen="chosen", items=columns, alternative="alt")
    model = sw.MNL(Utility("cost + freq + ivt + ovt", reference="train")).fit(choices)
    matrix = table.select(*columns, "is_air", "is_bus", "is_car").to_numpy().astype(float)
    chosen, sets = table["chosen"].to_numpy(), table["set_id"].to_numpy()
    expected = ConditionalLogit(chosen, matrix, groups=sets).fit(method="newton", disp=False)
    np.testing.assert_allclose(model.coef_, expected.params, rtol=1e-6)
    np.testing.assert_allclose(model.standard_errors_, expected.bse, rtol=1e-5)
    assert model.log_likelihood_ == pytest.approx(expected.llf, abs=1e-6)


def test_another_reference_shifts_the_constants(choices):
    bus = sw.MNL("cost").fit(choices)
    car = sw.MNL(Utility("cost", reference="car")).fit(choices)
    first, second = (dict(zip(m.feature_names_, m.coef_, strict=True)) for m in (bus, car))
    assert second["constant:bus"] == pytest.approx(-first["constant:car"], rel=1e-8)
    assert second["constant:train"] == pytest.approx(
        first["constant:train"] - first["constant:car"], rel=1e-8
    )
    np.testing.assert_allclose(bus.predict_proba(choices), car.predict_proba(choices), atol=1e-6)


def test_fixed_coefficients_are_given_and_the_rest_is_the_best_beside_them(choices):
    free = sw.MNL("cost + time").fit(choices)
    values = dict(zip(free.feature_names_, free.coef_, strict=True))
    same = sw.MNL(Utility("cost + time", fixed={"cost": values["cost"]})).fit(choices)
    np.testing.assert_allclose(same.coef_, free.coef_, rtol=1e-6)
    assert same.log_likelihood_ == pytest.approx(free.log_likelihood_, abs=1e-9)
    assert same.identified_.tolist() == [False, True, True, True]
    assert "fixed: given, not estimated" in str(same.summary())
    # In units of money: cost has the coefficient -1, and the rest the likelihood's own maximum.
    fixed = sw.MNL(Utility("cost + time", fixed={"cost": -1.0})).fit(choices)
    assert fixed.log_likelihood_ < free.log_likelihood_
    best = fixed.log_likelihood_
    for place in (1, 2, 3):
        for step in (-0.01, 0.01):
            moved = sw.MNL(
                Utility(
                    "cost + time",
                    fixed={"cost": -1.0, fixed.feature_names_[place]: fixed.coef_[place] + step},
                )
            ).fit(choices)
            assert moved.log_likelihood_ < best
    with pytest.raises(sw.InputError, match="has no coefficients of terms that could be fixed"):
        sw.WithinSetMNL().fit(choices.with_utility(Utility("cost", fixed={"cost": -1.0})))


def test_nests_by_alternative_are_those_of_a_column(choices, tmp_path):
    nest = np.where(TABLE["mode"] == "train", "rail", "road")
    by_hand = {
        "trip": TABLE["trip"], "taken": TABLE["taken"], "cost": TABLE["cost"], "nest": nest,
        "car": (TABLE["mode"] == "car") * 1.0, "train": (TABLE["mode"] == "train") * 1.0,
    }  # fmt: skip
    expected = sw.NestedLogit("nest").fit(sw.read(by_hand, set="trip", chosen="taken"))
    found = sw.NestedLogit(nests={"road": ["bus", "car"]}, utility="cost").fit(choices)
    assert found.parameter_names_ == ["cost", "constant:car", "constant:train", "lambda(road)"]
    assert found.log_likelihood_ == pytest.approx(expected.log_likelihood_, abs=1e-6)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-4)
    assert found.lambda_["road"] == pytest.approx(expected.lambda_["road"], abs=1e-4)
    found.save(tmp_path / "nested.setwise")
    again = sw.load(tmp_path / "nested.setwise")
    assert again.nests == found.nests
    np.testing.assert_array_equal(again.predict_proba(TABLE), found.predict_proba(choices))


def test_a_nested_logit_keeps_fixed_coefficients(choices):
    nests = {"road": ["bus", "car"]}
    free = sw.NestedLogit(nests=nests, utility="cost + time").fit(choices)
    given = {"cost": float(free.coef_[0])}
    same = sw.NestedLogit(nests=nests, utility=Utility("cost + time", fixed=given)).fit(choices)
    np.testing.assert_allclose(same.coef_, free.coef_, atol=1e-4)
    assert "fixed: given, not estimated" in str(same.summary())
    fixed = Utility("cost + time", fixed={"cost": -1.0})
    other = sw.NestedLogit(nests=nests, utility=fixed).fit(choices)
    assert other.coef_[0] == pytest.approx(-1.0, abs=1e-12)
    assert other.log_likelihood_ < free.log_likelihood_


@pytest.mark.parametrize(
    ("nests", "utility", "said"),
    [
        ({"road": ["bus", "bike"]}, "cost", "'bike', which is not an alternative.*bus, car, train"),
        ({"road": ["bus"], "all": ["bus", "car"]}, "cost", "can be in one nest only"),
        ({"road": ["bus", "car"]}, None, "goes with a utility"),
        ({"road": []}, "cost", "road"),
        ({}, "cost", "mapping"),
        (None, "cost", "give nest=, the column of nests, or nests="),
        ({"road": ["bus", "car", "train"]}, "cost", "one nest"),
    ],
)
def test_nests_that_make_no_model_are_refused(choices, nests, utility, said):
    with pytest.raises(sw.InputError, match=said):
        sw.NestedLogit(nests=nests, utility=utility).fit(choices)


def test_nests_by_alternative_need_names():
    unnamed = {name: values for name, values in TABLE.items() if name not in ("mode", "seat")}
    choices = sw.read(unnamed, set="trip", chosen="taken", items=["cost", "time"])
    with pytest.raises(sw.InputError, match="read the choices with alternative="):
        sw.NestedLogit(nests={"road": ["bus"]}, utility="cost").fit(choices)


@pytest.fixture(scope="module")
def saved(choices, tmp_path_factory):
    utility = Utility("log(cost) + bs(time, df=4) + cost:seat | income", reference="train")
    model = sw.MNL(utility).fit(choices)
    path = tmp_path_factory.mktemp("utility") / "trips.setwise"
    model.save(path, sample=choices)
    return model, path


def test_a_file_keeps_the_formula(saved, choices):
    model, path = saved
    again = sw.load(path)
    assert again.utility == model.utility
    assert str(again.summary()) == str(model.summary())
    expected = model.predict_proba(choices)
    np.testing.assert_array_equal(again.predict_proba(TABLE), expected)
    np.testing.assert_allclose(load_scorer(path).predict_proba(TABLE), expected, atol=1e-6)


def test_requests_and_onnx_give_the_same(saved, choices, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model, path = saved
    expected = model.predict_proba(choices).reshape(-1, 3)
    plain = {name: values[:9].tolist() for name, values in TABLE.items()}
    sets = [
        {
            "items": [
                {name: plain[name][row] for name in ("cost", "time", "seat", "mode")}
                for row in range(begin, begin + 3)
            ],
            "context": {"income": plain["income"][begin]},
        }
        for begin in (0, 3, 6)
    ]
    with contextlib.closing(Direct(path)) as client:
        answer = client.post("/v1/predict", {"sets": sets}).json
        got = [one["probabilities"] for one in answer["sets"]]
        np.testing.assert_allclose(got, expected[:3], atol=1e-6)
        sets[1]["items"][2]["cost"] = 0.0
        refused = client.post("/v1/predict", {"sets": sets})
        assert refused.status == 400
        assert "'cost' of item 2 of set 1 is 0, for which the term" in refused.error["message"]
        sets[1]["items"][2] |= {"cost": 1.0, "seat": "silk"}
        refused = client.post("/v1/predict", {"sets": sets})
        assert "'seat' of item 2 of set 1 is 'silk'" in refused.error["message"]
    about = export_onnx(path, tmp_path / "trips.onnx")
    inputs = []
    for one in json.loads(about["items"]):
        values = TABLE[one["column"]]
        if "levels" in one:
            values = np.array([one["levels"].index(value) for value in values])
        inputs.append(values.astype(float).reshape(-1, 3))
    session = onnxruntime.InferenceSession(tmp_path / "trips.onnx")
    given = {
        "items": np.stack(inputs, 2),
        "context": TABLE["income"][::3][:, None],
        "present": np.ones((SETS, 3), bool),
    }
    np.testing.assert_allclose(session.run(None, given)[0], expected, atol=1e-6)


def test_elasticities_follow_a_column_through_every_term(choices):
    model = sw.MNL("cost + I(cost**2 / 10) + cost:income | income").fit(choices)
    value = dict(zip(model.feature_names_, model.coef_, strict=True))
    cost, income, p = TABLE["cost"], TABLE["income"], model.predict_proba(choices)
    slope = (
        value["cost"] + 2 * cost * value["I(cost ** 2 / 10)"] / 10 + value["cost:income"] * income
    )
    found = elasticities(model, choices, "cost")
    # e_ab = x_b dV/dx_b (1{a = b} - P(b)), the MNL's
    for number in (0, 7):
        rows = slice(3 * number, 3 * number + 3)
        by_hand = (np.eye(3) - p[rows]) * (cost * slope)[rows]
        np.testing.assert_allclose(found.of_set(number), by_hand, rtol=1e-5, atol=1e-8)


def test_other_models_see_the_terms(choices):
    used = choices.with_utility("log(cost) + time | 0")
    model = sw.SDA(ensemble=1, dimension=2, training=sw.Training(epochs=2)).fit(used)
    assert model.schema_.item_names == ["log(cost)", "time"]
    assert model.feature_names_in_.tolist() == ["cost", "time"]
    trees = sw.BoostedLogit(rounds=5).fit(used)
    np.testing.assert_allclose(
        trees.predict_proba(TABLE).reshape(-1, 3).sum(1), 1, atol=1e-6
    )  # the plain table: the formula is the model's


def test_crafted_terms_are_refused():
    for wrong in (
        ["column"], ["column", 3], ["number", "1"], ["eval", ["number", 1.0]],
        ["spline", ["column", "x"], [0.0, 1.0], 3, 0], ["+", ["number", 1.0]],
        ["level", "x"], [], "x", ["number", float("nan")],
    ):  # fmt: skip
        with pytest.raises(sw.InputError, match=r"not valid|not rising"):
            Term.from_json({"name": "x", "expression": wrong})
    deep = ["number", 1.0]
    for _ in range(100):
        deep = ["log", deep]
    with pytest.raises(sw.InputError, match="not valid"):
        Term.from_json({"name": "x", "expression": deep})
    plain = {"terms": [{"name": "x", "expression": ["column", "x"]}], "alternative": None}
    assert Terms.from_json(plain).names == ["x"]


def test_alternatives_are_named_once_per_set():
    table = {"trip": [1, 1, 2, 2], "mode": ["car", "bus", "car", "car"], "cost": [1.0, 2, 3, 4],
             "taken": [1, 0, 0, 1]}  # fmt: skip
    with pytest.raises(sw.InputError, match="set 'trip'=2 has the alternative 'car' at row 2 and"):
        sw.read(table, set="trip", chosen="taken", alternative="mode")
    with pytest.raises(sw.InputError, match="names the alternatives; it cannot be a feature"):
        sw.read(table, set="trip", chosen="taken", alternative="mode", items=["cost", "mode"])


def test_models_do_not_see_names(choices):
    assert sw.Schema.fit(choices).item_names == ["cost", "time", "seat=hard", "seat=sofa",
                                                 "seat=soft"]  # fmt: skip
    without = sw.MNL().fit(choices)
    table = {name: values for name, values in TABLE.items() if name != "mode"}
    np.testing.assert_array_equal(without.predict_proba(table), without.predict_proba(choices))


def test_a_rare_alternative_keeps_its_constant():
    table = trips(sets=300)
    last = table["trip"] != 299
    table["mode"] = np.where(last | (table["mode"] != "train"), table["mode"], "boat")
    table["taken"] = np.where(last, table["taken"], (table["mode"] == "boat") * 1)
    choices = sw.read(table, set="trip", chosen="taken", alternative="mode", items=["cost"])
    assert "constant:boat" in names(choices, "cost", reference="bus")
    stored = choices.take(np.arange(298))
    assert "constant:boat" not in sw.Schema.fit(stored.with_utility("cost")).item_names


def test_choices_in_a_file_keep_names_and_formula(choices, tmp_path):
    used = choices.with_utility(Utility("log(cost) | income", reference="car"))
    sw.save_choices(used, tmp_path / "trips.setwise-data")
    opened = sw.open_choices(tmp_path / "trips.setwise-data")
    assert opened.roles == used.roles
    expected = sw.MNL().fit(used)
    np.testing.assert_allclose(sw.MNL().fit(opened).coef_, expected.coef_)
