"""Nested and mixed logits: by hand, against the formula in NumPy, recovery of known parameters."""

import itertools
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2
from sklearn.exceptions import ConvergenceWarning

import setwise as sw
from setwise._tensorfile import with_arrays
from setwise.choices import Schema
from setwise.estimators.degenerate import flaws
from setwise.estimators.logit import MNL
from setwise.estimators.mixed import MixedMNL
from setwise.estimators.nested import NestedLogit
from setwise.models import ZOO, About, Sizes
from setwise.models.mixtures import Mixture, MixtureBlueprint, SoftNested, SoftNestedBlueprint
from setwise.models.nested import Nested
from setwise.models.within_set import WithinSet, WithinSetBlueprint
from setwise.scoring.model_file import Artifact
from setwise.training import maximise
from setwise.training.class_starts import promising
from setwise.training.latent import ClassLayout, ClassLikelihood, People
from setwise.training.likelihood import Likelihood, climb, maximise_likelihood
from setwise.training.options import cross_entropy

RARE = 1e-4  # a right test fails once in ten thousand seeds, and the seeds are fixed


def nested_choices(**options):
    made = sw.datasets.generate(
        "nested", **({"sets": 400, "items": (2, 7), "features": 2} | options)
    )
    return made, read(made.columns)


def read(columns, items=("x0", "x1", "category(nest)"), **options):
    items = [one for one in items if one in columns or "(" in one]
    return sw.read(columns, set="set_id", chosen="chosen", items=items, **options)


def filled(model, seed=0):
    """The model with random weights."""
    rng = np.random.default_rng(seed)

    def drawn(leaf):
        return jax.device_put(rng.normal(size=leaf.shape).astype(np.float32))

    return eqx.combine(jax.tree.map(drawn, eqx.filter(model, eqx.is_inexact_array)), model)


# One program each instead of one per operation.
scores = eqx.filter_jit(lambda model, x, present: model.scores(x, present))
probabilities = eqx.filter_jit(lambda model, x, present: model.probabilities(x, present))


@eqx.filter_jit
@eqx.filter_value_and_grad
def loss_and_slopes(model_and_items, present):
    model, x = model_and_items
    return cross_entropy(model.scores(x, present), present, jnp.array(0))


KEY = jax.random.key(0)
MODELS = {
    "within set": WithinSet(5),
    "nested": Nested(5, (3,), start=2),
    "soft nested": SoftNested(5, 4, KEY),
    "mixture": Mixture(5, 4, KEY),
}
every_model = pytest.mark.parametrize("name", MODELS)


def items(n, seed=0):
    """Two features and a one-hot of three nests, as standardised columns have it."""
    rng = np.random.default_rng(seed)
    nests = np.eye(3)[rng.integers(3, size=n)] * 2 - 0.7
    return np.hstack([rng.normal(size=(n, 2)), nests]).astype(np.float32)


@every_model
def test_permuting_items_permutes_scores(name):
    model, x, order = filled(MODELS[name]), items(7), np.random.default_rng(1).permutation(7)
    everyone = np.ones(7, bool)
    expected = scores(model, x, everyone)[order]
    np.testing.assert_allclose(scores(model, x[order], everyone), expected, rtol=1e-4, atol=1e-5)


@every_model
@pytest.mark.parametrize("garbage", [0.0, 1e6, np.nan])
def test_absent_items_are_never_read(name, garbage):
    model, x = filled(MODELS[name]), items(7)
    padded = np.concatenate([x, np.full((3, 5), garbage, np.float32)])
    found = probabilities(model, padded, np.arange(10) < 7)
    expected = probabilities(model, x, np.ones(7, bool))
    np.testing.assert_allclose(found[:7], expected, rtol=1e-4, atol=1e-6)
    assert (found[7:] == 0).all()


@every_model
@pytest.mark.parametrize("scale", [0.0, 1e-12, 1.0, 1e3])
@pytest.mark.parametrize("size", [1, 2, 6])
def test_gradients_are_finite_at_ties_extremes_and_one_item(name, scale, size):
    x = np.float32(scale) * items(6)
    value, slopes = loss_and_slopes((filled(MODELS[name]), jax.device_put(x)), np.arange(6) < size)
    assert np.isfinite(value)
    for leaf in jax.tree.leaves(slopes):
        assert np.isfinite(leaf).all()


