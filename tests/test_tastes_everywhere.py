"""Mixed logits and latent classes in all that one does with a model."""

import itertools

import numpy as np
import pytest
from scipy.stats import chi2

import setwise as sw
from serving import Direct
from setwise import scoring
from setwise.consequences import (
    Remove,
    Reprice,
    counterfactual,
    diversion_ratios,
    elasticities,
    expected_shares,
    willingness_to_pay,
)
from setwise.consequences.willingness import surplus

KINDS = {"cost": "-lognormal", "time": "normal"}
FORMULA = "cost + time + log(time) + time:income | 1"
MAKERS = {
    "mixed": lambda: sw.MixedLogit(KINDS, draws=40),
    "wtp": lambda: sw.MixedLogit(KINDS, draws=40, wtp_space="cost"),
    "classes": lambda: sw.LatentClass(2, starts=1, shared=["cost"], membership=["income"]),
    "formula": lambda: sw.MixedLogit(KINDS, draws=40, utility=FORMULA),
    "formula of classes": lambda: sw.LatentClass(2, starts=1, utility=FORMULA),
}
every = pytest.mark.parametrize("name", MAKERS)


@pytest.fixture(scope="module")
def table():
    """100 people choose four times among car, bus and rail; half mind time, half do not."""
    rng = np.random.default_rng(8)
    sets, person = 400, np.repeat(np.arange(100), 4)
    cost, time = rng.uniform(1, 6, (sets, 3)), rng.uniform(0.2, 2, (sets, 3))
    minds = np.where(person % 2 == 0, -2.5, -0.2) + 0.3 * rng.normal(size=100)[person]
    utility = -0.8 * cost + minds[:, None] * time + [0.0, -0.5, 0.3]
    utility += rng.gumbel(size=utility.shape)
    return {
        "trip": np.repeat(np.arange(sets), 3), "who": np.repeat(person, 3),
        "mode": np.tile(["car", "bus", "rail"], sets), "cost": cost.ravel(), "time": time.ravel(),
        "income": np.repeat((1.5 + 0.5 * (person % 2 == 0) + rng.normal(size=100)[person]), 3),
        "taken": (utility == utility.max(1, keepdims=True)).astype(int).ravel(),
    }  # fmt: skip


@pytest.fixture(scope="module")
def choices(table):
    return sw.read(
        table, set="trip", chosen="taken", items=["cost", "time"], context=["income"],
        group="who", alternative="mode",
    )  # fmt: skip


@pytest.fixture(scope="module")
def fitted(choices):
    return {name: make().fit(choices) for name, make in MAKERS.items()}


def density(model, cost, time, income):
    """P of one set in double precision, from what the model reports alone."""
    alternatives = np.eye(3)
    if isinstance(model, sw.LatentClass):
        points, shares = model.population()
        points = points / model.schema_.item_scales[:, None]
        if model.membership_names_:
            odds = np.exp(model.membership_ @ [1, income])
            shares = odds / odds.sum()
    else:
        points = model.prediction_points() / model.schema_.item_scales[:, None]
        shares = np.full(points.shape[1], 1 / points.shape[1])
    columns = {
        "cost": cost, "time": time, "log(time)": np.log(time), "time:income": time * income,
        "car": alternatives[0], "bus": alternatives[1], "rail": alternatives[2],
    }  # fmt: skip
    utility = np.zeros((3, len(shares)))
    for name, weights in zip(model.schema_.item_names, points, strict=True):
        one = next(values for key, values in columns.items() if key == name or name.endswith(key))
        utility += np.outer(one, weights)
    e = np.exp(utility)
    return (e / e.sum(0)) @ shares


@every
def test_elasticities_are_those_of_finite_differences_of_the_reported_model(name, fitted, choices):
    model = fitted[name]
    found = elasticities(model, choices, "time")
    for number in (0, 7):
        rows = slice(3 * number, 3 * number + 3)
        cost, time = (choices.columns[one].values[rows] for one in ("cost", "time"))
        income = choices.context["income"].values[number]
        p = density(model, cost, time, income)
        np.testing.assert_allclose(model.predict_proba(choices)[rows], p, atol=2e-5)
        step = 1e-5
        for b in range(3):
            sides = [
                np.log(density(model, cost, time * np.exp(sign * step * np.eye(3)[b]), income))
                for sign in (1, -1)
            ]
            wanted = (sides[0] - sides[1]) / (2 * step)
            np.testing.assert_allclose(found.of_set(number)[:, b], wanted, rtol=2e-3, atol=2e-4)


@every
def test_diversion_shares_and_counterfactuals(name, fitted, choices, table):
    model = fitted[name]
    ratios = diversion_ratios(model, choices, "cost")
    for number in (0, 7):
        found = ratios.of_set(number)
        np.testing.assert_allclose(np.diag(found), -1, atol=1e-6)
        np.testing.assert_allclose(found.sum(0), 0, atol=1e-4)
    shares = expected_shares(model, choices, by="mode")
    p = model.predict_proba(choices).reshape(-1, 3)
    np.testing.assert_allclose(
        [shares[one] for one in ("car", "bus", "rail")], p.mean(0), atol=1e-6
    )
    dearer = Reprice("cost", lambda x: x + 1, {"mode": "car"})
    found = counterfactual(model, choices, dearer)
    moved = dict(table) | {"cost": table["cost"] + (table["mode"] == "car")}
    np.testing.assert_allclose(found.after, model.predict_proba(moved), atol=1e-6)
    gone = counterfactual(model, choices, Remove({"mode": "car"}))
    kept = gone.after.reshape(-1, 3)[:, 1:]
    np.testing.assert_allclose(kept.sum(1), 1, rtol=1e-5)
    odds = np.log(kept[:, 0] / kept[:, 1]) - np.log(p[:, 1] / p[:, 2])
    assert np.abs(odds).max() > 1e-3  # IIA does not hold


