"""Nests in nests: by hand, by the formula in NumPy, recovery of lambdas, and lambdas above 1."""

import json
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

import setwise as sw
from setwise._tensorfile import with_arrays
from setwise.consequences import elasticities
from setwise.consequences.willingness import surplus
from setwise.models.nested import Nested
from setwise.training.likelihood import Likelihood

RARE = 1e-4
MODES = ("train", "metro", "bus", "coach", "car", "bike", "walk")
TREE = {
    "public": {"rail": ["train", "metro"], "road": ["bus", "coach"]},
    "private": ["car", "bike"],
}  # nobody's nest holds walking
LAMBDAS = {"public": 0.7, "private": 0.5, "rail": 0.6, "road": 0.8}


def log_sum(nest, v, lambdas, scale=1.0):
    """log G of one set, where v has the utilities of what is in it, and log P within it."""
    if isinstance(nest, list):
        here = {one: v[one] / scale for one in nest if one in v}
        inner = {one: {one: 0.0} for one in here}
    else:
        parts = {
            name: log_sum(one, v, lambdas, scale * lambdas[name]) for name, one in nest.items()
        }
        here = {name: lambdas[name] * value for name, (value, logs) in parts.items() if logs}
        inner = {name: logs for name, (_, logs) in parts.items() if logs}
    if not here:
        return -np.inf, {}
    total = np.logaddexp.reduce(list(here.values()))
    logs = {one: here[name] - total + log for name in here for one, log in inner[name].items()}
    return total, logs


def probabilities(v, tree=TREE, lambdas=LAMBDAS):
    """P of one set by recursion; an alternative in no nest is a nest of its own."""
    nested = log_sum(tree, dict.fromkeys(MODES, 0.0), lambdas)[1]
    alone = {f"only {one}": [one] for one in v if one not in nested}
    _, logs = log_sum(tree | alone, v, lambdas | dict.fromkeys(alone, 1.0))
    return {one: np.exp(logs[one]) for one in v}


