"""Logits with an L2 penalty: by hand, against other solvers, limits, and how l2 is chosen."""

import dataclasses
import warnings

import numpy as np
import pytest
import scipy.optimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import setwise as sw
from setwise._segments import log_softmax
from setwise.choices import Encoded
from setwise.estimators.base import held_out
from setwise.training import maximise, newton
from setwise.training.newton import penalised
from setwise.training.penalties import GRID, left_out_log_likelihoods

LOGITS = (sw.MNL, sw.LinearContextLogit, sw.WithinSetMNL)


def table(x, sizes, chosen, **more):
    """Columns x0, x1, ... of sets of these sizes, by the place of the chosen item."""
    sizes = np.asarray(sizes)
    columns = {f"x{j}": column for j, column in enumerate(np.asarray(x, float).T)}
    columns["set_id"] = np.repeat(np.arange(len(sizes)), sizes)
    columns["chosen"] = np.zeros(sizes.sum(), int)
    columns["chosen"][np.cumsum(sizes) - sizes + chosen] = 1
    return columns | {name: np.repeat(values, sizes) for name, values in more.items()}


def read(x, sizes, chosen, roles=None, **more):
    items = [f"x{j}" for j in range(np.shape(x)[1])]
    return sw.read(
        table(x, sizes, chosen, **more), set="set_id", chosen="chosen", items=items, **roles or {}
    )