def test_nested_logit_by_hand():
    """V = (0, log 2, log 3); the first two are a nest with lambda = 1/2.

    exp(V / lambda) = (1, 4): I = log 5. The nests weigh 5^(1/2) and 3.
    """
    x = jnp.array([[0.0, 0.5, -1], [jnp.log(2.0), 0.5, -1], [jnp.log(3.0), -2, 1]])
    arrays = {"theta": np.array([1, 0, 0], np.float32), "raw": np.array([0, 40], np.float32)}
    model = with_arrays(Nested(3, (2,), start=1), arrays)
    nest = 5**0.5 / (5**0.5 + 3)
    expected = [nest / 5, nest * 4 / 5, 1 - nest]
    np.testing.assert_allclose(model.probabilities(x, jnp.ones(3, bool)), expected, rtol=1e-5)
    # Without the second item the nest is a single item, and the rest is a plain logit of 1 to 3.
    alone = model.probabilities(x, jnp.array([True, False, True]))
    np.testing.assert_allclose(alone, [0.25, 0, 0.75], rtol=1e-5)


def soft_nested():
    """f = x; W = (0, log 2), lambda = (1/2, 1/2)."""
    arrays = {"theta": np.eye(2), "W": np.log([1.0, 2.0]), "raw": np.zeros(2)}
    arrays = {name: value.astype(np.float32) for name, value in arrays.items()}
    return with_arrays(SoftNested(2, 2, KEY), arrays)


def test_soft_nests_by_hand():
    """exp f = (1, 2, 1) and (3, 1, 2), so exp I = 4 and 6; nests weigh 4^(1/2) and 2 * 6^(1/2)."""
    x = jnp.log(jnp.array([[1.0, 3.0], [2.0, 1.0], [1.0, 2.0]]))
    first = 2 / (2 + 2 * 6**0.5)
    expected = first * np.array([1, 2, 1]) / 4 + (1 - first) * np.array([3, 1, 2]) / 6
    scores = soft_nested().scores(x, jnp.ones(3, bool))
    np.testing.assert_allclose(np.exp(scores), expected, rtol=1e-5)


def test_mixture_by_hand():
    """exp f = (1, 2, 1) and (3, 1, 2), shares 1/4 and 3/4: P = (1/16 + 3/8, ...)."""
    x = jnp.log(jnp.array([[1.0, 3.0], [2.0, 1.0], [1.0, 2.0]]))
    arrays = {"theta": np.eye(2, dtype=np.float32), "logits": np.log([1.0, 3.0]).astype(np.float32)}
    model = with_arrays(Mixture(2, 2, KEY), arrays)
    expected = [1 / 16 + 3 / 8, 1 / 8 + 1 / 8, 1 / 16 + 1 / 4]
    np.testing.assert_allclose(np.exp(model.scores(x, jnp.ones(3, bool))), expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["soft nested", "mixture"])
@pytest.mark.parametrize("n", [1, 3, 30])
def test_mixtures_are_distributions_before_any_softmax(name, n):
    total = np.exp(scores(filled(MODELS[name]), items(n), np.ones(n, bool))).sum()
    assert total == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("kind", [SoftNestedBlueprint, MixtureBlueprint, WithinSetBlueprint])
def test_blueprints_build_for_any_sizes(kind):
    blueprint = kind(About("non-IIA", "", "", False, ""))
    model = blueprint.initial(5, Sizes(dimension=3), jnp.uint32(0))
    assert model.scores(jnp.asarray(items(4)), jnp.ones(4, bool)).shape == (4,)


def test_iia_holds_within_a_nest_and_fails_across():
    x = jnp.array([[0.3, 1, -1], [1.0, 1, -1], [0.5, 1, -1], [0.7, -1, 1.0], [0.1, -1, 1.0]])
    arrays = {"theta": np.array([1, 0, 0], np.float32), "raw": np.zeros(2, np.float32)}
    model = with_arrays(Nested(3, (2,), start=1), arrays)
    before = np.asarray(model.scores(x, jnp.ones(5, bool)))
    after = np.asarray(model.scores(x, jnp.arange(5) != 2))
    assert after[0] - after[1] == pytest.approx(before[0] - before[1], abs=1e-6)
    assert abs((after[0] - after[3]) - (before[0] - before[3])) > 0.05