def trips(sets=1200, seed=0, lambdas=LAMBDAS, tree=TREE):
    """Choices of the true model, from sets of four to seven alternatives."""
    rng = np.random.default_rng(seed)
    rows = {"trip": [], "mode": [], "cost": [], "time": [], "taken": [], "person": []}
    for trip in range(sets):
        offered = rng.permutation(MODES)[: rng.integers(4, 8)].tolist()
        cost, time = rng.uniform(0, 3, size=(2, len(offered)))
        p = probabilities(dict(zip(offered, -cost - 0.5 * time, strict=True)), tree, lambdas)
        chosen = rng.choice(len(offered), p=[p[one] for one in offered])
        rows["trip"] += [trip] * len(offered)
        rows["mode"] += offered
        rows["cost"] += cost.tolist()
        rows["time"] += time.tolist()
        rows["taken"] += (np.arange(len(offered)) == chosen).astype(int).tolist()
        rows["person"] += [trip // 4] * len(offered)
    return rows


def read(rows):
    return sw.read(
        rows, set="trip", chosen="taken", items=["cost", "time"], alternative="mode",
        group="person",
    )  # fmt: skip


def tree_model(nests=TREE, **options):
    return sw.NestedLogit(nests=nests, utility="cost + time | 0", **options)


@pytest.fixture(scope="module")
def choices():
    return read(trips())


@pytest.fixture(scope="module")
def fitted(choices):
    return tree_model().fit(choices)


def by_formula(model, rows, tree=TREE):
    """log P of the chosen, and P of every row, by the recursion at the estimates."""
    trip, found, logs = np.array(rows["trip"]), [], 0.0
    b, lambdas = model.coef_, model.lambda_
    for one in np.unique(trip):
        at = np.flatnonzero(trip == one)
        v = {rows["mode"][i]: b[0] * rows["cost"][i] + b[1] * rows["time"][i] for i in at}
        p = probabilities(v, tree, lambdas)
        found += [p[rows["mode"][i]] for i in at]
        logs += sum(np.log(p[rows["mode"][i]]) for i in at if rows["taken"][i])
    return logs, np.array(found)


# The formula


def test_three_levels_by_hand():
    """V = log 4 and log 9 in rail (lambda 1/2), within public (lambda 1/2): scale 1/4.

    At scale 1/4, train and metro have exp(4 V) = 4^4 and 9^4: with u = (16^2, 81^2) rail enters
    public with (u1 + u2)^(1/2). The bus, V = 0, is public itself and enters with exp(2 V) = 1.
    """
    marks = np.array([[1, 1], [1, 1], [1, 0], [0, 0]]) - 0.5
    x = np.hstack([np.log([[4.0], [9.0], [1.0], [2.0]]), marks]).astype(np.float32)
    raw = np.zeros(2, np.float32)
    model = with_arrays(
        Nested(3, (1, 1), start=1), {"theta": np.array([1, 0, 0], np.float32), "raw": raw}
    )
    rail = np.sqrt(4.0**4 + 9.0**4)
    public = np.sqrt(rail + 1)
    first = public / (public + 2)
    expected = [
        first * rail / (rail + 1) * 4.0**4 / (4.0**4 + 9.0**4),
        first * rail / (rail + 1) * 9.0**4 / (4.0**4 + 9.0**4),
        first / (rail + 1),
        1 - first,
    ]
    everyone = jnp.ones(4, bool)
    np.testing.assert_allclose(model.probabilities(jnp.asarray(x), everyone), expected, rtol=1e-5)


def test_probabilities_are_those_of_the_recursion(fitted):
    rows = trips()
    log_likelihood, expected = by_formula(fitted, rows)
    np.testing.assert_allclose(fitted.predict_proba(read(rows)), expected, atol=1e-5)
    assert fitted.log_likelihood_ == pytest.approx(log_likelihood, rel=1e-9)


def test_four_levels_are_those_of_the_recursion():
    tree = {
        "motor": {"public": {"rail": ["train", "metro"], "road": ["bus", "coach"]}, "own": ["car"]},
        "self": ["bike", "walk"],
    }
    lambdas = {"motor": 0.9, "self": 0.7, "public": 0.8, "own": 1.0, "rail": 0.6, "road": 0.5}
    rows = trips(sets=300, tree=tree, lambdas=lambdas)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = tree_model(tree).fit(read(rows))
    assert model.nests_ == ["motor", "self", "public", "own", "rail", "road"]
    assert model.tree_.parents == (-1, -1, 0, 0, 2, 2)
    log_likelihood, expected = by_formula(model, rows, tree)
    np.testing.assert_allclose(model.predict_proba(read(rows)), expected, atol=1e-5)
    assert model.log_likelihood_ == pytest.approx(log_likelihood, rel=1e-9)
    assert "no set has two items of this nest" in model.summary().fixed["lambda(own)"]


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("shared", [None, (0, 0, 1, 1)])
def test_derivatives_are_those_of_the_likelihood(fitted, choices, bounded, shared):
    data = fitted.schema_.encode(choices.take(np.arange(60)), np.float64)
    form = Nested(data.items.shape[1], (2, 2), 2, shared, bounded)
    size = len(form.theta) + len(form.raw)
    likelihood = Likelihood(form, data)
    at, step = 0.5 * np.random.default_rng(0).normal(size=size), 1e-5 * np.eye(size)
    _, gradient, hessian = likelihood(at)
    slopes = [(likelihood(at + e)[0] - likelihood(at - e)[0]) / 2e-5 for e in step]
    curves = [(likelihood(at + e)[1] - likelihood(at - e)[1]) / 2e-5 for e in step]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(hessian, curves, rtol=1e-5, atol=1e-5)
    assert (np.abs(gradient[:2]) > 1).all()


def test_absent_items_are_never_read(fitted, choices):
    x = fitted.schema_.encode(choices).items[:4].astype(np.float32)
    padded = np.concatenate([x, np.full((2, x.shape[1]), np.nan, np.float32)])
    found = fitted.model_.probabilities(jnp.asarray(padded), jnp.arange(6) < 4)
    expected = fitted.model_.probabilities(jnp.asarray(x), jnp.ones(4, bool))
    assert expected.sum() == pytest.approx(1)
    np.testing.assert_allclose(found[:4], expected, rtol=1e-5)
    assert (found[4:] == 0).all()


# Estimates


def test_recovers_three_levels():
    rows = trips(sets=4000, seed=1)
    model = tree_model().fit(read(rows))
    assert model.parameter_names_ == [
        "cost", "time", "lambda(public)", "lambda(private)", "lambda(rail)", "lambda(road)",
    ]  # fmt: skip
    error = model.parameters_ - [-1.0, -0.5, 0.7, 0.5, 0.6, 0.8]
    covariance = model.covariance_of("classical")
    assert error @ np.linalg.solve(covariance, error) < chi2.isf(RARE, 6)
    assert (np.sqrt(np.diag(covariance)) < 0.1).all()
    truth = tree_model().fit(read(rows))  # the likelihood of the truth, by the same path
    truth = truth.with_parameters(np.array([-1.0, -0.5, 0.7, 0.5, 0.6, 0.8]))
    gain = 2 * (model.log_likelihood_ - by_formula(truth, rows)[0])
    assert 0 < gain < chi2.isf(RARE, 6)
    products = [0.7, 0.5, 0.42, 0.56]
    np.testing.assert_allclose(truth.scales_, products)
    assert list(truth.scale_) == ["public", "private", "rail", "road"]


def test_a_nest_with_lambda_one_is_none(fitted, choices):
    """At lambda = 1 for the outer or for the inner nests, it is a model of fewer levels."""
    outer = fitted.with_parameters(np.array([-1, -0.5, 0.7, 0.5, 1.0, 1.0]))
    flat = {
        "public": [*TREE["public"]["rail"], *TREE["public"]["road"]],
        "private": ["car", "bike"],
    }
    one_level = tree_model(flat).fit(choices)
    expected = one_level.with_parameters(np.array([-1, -0.5, 0.7, 0.5])).predict_proba(choices)
    np.testing.assert_allclose(outer.predict_proba(choices), expected, rtol=1e-5)
    inner = fitted.with_parameters(np.array([-1, -0.5, 1.0, 0.5, 0.6, 0.8]))
    parts = TREE["public"] | {"private": TREE["private"]}
    two = tree_model(parts).fit(choices)
    assert two.nests_ == ["rail", "road", "private"]
    expected = two.with_parameters(np.array([-1, -0.5, 0.6, 0.8, 0.5])).predict_proba(choices)
    np.testing.assert_allclose(inner.predict_proba(choices), expected, rtol=1e-5)
    logit = sw.MNL("cost + time | 0").fit(choices).with_parameters(np.array([-1, -0.5]))
    none = fitted.with_parameters(np.array([-1, -0.5, 1.0, 1.0, 1.0, 1.0]))
    np.testing.assert_allclose(none.predict_proba(choices), logit.predict_proba(choices), rtol=1e-5)


def test_levels_are_tested_against_fewer(fitted, choices):
    flat = {
        "public": [*TREE["public"]["rail"], *TREE["public"]["road"]],
        "private": ["car", "bike"],
    }
    small = tree_model(flat).fit(choices)
    found = sw.likelihood_ratio(small, fitted)
    assert found.degrees == 2
    assert found.rejected
    assert sw.wald(small, fitted).degrees == 2
    assert sw.wald(sw.MNL("cost + time | 0").fit(choices), fitted).degrees == 4


def test_one_lambda_for_all_nests_or_for_those_of_a_level(fitted, choices):
    every = tree_model(one_lambda=True).fit(choices)
    level = tree_model(one_lambda="by level").fit(choices)
    assert every.parameter_names_[2:] == ["lambda"]
    assert level.parameter_names_[2:] == ["lambda(level 1)", "lambda(level 2)"]
    assert len(set(every.lambdas_.tolist())) == 1
    assert level.lambdas_[0] == level.lambdas_[1] != level.lambdas_[2] == level.lambdas_[3]
    np.testing.assert_allclose(every.scales_[2:], every.lambdas_[0] ** 2)
    assert every.log_likelihood_ < level.log_likelihood_ < fitted.log_likelihood_
    assert sw.likelihood_ratio(every, level).degrees == 1
    assert sw.likelihood_ratio(level, fitted).degrees == 2
    log_likelihood, _ = by_formula(level, trips())
    assert level.log_likelihood_ == pytest.approx(log_likelihood, rel=1e-9)


def test_one_lambda_is_that_of_the_cross_nested_logit(choices):
    flat = {"rail": ["train", "metro"], "road": ["bus", "coach"], "private": ["car", "bike"]}
    nested = tree_model(flat, one_lambda=True).fit(choices)
    crossed = sw.CrossNestedLogit(flat, utility="cost + time | 0", one_lambda=True).fit(choices)
    assert nested.parameter_names_ == crossed.parameter_names_
    np.testing.assert_allclose(nested.parameters_, crossed.parameters_, rtol=1e-5)
    np.testing.assert_allclose(nested.standard_errors_, crossed.standard_errors_, rtol=1e-4)


def test_one_lambda_of_a_column_of_nests():
    made = sw.datasets.generate("nested", sets=800, features=2, nests=2, lambdas=(0.5, 0.5))
    items = [*made.items, "category(nest)"]
    choices = sw.read(made.columns, set="set_id", chosen="chosen", items=items)
    model = sw.NestedLogit("nest", one_lambda=True).fit(choices)
    assert model.parameter_names_[-1] == "lambda"
    assert abs(model.lambda_["0"] - 0.5) < 4 * model.standard_errors_[-1]


# Lambdas above 1


def test_lambdas_above_one_are_estimated_if_asked_and_told():
    lambdas = LAMBDAS | {"rail": 1.6}
    choices = read(trips(sets=2500, lambdas=lambdas, seed=3))
    bounded = tree_model().fit(choices)
    assert bounded.lambda_["rail"] == 1
    text = str(bounded.summary())
    assert "at its bound: this nest is none" in text
    assert "bounded=False estimates it" in text
    said = r"lambda\(rail\) = 1\.\d+ is above 1, which is inconsistent with utility maximisation"
    with pytest.warns(UserWarning, match=said):
        model = tree_model(bounded=False).fit(choices)
    error = model.parameters_ - [-1.0, -0.5, 0.7, 0.5, 1.6, 0.8]
    covariance = model.covariance_of("classical")
    assert error @ np.linalg.solve(covariance, error) < chi2.isf(RARE, 6)
    assert model.log_likelihood_ > bounded.log_likelihood_ + 2
    assert "is above 1, which is inconsistent with utility maximisation" in str(model.summary())


def test_without_bound_it_is_the_same_where_no_bound_holds(fitted, choices):
    free = tree_model(bounded=False).fit(choices)
    np.testing.assert_allclose(free.parameters_, fitted.parameters_, rtol=1e-5)
    for kind in ("classical", "robust", "cluster"):
        np.testing.assert_allclose(
            free.covariance_of(kind), fitted.covariance_of(kind), rtol=1e-3, atol=1e-7
        )


def test_without_bound_one_level_is_the_cross_nested_logit():
    """Two of a kind attract more than the MNL says."""
    flat = {"public": ["train", "metro", "bus", "coach"]}
    choices = read(trips(sets=600, tree=flat, lambdas={"public": 1.5}))
    with pytest.warns(UserWarning, match=r"lambda\(public\) = 1\.\d+ is above 1") as nested_says:
        nested = tree_model(flat, bounded=False).fit(choices)
    with pytest.warns(UserWarning, match=r"lambda\(public\) = 1\.\d+ is above 1") as crossed_says:
        crossed = sw.CrossNestedLogit(flat, utility="cost + time | 0").fit(choices)
    assert [str(one.message) for one in nested_says] == [str(one.message) for one in crossed_says]
    np.testing.assert_allclose(nested.parameters_, crossed.parameters_, rtol=1e-5)
    np.testing.assert_allclose(nested.standard_errors_, crossed.standard_errors_, rtol=1e-4)


# What follows from it


def test_files_scorer_and_bootstrap(fitted, choices, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = sw.load(tmp_path / "model")
    expected = fitted.predict_proba(choices)
    np.testing.assert_array_equal(loaded.predict_proba(choices), expected)
    assert loaded.lambda_ == fitted.lambda_
    assert loaded.scale_ == fitted.scale_
    assert loaded.get_params()["nests"] == TREE
    assert str(loaded.summary()) == str(fitted.summary())
    scorer = sw.scoring.load_scorer(tmp_path / "model")
    np.testing.assert_allclose(scorer.predict_proba(choices), expected, atol=1e-6)


def test_the_bootstrap_agrees_with_clustered_errors(fitted, choices):
    """Without a bound, or resamples whose best lambda is above 1 would be left out."""
    model = tree_model(bounded=False).fit(choices).bootstrap(60)
    ratio = model.summary("bootstrap").standard_errors / fitted.summary("cluster").standard_errors
    assert ((ratio > 0.6) & (ratio < 1.6)).all()


def test_an_onnx_file_gives_the_same_probabilities(fitted, tmp_path):
    pytest.importorskip("onnxruntime")
    from test_export import exported, given

    rows = {name: np.array(values) for name, values in trips(sets=30, seed=4).items()}
    session, _ = exported(fitted, tmp_path)
    inputs = given(session, rows | {"search": rows["trip"]})
    (found,) = session.run(None, inputs)
    expected = fitted.predict_proba(read(rows))
    np.testing.assert_allclose(found[inputs["present"]], expected, atol=1e-5)


def test_the_log_sum_is_that_of_the_recursion(fitted):
    """But for what the same zero point of utility adds to all of them."""
    rows = trips(sets=40, seed=9)
    found = surplus(fitted, read(rows), "cost")
    trip, expected = np.array(rows["trip"]), []
    for one in range(40):
        at = np.flatnonzero(trip == one)
        v = {rows["mode"][i]: fitted.coef_ @ [rows["cost"][i], rows["time"][i]] for i in at}
        alone = {"on foot": ["walk"]}
        total, _ = log_sum(TREE | alone, v, fitted.lambda_ | {"on foot": 1.0})
        expected.append(-total / fitted.coef_[0])
    np.testing.assert_allclose(found - found[0], np.subtract(expected, expected[0]), atol=1e-9)


def test_elasticities_are_those_of_the_recursion(fitted):
    rows = trips(sets=1, seed=2)
    b, cost, time = fitted.coef_, np.array(rows["cost"]), np.array(rows["time"])

    def log_p(cost):
        v = dict(zip(rows["mode"], b[0] * cost + b[1] * time, strict=True))
        return np.log([*probabilities(v, lambdas=fitted.lambda_).values()])

    step = 1e-5 * np.diag(cost)
    expected = [(log_p(cost + one) - log_p(cost - one)) / 2e-5 for one in step]
    found = elasticities(fitted, read(rows), "cost").of_set(0)
    np.testing.assert_allclose(found, np.transpose(expected), rtol=1e-3, atol=1e-4)


def test_an_economist_finds_the_rule_in_the_summary(fitted):
    text = str(fitted.summary())
    assert "relative to the nest around its nest" in text
    assert f"rail {fitted.scale_['rail']:.4g}" in text
    assert json.dumps(fitted.summary().to_json())


# What is refused


@pytest.mark.parametrize(
    ("nests", "said"),
    [
        ({"a": {"rail": ["train"]}, "b": {"rail": ["metro"]}}, "two nests are called 'rail'"),
        ({"a": {"rail": ["train"], "b": ["train", "bus"]}}, r"nests\['a'\]\['rail'\] and in nests"),
        ({"a": {"rail": ["train", "plane"]}}, "'plane', which is not an alternative"),
        ({"a": {"rail": "train"}}, r"nests\['a'\]\['rail'\]='train' must be a list"),
        ({"a": {}}, r"nests\['a'\]=\{\} must be a mapping"),
        ({"all": {"rail": ["train"], "rest": list(MODES[1:])}}, "in one nest of nests="),
    ],
)
def test_trees_that_make_no_model_are_refused(choices, nests, said):
    with pytest.raises(sw.InputError, match=said):
        tree_model(nests).fit(choices)


@pytest.mark.parametrize("value", ["level", 1, None])
def test_one_lambda_is_true_false_or_by_level(choices, value):
    with pytest.raises(sw.InputError, match="one_lambda="):
        tree_model().set_params(one_lambda=value).fit(choices)


def test_a_nest_of_one_nest_has_no_lambda_of_its_own(choices):
    chain = {"public": {"inner": ["train", "metro", "bus"]}, "private": ["car", "bike"]}
    model = tree_model(chain).fit(choices)
    plain = tree_model({"inner": ["train", "metro", "bus"], "private": ["car", "bike"]}).fit(
        choices
    )
    assert model.log_likelihood_ == pytest.approx(plain.log_likelihood_, rel=1e-10)
    assert model.lambda_["inner"] == pytest.approx(plain.lambda_["inner"], rel=1e-6)
    assert model.lambda_["public"] == 1
    assert "no set has two of the nests within this nest" in str(model.summary())
    assert jax.tree.leaves(model.model_)[1].shape == (3,)