def drawn(sets=60, features=3, seed=0, strength=1.0):
    """x, sizes and choices of an MNL in ragged sets, in uneven units."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, sets)
    x = rng.normal(size=(sizes.sum(), features))
    b = strength * np.linspace(-1, 1, features)
    v = x @ b + rng.gumbel(size=len(x))
    starts = np.cumsum(sizes) - sizes
    chosen = np.array([v[a : a + n].argmax() for a, n in zip(starts, sizes, strict=True)])
    return x * 10.0 ** np.arange(features) + 5, sizes, chosen


def encoded(x, sizes, chosen, weight=None):
    offsets = np.append(0, np.cumsum(sizes))
    return Encoded(np.asarray(x, float), np.empty((len(sizes), 0)), offsets, chosen, weight)


def log_probabilities(b, x, sizes, chosen):
    offsets = np.append(0, np.cumsum(sizes))
    return log_softmax(x @ b, offsets)[offsets[:-1] + chosen]


def test_two_items_by_hand():
    """x = 1 is chosen 3 times in 4 against x = 0; sd = 1/2: 3 - 4 / (1 + exp(-b)) = l2 b / 4."""
    model = sw.MNL(l2=2.0).fit(read([[1], [0]] * 4, [2] * 4, [0, 0, 0, 1]))
    b = scipy.optimize.brentq(lambda b: 3 - 4 / (1 + np.exp(-b)) - 2.0 * b / 4, 0, 2)
    assert model.coef_[0] == pytest.approx(b, rel=1e-8)
    assert model.l2_ == 2
    p = 1 / (1 + np.exp(-b))
    assert model.log_likelihood_ == pytest.approx(3 * np.log(p) + np.log(1 - p))
    assert model.standard_errors_[0] == pytest.approx((4 * p * (1 - p) + 2.0 / 4) ** -0.5)


@pytest.mark.parametrize("l2", [0.1, 3.0, 100.0])
def test_agrees_with_scipy_on_the_penalised_likelihood(l2):
    x, sizes, chosen = drawn()
    weight = np.random.default_rng(1).uniform(0.5, 2, len(sizes))
    model = sw.MNL(l2=l2).fit(read(x, sizes, chosen, {"weight": "w"}, w=weight))
    z, weight = (x - x.mean(0)) / x.std(0), weight / weight.mean()
    solved = scipy.optimize.minimize(
        lambda b: l2 / 2 * b @ b - weight @ log_probabilities(b, z, sizes, chosen),
        np.zeros(3), tol=1e-10,
    )  # fmt: skip
    np.testing.assert_allclose(model.coef_ * x.std(0), solved.x, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("l2", [0.3, 10.0])
def test_agrees_with_logistic_regression_on_pairs(l2):
    """In sets of two the logit is one of differences, without an intercept."""
    x, sizes, chosen = drawn()
    kept = sizes == 2
    rows = np.repeat(kept, sizes)
    x, chosen = x[rows], chosen[kept]
    model = sw.MNL(l2=l2).fit(read(x, [2] * len(chosen), chosen))
    z = x / x.std(0)
    other = LogisticRegression(C=1 / l2, fit_intercept=False, tol=1e-10, max_iter=10_000)
    other.fit(z[::2] - z[1::2], chosen == 0)
    np.testing.assert_allclose(model.coef_ * x.std(0), other.coef_[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("estimator", LOGITS)
def test_limits(estimator):
    """No penalty is maximum likelihood, a tiny one next to it; a strong one gives equal chances."""
    x, sizes, chosen = drawn(sets=400, features=2)
    choices = read(x, sizes, chosen)
    plain, tiny, strong = (estimator(l2=l2).fit(choices) for l2 in (0, 1e-7, 1e9))
    np.testing.assert_array_equal(plain.coef_, estimator().fit(choices).coef_)
    assert plain.l2_ == 0
    np.testing.assert_allclose(tiny.predict_proba(choices), plain.predict_proba(choices), atol=1e-4)
    np.testing.assert_allclose(strong.predict_proba(choices), np.repeat(1 / sizes, sizes), 1e-4)
    assert strong.log_likelihood_ == pytest.approx(strong.null_log_likelihood_, rel=1e-4)
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(tiny.coef_, strong.coef_)


def test_units_of_columns_do_not_matter():
    x, sizes, chosen = drawn()
    one = sw.WithinSetMNL(l2=5.0).fit(read(x, sizes, chosen))
    other = sw.WithinSetMNL(l2=5.0).fit(read(x * [1000, 1, 0.01] - 3, sizes, chosen))
    np.testing.assert_allclose(other.coef_[:3] * [1000, 1, 0.01], one.coef_[:3], rtol=1e-4)


def test_weights_count_sets_more_than_once():
    x, sizes, chosen = drawn()
    weight = np.random.default_rng(0).integers(1, 4, len(sizes))
    data, penalty = encoded(x, sizes, chosen), np.array([2.0, 200.0, 20_000.0])
    repeated = maximise(data.take(np.repeat(np.arange(len(sizes)), weight)), penalty)
    weighted = maximise(encoded(x, sizes, chosen, weight.astype(float)), penalty)
    np.testing.assert_allclose(weighted.coefficients, repeated.coefficients, rtol=1e-8)
    np.testing.assert_allclose(weighted.covariance, repeated.covariance, rtol=1e-8)


def test_collinear_columns_share_and_constant_ones_are_dropped():
    x, sizes, chosen = drawn(features=1)
    constant = np.repeat(np.arange(len(sizes)), sizes)
    model = sw.MNL(l2=1.0).fit(read(np.column_stack([x, x, constant]), sizes, chosen))
    assert model.coef_[0] == pytest.approx(model.coef_[1])
    assert model.identified_.tolist() == [True, True, False]
    assert model.dropped_ == {"x2": "constant within sets"}
    # Two equal columns at l2 are one of half the penalty: (b/2)^2 + (b/2)^2 = b^2 / 2.
    alone = sw.MNL(l2=0.5).fit(read(x, sizes, chosen))
    assert model.coef_[:2].sum() == pytest.approx(alone.coef_[0], rel=1e-6)


@pytest.mark.parametrize("grouped", [False, True], ids=["sets", "groups"])
@pytest.mark.parametrize("features", [2, 8], ids=["fewer columns than rows", "more columns"])
def test_approximate_leave_one_out_is_next_to_refits(grouped, features):
    x, sizes, chosen = drawn(sets=40, features=features, seed=3, strength=0.5)
    x = (x - x.mean(0)) / x.std(0)
    weight = np.random.default_rng(0).uniform(0.5, 1.5, len(sizes))
    data = encoded(x, sizes, chosen, weight)
    groups = np.random.default_rng(1).integers(0, 20, len(sizes)) if grouped else None
    ids = np.arange(len(sizes)) if groups is None else groups
    for l2 in (3.0, 30.0):
        optimum = penalised(data, l2)
        found = left_out_log_likelihoods(optimum, groups)
        exact = np.empty(len(sizes))
        for one in np.unique(ids):
            out = np.flatnonzero(ids == one)
            b = maximise(data.take(np.flatnonzero(ids != one)), optimum.penalty).coefficients
            part = data.take(out)
            exact[out] = log_probabilities(b, part.items, part.sizes, part.chosen)
        inside = log_probabilities(optimum.coefficients, x, sizes, chosen)
        np.testing.assert_allclose(found, exact, atol=0.25)
        optimism = weight @ (inside - exact)
        assert abs(weight @ (found - exact)) < 0.05 * optimism


def best_of_grid(train, valid):
    """By fits with each value, one after the other."""
    losses = {l2: sw.MNL(l2=l2).fit(train).evaluate(valid).nll for l2 in GRID}
    return min(losses, key=losses.get)


def test_validation_chooses_the_best_of_the_grid():
    train = read(*drawn(sets=40, features=5, strength=0.3))
    valid = read(*drawn(sets=300, features=5, strength=0.3, seed=1))
    model = sw.MNL(l2="validation").fit(train, validation=valid)
    assert model.l2_ == best_of_grid(train, valid)
    np.testing.assert_allclose(model.coef_, sw.MNL(l2=model.l2_).fit(train).coef_, rtol=1e-6)


@pytest.mark.parametrize("grouped", [False, True], ids=["sets", "groups"])
def test_without_a_validation_part_a_fifth_decides_and_all_sets_are_fitted(grouped):
    x, sizes, chosen = drawn(sets=120, features=5, strength=0.3)
    roles = {"group": "person"} if grouped else {}
    choices = read(x, sizes, chosen, roles, person=np.arange(120) // 4)
    model = sw.MNL(l2="validation").fit(choices)
    train, valid = held_out(choices, 0)
    if grouped:
        assert not set(train.group) & set(valid.group)
    assert model.l2_ == best_of_grid(train, valid)
    assert model.sets_ == 120
    assert not model.holds_out  # no set is left that the model has not seen
    assert model.parts_of_fit(choices)[1] is None
    np.testing.assert_allclose(model.coef_, sw.MNL(l2=model.l2_).fit(choices).coef_, rtol=1e-6)


def test_leave_one_out_leaves_groups_out():
    """Each set occurs four times: its copies tell it, unless they are left out with it."""
    x, sizes, chosen = drawn(sets=20, features=6, strength=0.0)
    copies = np.repeat(np.arange(20), 4)
    groups = {"group": "person"}
    choices = read(x, sizes, chosen, groups, person=np.arange(20)).take(copies)
    by_set = read(x, sizes, chosen).take(copies)
    left = sw.MNL(l2="loo").fit(choices)
    assert left.l2_ > sw.MNL(l2="loo").fit(by_set).l2_


@pytest.mark.parametrize("estimator", LOGITS)
@pytest.mark.parametrize("l2", ["validation", "loo"])
def test_a_chosen_penalty_is_better_than_none_on_few_sets(estimator, l2):
    test = read(*drawn(sets=2000, features=4, strength=0.3))
    plain, chosen = [], []
    for seed in range(1, 6):
        train = read(*drawn(sets=60, features=4, strength=0.3, seed=seed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            plain.append(estimator().fit(train).evaluate(test).nll)
        chosen.append(estimator(l2=l2).fit(train).evaluate(test).nll)
    assert np.mean(chosen) < np.mean(plain)


@pytest.mark.parametrize("sets", [12, 40])
@pytest.mark.parametrize("estimator", LOGITS)
def test_separated_data_warn_and_predict_no_worse_than_equal_chances(estimator, sets):
    """One column matters; x1 is 0 but for one item, which is chosen: it separates that set."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(4000, 6))
    x[:, 1] = 0
    chosen = (2 * x[:, 0] + rng.gumbel(size=4000)).reshape(1000, 4).argmax(1)
    x[chosen[0], 1] = 1
    choices = read(x, [4] * 1000, chosen)
    with pytest.warns(ConvergenceWarning, match=r"no maximum.*chosen by leave-one-out"):
        model = estimator().fit(choices[:sets])
    assert not model.converged_
    assert model.l2_ >= 1
    again = estimator(l2=model.l2_).fit(choices[:sets])
    np.testing.assert_allclose(model.coef_, again.coef_, rtol=1e-6)
    assert "The likelihood has no maximum" in str(model.summary())
    assert model.evaluate(choices[sets:]).nll < np.log(4)