def test_the_general_maximiser_solves_the_mnl_as_newton_does():
    choices = sw.datasets.generate("mnl", sets=300, items=(2, 9), features=3).choices
    data = Schema.fit(choices).encode(choices, np.float64)
    newton = maximise(data)
    model = ZOO["mnl"].build(3, Sizes(), KEY)
    found = maximise_likelihood(model, np.zeros(3), data)
    np.testing.assert_allclose(found.parameters, newton.coefficients, rtol=1e-7)
    np.testing.assert_allclose(found.covariance, newton.covariance, rtol=1e-6)
    assert found.log_likelihood == pytest.approx(newton.log_likelihood, rel=1e-12)
    assert found.converged


@pytest.mark.parametrize(
    "model", [Nested(5, (3,), start=2), Mixture(5, 2, KEY)], ids=["nested", "mixture"]
)
def test_derivatives_are_those_of_the_likelihood(model):
    _, choices = nested_choices(sets=40)
    data = Schema.fit(choices).encode(choices, np.float64)
    size = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))
    likelihood = Likelihood(model, data)
    at, step = np.random.default_rng(0).normal(size=size), 1e-5 * np.eye(size)
    _, gradient, hessian = likelihood(at)
    slopes = [(likelihood(at + e)[0] - likelihood(at - e)[0]) / 2e-5 for e in step]
    curves = [(likelihood(at + e)[1] - likelihood(at - e)[1]) / 2e-5 for e in step]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(hessian, curves, rtol=1e-5, atol=1e-5)


def written_out(columns, nests):
    """Minus log L of a nested logit at (b, lambda), nest by nest, as the formula has it."""
    x = np.stack([columns["x0"], columns["x1"]], 1)
    sets = [np.flatnonzero(columns["set_id"] == one) for one in np.unique(columns["set_id"])]

    def loss(parameters):
        b, lambdas = parameters[:2], parameters[2:]
        total = 0.0
        for rows in sets:
            v, nest = x[rows] @ b, columns["nest"][rows]
            sums = {k: np.exp(v[nest == k] / lambdas[k]).sum() for k in set(nest)}
            weights = {k: one ** lambdas[k] for k, one in sums.items()}
            y = int(np.argmax(columns["chosen"][rows]))
            k = nest[y]
            p = weights[k] / sum(weights.values()) * np.exp(v[y] / lambdas[k]) / sums[k]
            total -= np.log(p)
        return total

    return loss


def numerical_hessian(function, at, step=1e-4):
    def second(a, b):
        up, down = at + a, at - a
        return function(up + b) - function(up - b) - function(down + b) + function(down - b)

    nudges = step * np.eye(len(at))
    return np.array([[second(a, b) for a in nudges] for b in nudges]) / (4 * step**2)


def test_nested_logit_agrees_with_scipy_on_the_formula_as_written():
    made, choices = nested_choices(sets=250, nests=2, lambdas=(0.4, 0.7), seed=2)
    model = NestedLogit("nest").fit(choices)
    loss = written_out(made.columns, 2)
    best = scipy.optimize.minimize(
        loss, [0, 0, 0.8, 0.8], method="L-BFGS-B", bounds=[(None, None)] * 2 + [(0.05, 1)] * 2,
        options={"ftol": 1e-14, "gtol": 1e-8},
    )  # fmt: skip
    found = np.concatenate([model.coef_, model.lambdas_])
    np.testing.assert_allclose(found, best.x, rtol=1e-3, atol=1e-4)
    assert model.log_likelihood_ == pytest.approx(-loss(found), rel=1e-9)
    assert model.log_likelihood_ >= -best.fun - 1e-6
    errors = np.sqrt(np.diag(np.linalg.inv(numerical_hessian(loss, found))))
    np.testing.assert_allclose(model.standard_errors_, errors, rtol=1e-3)