@every
def test_surplus_falls_by_what_all_pay_more(name, fitted, choices):
    model = fitted[name]
    found = counterfactual(model, choices, Reprice("cost", lambda x: x + 1), price="cost")
    np.testing.assert_allclose(found.surplus.of_sets, -1, atol=1e-8)
    # Roy's identity: what a little more for the first item costs is P times the rise.
    step, first = 1e-4, choices.offsets[:-1]
    rise = np.zeros(int(choices.offsets[-1]))
    rise[first] = step
    found = counterfactual(model, choices, Reprice("cost", lambda x: x + rise), price="cost")
    p = model.predict_proba(choices)[first]
    np.testing.assert_allclose(found.surplus.of_sets / step, -p, atol=3e-4)
    assert surplus(model, choices, "cost").shape == (len(choices),)


@every
def test_what_people_pay_and_each_of_them(name, fitted, choices):
    model = fitted[name]
    worth, own = willingness_to_pay(model, "cost"), model.individual_willingness_to_pay("cost")
    assert len(own) == 100
    assert np.isfinite(own["time"].to_numpy()).all()
    if isinstance(model, sw.LatentClass):
        mean = model.shares_ @ [worth["time (class 1)"], worth["time (class 2)"]]
    else:
        mean = worth["time"]
        assert worth["sd(time)"] > 0
    # What people pay by their choices is, over people, what the population pays.
    assert own["time"].mean() == pytest.approx(mean, rel=0.05)
    assert np.isfinite(worth.standard_errors[[one != "bus" for one in worth.names]]).sum() > 1


def test_the_spread_of_a_mixed_logit_is_tested(choices):
    small = sw.MNL().fit(choices)
    large = sw.MixedLogit({"time": "normal"}, draws=40).fit(choices)
    ratio, walds = sw.likelihood_ratio(small, large), sw.wald(small, large)
    assert ratio.degrees == walds.degrees == 1
    statistic = 2 * (large.log_likelihood_ - small.log_likelihood_)
    assert ratio.p == pytest.approx(chi2.sf(statistic, 1))
    z = large.parameters_[-1] / large.standard_errors_[-1]
    assert walds.statistic == pytest.approx(z**2)
    for one in (ratio, walds):
        assert len(one.warnings) == 1
        assert "half of it is right" in one.warnings[0]
    more = sw.MixedLogit({"time": "normal"}, correlated=True, draws=40).fit(choices)
    assert more.log_likelihood_ == pytest.approx(large.log_likelihood_)


def test_a_mean_that_depends_on_income_is_tested_without_a_warning(choices):
    small, large = (
        sw.MixedLogit({"time": "normal"}, draws=40, utility=one).fit(choices)
        for one in ("cost + time", "cost + time + time:income")
    )
    for found in (sw.likelihood_ratio(small, large), sw.wald(small, large)):
        assert (found.degrees, found.warnings) == (1, ())
        assert found.p == pytest.approx(chi2.sf(found.statistic, 1))


def test_classes_have_no_chi_squared_test_and_shared_coefficients_have(choices):
    shared, own = (sw.LatentClass(2, starts=1, shared=one).fit(choices) for one in (["cost"], None))
    found = sw.likelihood_ratio(shared, own)
    assert (found.degrees, found.warnings) == (1, ())
    found = sw.likelihood_ratio(sw.MNL().fit(choices), own)
    assert "compare BIC" in found.warnings[0]


@every
def test_files_scorers_onnx_and_the_service_give_the_same(name, fitted, table, choices, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model, path = fitted[name], tmp_path / "m.setwise"
    model.save(path)
    wanted = model.predict_proba(choices)
    again = sw.load(path)
    np.testing.assert_array_equal(again.predict_proba(choices), wanted)
    assert again.get_params() == model.get_params() or "formula" in name
    assert str(again.summary()) == str(model.summary())
    scorer = scoring.load_scorer(path)
    np.testing.assert_allclose(scorer.predict_proba(table), wanted, atol=1e-6)
    columns = ["cost", "time", *(["mode"] if "formula" in name else [])]
    sets = [
        {"items": [{one: np.asarray(table[one])[row].item() for one in columns}
                   for row in range(3 * number, 3 * number + 3)],
         "context": {"income": float(table["income"][3 * number])}}
        for number in range(40)
    ]  # fmt: skip
    client = Direct(path)
    answer = client.predict({"sets": sets})
    client.close()
    assert answer.status == 200, answer.body
    got = [one for found in answer.json["sets"] for one in found["probabilities"]]
    np.testing.assert_allclose(got, wanted[:120], atol=1e-5)
    scoring.export_onnx(path, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    levels = np.searchsorted(["bus", "car", "rail"], table["mode"])
    values = [table["cost"], table["time"], *([levels] if "formula" in name else [])]
    given = {"items": np.stack(values, 1).reshape(-1, 3, len(values)).astype(float)}
    given |= {"present": np.ones((400, 3), bool), "context": table["income"][::3, None]}
    names = [one.name for one in session.get_inputs()]
    (found,) = session.run(["probability"], {one: given[one] for one in names})
    np.testing.assert_allclose(found.ravel(), wanted, atol=1e-5)


def test_people_held_out_are_compared(choices):
    models = {"mnl": sw.MNL(), "mixed": MAKERS["mixed"](), "classes": MAKERS["classes"]()}
    found = sw.compare(models, choices, splits=2, split_by="group", metric="nll")
    table = found.to_frame()
    assert set(table["model"]) == set(models)
    parts = sw.split(choices, seed=0, by="group")
    for one, other in itertools.combinations(parts, 2):
        assert not set(one.group) & set(other.group)