@pytest.mark.parametrize("estimator", LOGITS)
def test_a_penalised_fit_of_separated_data_converges_without_a_warning(estimator):
    choices = read([[1, 0.3], [0, 0.1], [1, 0.2], [0, 0.4], [1, 5], [0, 1]], [2, 2, 2], [0, 0, 0])
    model = estimator(l2=0.1).fit(choices)
    assert model.converged_


def test_the_summary_says_that_estimates_are_penalised():
    choices = read(*drawn())
    assert "penalised" not in str(sw.MNL().fit(choices).summary())
    table = str(sw.MNL(l2=3.0).fit(choices).summary())
    assert "penalised (l2=3)" in table
    assert "not classical tests" in table
    assert "no maximum" not in table


@pytest.mark.parametrize("estimator", LOGITS)
@pytest.mark.parametrize("l2", [0.5, "validation", "loo"])
def test_a_model_file_keeps_the_penalty(estimator, l2, tmp_path):
    choices = read(*drawn())
    model = clone(estimator(l2=l2)).fit(choices)
    model.save(tmp_path / "model")
    loaded = sw.load(tmp_path / "model")
    assert (loaded.l2, loaded.l2_) == (l2, model.l2_)
    assert str(loaded.summary()) == str(model.summary())
    np.testing.assert_array_equal(loaded.predict_proba(choices), model.predict_proba(choices))