def test_recovers_a_nested_logit():
    made, choices = nested_choices(sets=5000, features=2, nests=3, seed=1)
    model = NestedLogit("nest").fit(choices)
    error = np.concatenate(
        [model.coef_ - made.parameters["beta"], model.lambdas_ - made.parameters["lambda"]]
    )
    assert (np.abs(error) < 3 * model.standard_errors_).all()
    assert error @ np.linalg.solve(model.covariance_, error) < chi2.isf(RARE, 5)
    assert list(model.lambda_) == ["0", "1", "2"]
    assert model.evaluate(choices).nll * 5000 == pytest.approx(-model.log_likelihood_, rel=1e-5)


def test_with_lambdas_at_one_it_is_the_mnl():
    made = sw.datasets.generate("mnl", sets=500, items=4, features=2, seed=3)
    nest = np.random.default_rng(0).permuted(np.tile([0, 0, 1, 1], (500, 1)), axis=1).ravel()
    columns = dict(made.columns) | {"nest": nest}
    choices, mnl = read(columns), MNL().fit(made.choices)
    model = NestedLogit("nest").fit(choices)
    # On the MNL's own data lambda goes beyond 1 as often as not.
    assert 0 <= 2 * (model.log_likelihood_ - mnl.log_likelihood_) + 1e-6 < chi2.isf(RARE, 2)
    model.coef_, model.lambdas_ = mnl.coef_, np.ones(2)
    model.model_ = model._model()
    np.testing.assert_allclose(
        model.predict_proba(choices), mnl.predict_proba(made.choices), rtol=1e-5
    )


def test_a_lambda_at_its_bound_is_fixed_there_and_told():
    """Choices that run against nests: two of a kind attract more than the MNL says."""
    rng = np.random.default_rng(0)
    owner, nest = np.repeat(np.arange(600), 3), np.tile(["a", "a", "b"], 600)
    x = rng.normal(size=1800)
    noisy = (x + 0.7 * (nest == "a") + rng.gumbel(size=1800)).reshape(-1, 3)
    chosen = (noisy == noisy.max(1, keepdims=True)).astype(int).ravel()
    columns = {"set_id": owner, "chosen": chosen, "x0": x, "nest": nest}
    choices = read(columns)
    model = NestedLogit("nest").fit(choices)
    assert model.lambda_ == {"a": 1.0, "b": 1.0}
    assert model.identified_.tolist() == [True, False, False]
    text = str(model.summary())
    assert "at its bound" in text
    assert "no set has two items" in text
    mnl = MNL().fit(read(columns, ["x0"]))
    np.testing.assert_allclose(model.coef_, mnl.coef_, rtol=1e-6)
    np.testing.assert_allclose(model.standard_errors_[:1], mnl.standard_errors_, rtol=1e-5)
    assert model.log_likelihood_ == pytest.approx(mnl.log_likelihood_, rel=1e-10)


def test_units_context_and_an_outside_option_leave_a_nested_logit_sound():
    made, choices = nested_choices(sets=600)
    plain = NestedLogit("nest").fit(choices)
    columns = dict(made.columns) | {"x0": made.columns["x0"] * 50 + 7}
    columns["mood"] = np.random.default_rng(0).normal(size=600)[columns["set_id"]]
    moved = NestedLogit("nest").fit(read(columns, context=["mood"]))
    np.testing.assert_allclose(moved.coef_ * [50, 1], plain.coef_, rtol=1e-6)
    np.testing.assert_allclose(moved.lambdas_, plain.lambdas_, rtol=1e-6)
    columns["chosen"] = columns["chosen"] * (columns["set_id"] % 3 > 0)
    outside = read(columns, on_none="outside")
    model = NestedLogit("nest").fit(outside)
    assert model.feature_names_ == ["x0", "x1", "outside option"]
    assert model.evaluate(outside).nll * 600 == pytest.approx(-model.log_likelihood_, rel=1e-5)


