"""Signs of coefficients and slopes: exact bounds, what is refused, and the penalty of SDA."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import setwise as sw
from setwise import _segments
from setwise._errors import InputError
from setwise._tensorfile import with_arrays
from setwise.choices import Encoded
from setwise.choices.choices import Column
from setwise.choices.directions import direction, sign_of
from setwise.choices.terms import Term
from setwise.estimators.maximum_likelihood import BOUND
from setwise.estimators.monotone import encoded_signs
from setwise.models import ZOO, Sizes
from setwise.training import Member, Options, Task, fit_population
from setwise.training.bounded import bounded
from setwise.training.slopes import REACH, SILVER, Slopes, wrong_slopes

SIGNS = {"x0": -1, "x1": 1}


@pytest.fixture(scope="module")
def choices():
    """x0 is liked and x1 is not: the contrary of ``SIGNS``."""
    rng = np.random.default_rng(5)
    sets, items = 300, 3
    x = rng.normal(size=(sets, items, 3))
    utility = x @ np.array([0.4, -1.0, 0.7]) + rng.gumbel(size=(sets, items))
    chosen = (utility == utility.max(1, keepdims=True)).astype(int)
    table = {"set": np.repeat(np.arange(sets), items), "chosen": chosen.ravel()}
    table |= {f"x{j}": x[:, :, j].ravel() for j in range(3)}
    table["person"] = table["set"] // 3
    return sw.read(table, set="set", chosen="chosen", items=["x0", "x1", "x2"], group="person")


# Exact bounds


def random_data(seed: int, columns: int) -> Encoded:
    rng = np.random.default_rng(seed)
    offsets = _segments.offsets_of(rng.integers(2, 6, size=50))
    x = rng.normal(size=(offsets[-1], columns)) @ rng.normal(size=(columns, columns))
    utility = x @ rng.normal(size=columns) / 2 + rng.gumbel(size=len(x))
    chosen = np.array([np.argmax(one) for one in np.split(utility, offsets[1:-1])])
    return Encoded(x, np.empty((50, 0)), offsets, chosen, None)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.sampled_from([-1, 0, 1]), min_size=4, max_size=4))
def test_the_bounded_logit_is_scipys_bounded_optimum(seed, wanted):
    data, l2 = random_data(seed, len(wanted)), 1.0
    signs = {place: one for place, one in enumerate(wanted) if one}
    found, held = bounded(data, l2, signs)
    penalty, rows = l2 * data.items.var(0), data.offsets[:-1] + data.chosen

    def loss(b):
        log_p = _segments.log_softmax(data.items @ b, data.offsets)
        gradient = data.items[rows].sum(0) - np.exp(log_p) @ data.items
        return penalty @ b**2 / 2 - log_p[rows].sum(), penalty * b - gradient

    between = {-1: (None, 0), 0: (None, None), 1: (0, None)}
    best = minimize(
        loss, np.zeros(4), jac=True, method="L-BFGS-B", bounds=[between[one] for one in wanted],
        options={"ftol": 1e-15, "gtol": 1e-10},
    )  # fmt: skip
    assert loss(found.coefficients)[0] <= best.fun + 1e-9
    np.testing.assert_allclose(found.coefficients, best.x, atol=1e-4)
    assert (np.array(wanted) * found.coefficients >= 0).all()
    assert (found.coefficients[held] == 0).all()


def test_bounds_that_do_not_bind_change_nothing(choices):
    free = sw.MNL().fit(choices)
    right = sw.MNL(monotone={"x0": 1, "x1": -1}).fit(choices)
    assert right.coef_.tolist() == free.coef_.tolist()
    assert right.covariance_.tolist() == free.covariance_.tolist()
    assert right.dropped_ == {}


def test_a_coefficient_at_its_bound_has_no_standard_error(choices, tmp_path):
    model = sw.MNL(monotone=SIGNS).fit(choices)
    alone = sw.MNL("x2").fit(choices)
    np.testing.assert_allclose(model.coef_, [0, 0, alone.coef_[0]], atol=1e-9)
    np.testing.assert_allclose(model.standard_errors_[2], alone.standard_errors_[0], rtol=1e-6)
    assert np.isnan(model.standard_errors_[:2]).all()
    assert model.dropped_ == {"x0": BOUND, "x1": BOUND}
    said = str(model.summary())
    assert "at its bound" in said
    assert "have no standard error" in said
    assert model.summary().parameters == 1
    model.save(tmp_path / "m.setwise")
    again = sw.load(tmp_path / "m.setwise")
    assert again.monotone == SIGNS
    assert str(again.summary()) == said
    assert sw.MNL(monotone=SIGNS, l2="validation").fit(choices).coef_[:2].tolist() == [0, 0]


def test_every_coefficient_may_be_at_its_bound(choices):
    model = sw.MNL(monotone={**SIGNS, "x2": -1}).fit(choices)
    assert model.coef_.tolist() == [0, 0, 0]
    np.testing.assert_allclose(model.predict_proba(choices), 1 / 3)


# Terms of a utility


@pytest.mark.parametrize(
    ("formula", "signs"),
    [
        ("log1p(p)", {0: -1}),
        ("I(-p)", {0: 1}),
        ("I(10 / 2 - p / 3) + q", {0: 1}),
        ("piecewise(p, 1, 2)", {0: -1, 1: -1, 2: -1}),
        ("min(p, 3) + I(p * (q > 1))", {0: -1, 1: -1}),
        ("I(p ** 3) + exp(p)", {0: -1, 1: -1}),
    ],
)
def test_signs_follow_a_column_through_terms(formula, signs):
    table = {"set": [1, 1, 2, 2], "p": [1.0, 2, 3, 0], "q": [1.0, 0, 2, 5], "chosen": [1, 0, 0, 1]}
    read = sw.read(table, set="set", chosen="chosen").with_utility(formula)
    assert encoded_signs({"p": -1}, sw.Schema.fit(read)) == signs


@pytest.mark.parametrize("formula", ["p:q", "p + I(p * q)", "I(p ** 2)", "I(q / (1 + p))", "abs(p)",
                                     "bs(p, df=3)"])  # fmt: skip
def test_terms_that_go_both_ways_are_refused(formula):
    p = np.arange(20.0)
    table = {"set": p // 2, "p": p, "q": p[::-1] ** 2, "chosen": p % 2}
    read = sw.read(table, set="set", chosen="chosen")
    with pytest.raises(InputError, match="need not go one way where it rises"):
        sw.MNL(formula, monotone={"p": -1}).fit(read)


NODES = st.recursive(
    st.sampled_from([("column", "p"), ("column", "q"), ("number", 2.0), ("number", -1.5)]),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["exp", "abs"]), inner),
        st.tuples(st.sampled_from(["+", "-", "*", "min", "max", "<", ">"]), inner, inner),
        st.tuples(st.just("**"), inner, st.sampled_from([("number", 2.0), ("number", 3.0)])),
    ),
    max_leaves=5,
)


@settings(max_examples=200, deadline=None)
@given(NODES, st.floats(-3, 3), st.floats(-3, 3), st.floats(0.01, 2))
def test_directions_and_signs_hold_for_values(node, p, q, step):
    columns = {"p": Column(np.array([p, p + step])), "q": Column(np.array([q, q]))}
    low, high = Term("t", node).values(columns).tolist()
    towards, sign = direction(node, "p"), sign_of(node)
    rounding = 1e-9 * (1 + abs(low) + abs(high))
    if np.isfinite([low, high]).all():
        assert towards is None or (high - low) * towards >= -rounding
        assert towards != 0 or low == high
        assert sign is None or min(low * sign, high * sign) >= -rounding


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"monotone": {"zz": 1}}, "monotone= names 'zz'; it takes columns of numbers"),
        ({"monotone": {"x0": 0}}, r"monotone\['x0'\]=0 must be 1 or -1"),
        ({"monotone": {}}, "at least 1 name"),
        ({"utility": sw.Utility("x0 + x1", fixed={"x0": 2.0}), "monotone": {"x0": -1}},
         "fixed at 2, which has the sign that monotone= forbids"),
        ({"utility": "x0 + I(x1 - x0)", "monotone": {"x0": -1, "x1": -1}}, "both signs"),
    ],
)  # fmt: skip
def test_constraints_that_make_no_sense_are_refused(choices, arguments, said):
    with pytest.raises(InputError, match=said):
        sw.MNL(**arguments).fit(choices)


# Mixed logits


def test_a_mixed_logit_keeps_signs_for_every_person(choices):
    model = sw.MixedLogit({"x2": "normal"}, draws=20, monotone=SIGNS).fit(choices)
    assert model.coef_[:2].tolist() == [0, 0]
    assert model.dropped_ == {"x0": BOUND, "x1": BOUND}
    alone = sw.MixedLogit({"x2": "normal"}, draws=20, utility="x2").fit(choices)
    assert model.log_likelihood_ == pytest.approx(alone.log_likelihood_, rel=1e-9)
    free = sw.MixedLogit({"x2": "normal"}, draws=20, monotone={"x1": -1}).fit(choices)
    assert free.coef_[1] < 0
    assert free.dropped_ == {}


def test_random_coefficients_with_a_sign_are_log_normal(choices):
    model = sw.MixedLogit(draws=20, monotone={"x1": -1}).fit(choices)
    assert "sd(log -x1)" in model.parameter_names_
    assert (model.prediction_points()[1] < 0).all()
    with pytest.raises(InputError, match='is "normal": some people have the sign'):
        sw.MixedLogit({"x1": "normal"}, draws=20, monotone={"x1": -1}).fit(choices)
    with pytest.raises(InputError, match="in willingness-to-pay space they are products"):
        sw.MixedLogit(wtp_space="x1", draws=20, monotone={"x2": 1}).fit(choices)


# Networks: a penalty


def test_the_penalty_is_the_wrong_slope():
    """By hand, for an MNL: log P(a) = v_a - log sum exp v."""
    model = with_arrays(ZOO["mnl"].skeleton(2), {"F.theta": np.float32([[[2.0]], [[-1.0]]])})
    items = jnp.zeros((4, 3, 2)).at[:, 1, 0].set(1.0)
    present = jnp.array([[True, True, False]] * 4)
    slopes = Slopes(((0, -1), (1, -1)), 3.0)
    places = jnp.arange(4)
    found = np.asarray(wrong_slopes(model, items, present, places, jnp.array(0), slopes))

    def log_p(own, other):
        return own - np.logaddexp(own, other)

    # Columns in turn; then the next item. The weight of the second column has the right sign.
    steps = REACH * (1 - SILVER * np.arange(4) % 1)
    first = log_p(2 * steps[0], 2) - log_p(0, 2)
    second = log_p(2 + 2 * steps[2], 0) - log_p(2, 0)
    np.testing.assert_allclose(found, np.array([first, 0, second, 0]) * 3 / REACH, rtol=1e-4)


def test_a_penalty_holds_a_weight_back(choices):
    """By gradients, with the smallest of models: the signs are the contrary of the data."""
    train, valid, _ = sw.split(choices, seed=0)
    schema, seen = sw.Schema.learn(train)
    task = Task(seen.encoded(), schema.encode(valid))
    options = Options(epochs=40, learning_rate=0.05, batch_size=50, weight_decay=0.0)
    members = [Member(options), Member(options, slopes=Slopes(((0, -1), (1, 1)), 10.0))]
    free, held = (
        fit.model.F.theta.ravel() for fit in fit_population(ZOO["mnl"], Sizes(), [task], members)
    )
    assert free[1] < -0.5
    assert np.abs(held[:2]).max() < 0.05
    assert held[2] > 0.3


def test_members_of_sda_know_the_signs_of_their_columns(choices):
    schema = sw.Schema.fit(choices)
    model = sw.SDA(monotone={"x2": -1, "x0": 1}, monotone_strength=2)
    assert {one.slopes for one in model.members_on(schema)} == {Slopes(((2, -1), (0, 1)), 2.0)}
    assert {one.slopes for one in sw.SDA().members_on(schema)} == {None}


def test_networks_tell_that_a_penalty_is_no_guarantee():
    assert "no\n            guarantee" in sw.SDA.__doc__.replace("**", "")
    assert sw.SDA(monotone={"x0": 1}).get_params()["monotone_strength"] == 3.0


def test_auto_keeps_members_that_guarantee_a_sign(choices):
    train, valid, test = sw.split(choices, seed=0)
    model = sw.Auto(monotone=SIGNS).fit(train, valid)
    assert {one.name.partition(",")[0] for one in model.members_} == {"mnl", "trees"}
    assert "cannot guarantee" in str(model.summary())
    assert [one.numbers["share_beyond_rounding"] for one in
            sw.audit(model, test, SIGNS).of("sign")] == [0, 0]  # fmt: skip