@pytest.mark.parametrize("l2", [-1, float("nan"), float("inf"), True, None, "ridge", "0.1"])
def test_other_values_are_refused_with_those_allowed(l2):
    allowed = r"must be a number of at least 0.*, or 'validation', or 'loo'"
    with pytest.raises(sw.InputError, match=allowed):
        sw.MNL().set_params(l2=l2).fit(read(*drawn()))


@pytest.mark.parametrize("l2", [0.0, 1.0, "validation", "loo"])
def test_columns_that_are_constant_within_sets_are_refused(l2):
    choices = read([[3], [3], [5], [5]] * 5, [2] * 10, [0, 1] * 5)
    with pytest.raises(sw.InputError, match="nothing to learn"):
        sw.MNL(l2=l2).fit(choices)


def test_a_search_that_does_not_end_is_told_and_penalised(monkeypatch):
    monkeypatch.setattr(newton, "ITERATIONS", 1)
    with pytest.warns(ConvergenceWarning, match=r"did not end.*are penalised \(l2="):
        model = sw.MNL().fit(read(*drawn(strength=3.0)))
    assert not model.converged_
    assert model.l2_ >= 1


@pytest.mark.parametrize("changed", [{"fitted": {"l2": -1}}, {"params": {"l2": -2.0}}])
def test_a_file_with_another_penalty_is_refused(changed):
    artifact = sw.MNL(l2=1.0).fit(read(*drawn())).artifact()
    changed = {name: getattr(artifact, name) | values for name, values in changed.items()}
    with pytest.raises(sw.InputError, match="l2"):
        sw.MNL.from_artifact(dataclasses.replace(artifact, **changed))


def test_an_outside_option_is_penalised_like_a_column():
    x, sizes, chosen = drawn()
    columns = table(x, sizes, chosen)
    columns["chosen"] *= columns["set_id"] % 3 > 0
    choices = sw.read(columns, set="set_id", chosen="chosen", on_none="outside")
    for estimator in LOGITS:
        strong = estimator(l2=1e9).fit(choices)
        expected = np.repeat(1 / (sizes + 1), sizes)
        np.testing.assert_allclose(strong.predict_proba(choices), expected, rtol=1e-4)
