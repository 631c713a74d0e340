"""People whose choices are known: by hand, better predictions, and what is refused."""

import numpy as np
import pytest

import setwise as sw

PAST = {
    "s": [0, 0, 1, 1, 2, 2], "p": ["a", "a", "a", "a", "b", "b"],
    "x": [1.0, 0.0, 0.0, 2.0, 1.0, 0.0], "y": [1, 0, 0, 1, 0, 1],
}  # fmt: skip
NEXT = {"s": [7, 7, 8, 8, 9, 9], "p": ["b", "b", "z", "z", "a", "a"], "x": [1.0, 0, 1, 0, 1, 0]}


def read(table, **options):
    return sw.read(table, **({"set": "s", "items": ["x"], "group": "p"} | options))


@pytest.fixture(scope="module")
def panel():
    """Past choices of people whose tastes differ widely, and what they chose next."""
    options = {"features": 2, "choices": 10, "spread": (1.5, 1.5), "beta": (-1.0, 1.0)}
    made = sw.datasets.generate("panel", sets=2400, **options).choices
    turn = np.arange(len(made)) % 10
    return made.take(np.flatnonzero(turn < 7)), made.take(np.flatnonzero(turn >= 7))


MODELS = {"mixed": lambda: sw.MixedLogit(draws=100), "classes": lambda: sw.LatentClass(3)}


@pytest.fixture(scope="module", params=MODELS)
def fitted(panel, request):
    return MODELS[request.param]().fit(panel[0])


def test_known_people_are_predicted_better(fitted, panel):
    past, later = panel
    known, unknown = fitted.evaluate_known(later, past), fitted.evaluate(later)
    assert known.nll < unknown.nll - 0.1
    p = fitted.predict_known(later, past)
    np.testing.assert_allclose(np.add.reduceat(p, later.offsets[:-1]), 1, rtol=1e-6)
    chosen = p[later.offsets[:-1] + later.chosen]
    assert -np.log(chosen).mean() == pytest.approx(known.nll, rel=1e-6)


def test_people_without_a_past_get_the_population(fitted, panel):
    past, later = panel
    some = past.take(np.flatnonzero(past.group < 5))
    found, plain = fitted.predict_known(later, some), fitted.predict_proba(later)
    stranger = np.repeat(later.group >= 5, later.sizes)
    np.testing.assert_allclose(found[stranger], plain[stranger], rtol=1e-6)
    assert np.abs(found - plain)[~stranger].max() > 0.05
    nobody = past.take(np.flatnonzero(past.group < 5))
    others = later.take(np.flatnonzero(later.group >= 5))
    with pytest.warns(sw.DataWarning, match="nobody of 'person'"):
        fitted.predict_known(others, nobody)


def test_the_classes_of_a_person_by_hand():
    made = sw.datasets.generate("panel", sets=400, features=1, beta=(1.0,), spread=(2.0,)).columns
    table = {"s": made["set_id"], "p": made["person"], "x": made["x0"], "y": made["chosen"]}
    model = sw.LatentClass(2).fit(read(table, chosen="y"))
    b, past = model.coef_[:, 0], read(PAST, chosen="y")
    up = 1 / (1 + np.exp(-b))  # of the larger x, where they differ by 1
    weight = {"a": model.shares_ * up / (1 + np.exp(-2 * b)), "b": model.shares_ * (1 - up)}
    expected = [(weight[who] / weight[who].sum()) @ up for who in ("b", "a")]
    found = model.predict_known(read(NEXT), past)
    np.testing.assert_allclose(found[[0, 4]], expected, rtol=1e-6)
    assert found[2] == pytest.approx(model.shares_ @ up, rel=1e-5)
    own = model.individual_coefficients(past)
    assert own["p"].to_list() == ["a", "b"]
    h = weight["b"] / weight["b"].sum()
    assert own["x"][1] == pytest.approx(h @ b, rel=1e-6)
    assert own["sd(x)"][1] == pytest.approx((h @ b**2 - (h @ b) ** 2) ** 0.5, rel=1e-6)


def test_the_draws_of_a_person_by_hand():
    made = sw.datasets.generate("panel", sets=400, features=1, beta=(1.0,), spread=(2.0,)).columns
    table = {"s": made["set_id"], "p": made["person"], "x": made["x0"], "y": made["chosen"]}
    model = sw.MixedLogit(draws=20_000).fit(read(table, chosen="y"))
    b = model.coef_[0] + model.cholesky_[0, 0] * np.random.default_rng(0).normal(size=10**6)
    up = 1 / (1 + np.exp(-b))
    weight = {"a": up / (1 + np.exp(-2 * b)), "b": 1 - up}
    expected = [(weight[who] / weight[who].sum()) @ up for who in ("b", "a")]
    found = model.predict_known(read(NEXT), read(PAST, chosen="y"))
    np.testing.assert_allclose(found[[0, 4]], expected, rtol=1e-2)


@pytest.mark.usefixtures("unchecked_types")
def test_what_says_nothing_of_people_is_refused(panel):
    past, later = panel
    model = sw.LatentClass(2, starts=1).fit(past)
    for one, other, said in (
        (later, 3, "past=3 must be of type Choices"),
        ({}, past, "choices=.* must be of type Choices"),
        (later, sw.read({"set_id": [1, 1], "x0": [1.0, 2], "x1": [1.0, 3]}, set="set_id"),
         "do not say what was chosen"),
        (sw.read({"set_id": [1, 1], "x0": [1.0, 2], "x1": [1.0, 3]}, set="set_id"), past,
         "read choices and past with group="),
    ):  # fmt: skip
        with pytest.raises(sw.InputError, match=said):
            model.predict_known(one, other)
    with pytest.raises(sw.InputError, match="MixedMNL takes each set"):
        sw.MixedMNL(2, starts=1).fit(past).predict_known(later, past)


def test_a_person_pays_the_ratio_at_each_point(panel):
    past, _ = panel
    model = sw.MixedLogit({"x0": "-lognormal", "x1": "normal"}, draws=100).fit(past)
    own, points = model.individual_willingness_to_pay("x0"), model.posterior(past)
    beta = points.points(3) / model.schema_.item_scales[:, None]
    ratio, weight = -beta[1] / beta[0], points.weights[3]
    assert own.columns == ["person", "x1", "sd(x1)"]
    assert own["x1"][3] == pytest.approx(ratio @ weight, rel=1e-6)
    spread = ((ratio - ratio @ weight) ** 2 @ weight) ** 0.5
    assert own["sd(x1)"][3] == pytest.approx(spread, rel=1e-6)
    with pytest.raises(sw.InputError, match="like to pay"):
        model.individual_willingness_to_pay("x1")
    with pytest.raises(sw.InputError, match=r"price='cost' is not a column.*x0, x1"):
        model.individual_willingness_to_pay("cost")