@pytest.mark.parametrize(
    ("nest", "items", "message"),
    [
        ("nest", ["x0", "x1"], "no nest column 'nest' among the items"),
        ("x0", ["x0", "x1"], r"is a number; read it as a category"),
        ("nest", ["x0", "category(nest)"], "one level only"),
        ("own", ["x0", "category(own)"], "all items of every set are in one nest"),
    ],
)
def test_wrong_nests_are_refused_with_a_remedy(nest, items, message):
    made, _ = nested_choices(sets=30)
    columns = dict(made.columns) | {"nest": np.zeros(len(made.columns["nest"]))}
    columns["own"] = columns["set_id"] % 2
    with pytest.raises(sw.InputError, match=message):
        NestedLogit(nest).fit(read(columns, items))


def test_recovers_a_mixed_logit():
    made = sw.datasets.generate("mixed", sets=3000, items=(3, 9), features=4, seed=1)
    model = MixedMNL(classes=2).fit(made.choices)
    truth = np.concatenate([made.parameters["theta"].ravel(), made.parameters["shares"][:1]])
    error = np.concatenate([model.coef_.ravel(), model.shares_[:1]]) - truth
    assert error @ np.linalg.solve(model.covariance_[:9, :9], error) < chi2.isf(RARE, 9)
    # The likelihood at the maximum exceeds the truth's by half a chi-square of 9 degrees.
    chosen = made.columns["chosen"] == 1
    ratio = 2 * (model.log_likelihood_ - np.log(made.probabilities[chosen]).sum())
    assert 0 < ratio < chi2.isf(RARE, 9)
    assert model.evaluate(made.choices).nll * 3000 == pytest.approx(
        -model.log_likelihood_, rel=1e-5
    )


def test_a_mixture_of_one_class_is_the_mnl():
    choices = sw.datasets.generate("mnl", sets=300, items=(2, 6), features=3).choices
    one, mnl = MixedMNL(classes=1).fit(choices), MNL().fit(choices)
    np.testing.assert_allclose(one.coef_[0], mnl.coef_, rtol=1e-7)
    np.testing.assert_allclose(one.standard_errors_[:3], mnl.standard_errors_, rtol=1e-6)
    assert one.shares_.tolist() == [1.0]


@pytest.mark.slow
def test_validation_chooses_the_number_of_classes():
    made = sw.datasets.generate("mixed", sets=1200, items=5, features=2, seed=0)
    train, valid = sw.split(made.choices, (0.7, 0.3))
    model = MixedMNL(starts=2).fit(train, valid)
    assert model.classes_ == 2
    again = MixedMNL(starts=2).fit(train, valid)
    np.testing.assert_array_equal(model.coef_, again.coef_)


def test_a_reference_column_stays_one_in_every_class():
    made = sw.datasets.generate("mixed", sets=600, items=5, features=2, seed=0)
    columns = dict(made.columns) | {"x2": 3 - 2 * made.columns["x0"]}
    model = MixedMNL(classes=2).fit(read(columns, ["x0", "x1", "x2"]))
    plain = MixedMNL(classes=2).fit(made.choices)
    assert (model.coef_[:, 2] == 0).all()
    assert model.log_likelihood_ == pytest.approx(plain.log_likelihood_, rel=1e-8)
    assert model.summary().parameters == plain.summary().parameters == 5


@pytest.mark.parametrize("arguments", [{"classes": 0}, {"starts": 0}, {"seed": -1}])
def test_wrong_arguments_of_a_mixture_are_refused(arguments):
    choices = sw.datasets.generate("mnl", sets=20).choices
    with pytest.raises(sw.InputError, match=next(iter(arguments))):
        MixedMNL(**arguments).fit(choices)


ESTIMATORS = {
    "nested": (NestedLogit("nest"), ["x0", "x1", "category(nest)"]),
    "mixed": (MixedMNL(classes=2, starts=2), ["x0", "x1"]),
}
every_estimator = pytest.mark.parametrize("name", ESTIMATORS)


def columns_for(name, sets):
    return dict(sw.datasets.generate(name, sets=sets, items=(2, 7), features=2, seed=1).columns)


@every_estimator
def test_weights_count_sets_more_than_once(name):
    estimator, items = ESTIMATORS[name]
    columns, weight = columns_for(name, 400), np.random.default_rng(0).integers(1, 4, 400)
    columns["w"] = weight[columns["set_id"]].astype(float)
    weighted = estimator.fit(read(columns, items, weight="w")).summary("classical")
    copies = read(columns, items).take(np.repeat(np.arange(400), weight))
    repeated = estimator.fit(copies).summary()
    mean = weight.mean()  # weights are divided by it
    assert weighted.log_likelihood * mean == pytest.approx(repeated.log_likelihood, rel=1e-9)
    np.testing.assert_allclose(weighted.coefficients, repeated.coefficients, rtol=1e-6)
    shown = weighted.identified
    np.testing.assert_allclose(
        weighted.standard_errors[shown] / np.sqrt(mean),
        repeated.standard_errors[shown],
        rtol=1e-5,
    )


@every_estimator
def test_a_model_file_gives_the_identical_model(name, tmp_path):
    estimator, items = ESTIMATORS[name]
    choices = read(columns_for(name, 400), items)
    model = estimator.fit(choices)
    model.save(tmp_path / "model")
    loaded = type(model).from_artifact(Artifact.read(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict_proba(choices), model.predict_proba(choices))
    assert str(loaded.summary()) == str(model.summary())
    assert loaded.get_params() == model.get_params()


@every_estimator
def test_a_leak_is_told(name):
    estimator, items = ESTIMATORS[name]
    columns = columns_for(name, 100)
    columns["leak"] = columns["chosen"] * 2.0
    with (
        pytest.warns(sw.DataWarning, match="'leak'"),
        pytest.warns(sw.DataWarning, match="tells the training choices without error"),
        pytest.warns(ConvergenceWarning, match="no (clear )?maximum"),
    ):
        estimator.fit(read(columns, [*items, "leak"]))


def separated_columns(sets, seed):
    """Items of a kind that nobody chooses, though its other features are as good."""
    made = sw.datasets.generate(
        "nested", sets=sets, items=(3, 6), features=2, nests=2, lambdas=(0.5, 0.7), seed=seed
    )
    columns = dict(made.columns)
    rare = np.random.default_rng(seed).random(len(columns["x0"])) < 0.05
    return columns | {"rare": (rare & (columns["chosen"] == 0)).astype(float)}


@pytest.mark.parametrize("bounded", [True, False])
def test_a_separated_nested_logit_warns_and_predicts_as_a_penalised_one(bounded):
    items = ["x0", "x1", "rare", "category(nest)"]
    train, test = (read(separated_columns(600, seed), items) for seed in (1, 2))
    with pytest.warns(ConvergenceWarning, match="'rare' tells chosen items.*penalised") as told:
        model = NestedLogit("nest", bounded=bounded).fit(train)
    assert "set l2=" not in str(told[0].message)  # there is no such argument
    assert not model.converged_
    assert model.l2_ >= 1
    assert -10 < model.coef_[2] < -1  # without a penalty, the search stops far below
    assert np.isfinite(model.standard_errors_).all()
    assert "The likelihood has no maximum. Estimates are penalised" in str(model.summary())
    without = NestedLogit("nest").fit(read(separated_columns(600, 1)))
    np.testing.assert_allclose(model.lambdas_, without.lambdas_, atol=0.1)
    with pytest.warns(ConvergenceWarning, match="no maximum"):
        logit = MNL().fit(read(separated_columns(600, 1), items[:3]))
    assert model.evaluate(test).nll < logit.evaluate(test).nll


@pytest.mark.filterwarnings("ignore")
def test_a_nested_logit_with_a_leak_is_not_certain_of_others():
    """The leak tells all choices: the penalty keeps probabilities of what it has not seen sane."""
    columns = columns_for("nested", 200)
    leaked = columns | {"leak": columns["chosen"] * 2.0}
    items = ["x0", "x1", "category(nest)", "leak"]
    model = NestedLogit("nest").fit(read(leaked, items))
    assert (model.lambdas_ > 0.1).all()
    assert np.abs(model.coef_).max() < 20
    unknown = columns | {"leak": 0.0 * columns["chosen"]}
    assert model.evaluate(read(unknown, items)).nll < 2


# More starts, and degenerate solutions


@given(st.lists(st.sampled_from([-3.0, -2.0, -1.0, 0.0]), min_size=1, max_size=12), st.data())
def test_more_starts_climb_from_all_that_fewer_would(values, data):
    fewer = data.draw(st.integers(1, len(values)))
    climbed = promising(values)
    assert [place for place in climbed if place < fewer] == promising(values[:fewer])
    assert climbed[0] == 0
    assert max(values) in [values[place] for place in climbed]


def test_more_starts_never_fit_worse():
    """In these data, the start that EM likes best of five leads to a lower maximum than the best
    of three does."""
    made = sw.datasets.generate("mixed", sets=400, items=4, features=3, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = [
            MixedMNL(classes=3, starts=starts).fit(made.choices).log_likelihood_
            for starts in (1, 3, 5)
        ]
    assert all(later >= earlier for earlier, later in itertools.pairwise(found))
    assert found[-1] > found[0]


def flaws_from(theta, shares, choices):
    """What is said of the stationary point that a climb from here reaches."""
    schema = sw.Schema.fit(choices)
    data = schema.encode(choices, np.float64)
    each = People(np.arange(len(data)), np.ones(len(data)), np.ones((len(data), 1)))
    layout = ClassLayout.of(len(shares), np.zeros(data.items.shape[1], bool), 1)
    start = layout.joined(np.asarray(theta), np.log(shares)[:, None])
    found = climb(ClassLikelihood(data, each, layout), start)
    shares = scipy.special.softmax(layout.split(found.parameters)[1][:, 0])
    return flaws(found, maximise(data), schema.item_names, layout, shares)


def test_degenerate_mixtures_are_named():
    choices = sw.datasets.generate("mnl", sets=200, items=4, features=2).choices
    mnl = MNL().fit(choices)
    weights = mnl.coef_ * mnl.schema_.item_scales
    same = flaws_from([weights, weights], [0.5, 0.5], choices)
    assert same == ["classes 1 and 2 are the same"]
    nobody = flaws_from([weights, weights + 3], [1 - 1e-9, 1e-9], choices)
    assert len(nobody) == 1
    assert nobody[0].startswith("class 2 has a share of ")


def test_a_class_without_bound_is_named_and_has_not_converged():
    """Half of the people choose by x1 alone and without error."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4, 2))
    utility = np.where(np.arange(300)[:, None] % 2, 50 * x[:, :, 1], rng.gumbel(size=(300, 4)))
    columns = {
        "set_id": np.repeat(np.arange(300), 4),
        "chosen": np.eye(4, dtype=int)[utility.argmax(1)].ravel(),
        "x0": x[:, :, 0].ravel(),
        "x1": x[:, :, 1].ravel(),
    }
    with pytest.warns(ConvergenceWarning, match=r"class \d grow without bound: .*'x1'"):
        model = MixedMNL(classes=2).fit(read(columns, ["x0", "x1"]))
    assert not model.converged_


def test_near_collinear_columns_are_not_called_degenerate():
    made = sw.datasets.generate("mixed", sets=1500, items=5, features=2, seed=0)
    noise = np.random.default_rng(0).normal(size=len(made.columns["x0"]))
    columns = dict(made.columns) | {"x2": made.columns["x0"] + 0.01 * noise}
    model = MixedMNL(classes=2, starts=1).fit(read(columns, ["x0", "x1", "x2"]))
    assert np.abs(model.coef_ * model.schema_.item_scales).max() > 10
    assert model.converged_


def test_only_columns_that_are_constant_within_sets_are_refused():
    columns = {"set_id": [0, 0, 1, 1], "chosen": [1, 0, 0, 1], "income": [3.0, 3, 5, 5],
               "nest": ["a", "b", "a", "b"]}  # fmt: skip
    for estimator, items in (
        (MixedMNL(classes=2), ["income"]),
        (NestedLogit("nest"), ["income", "nest"]),
    ):
        with pytest.raises(sw.InputError, match="nothing to learn from 'income'"):
            estimator.fit(read(columns, items))


def test_summaries_say_that_context_is_not_used():
    columns = columns_for("nested", 60)
    columns["income"] = columns["set_id"] % 7 * 1.0
    for estimator, items in ESTIMATORS.values():
        choices = sw.read(columns, set="set_id", chosen="chosen", items=items, context=["income"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert "Context 'income' is not used" in str(estimator.fit(choices).summary())
