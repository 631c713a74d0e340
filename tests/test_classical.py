"""The classical models of the paper's Claim 1, each formula by hand on a set of three items.

Two score functions, f_1 = x_1 and f_2 = x_2, on the items (0, 3), (1, 1), (3, 0):
max = (3, 3), min = (0, 0), mean = (4/3, 4/3). Numbers are worked out in the comments.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from setwise.models import ZOO, Sizes
from setwise.models.evaluations import KinkedLinear, Logarithm, Power
from setwise.models.model import inverse_softplus

X = jnp.array([[0.0, 3.0], [1.0, 1.0], [3.0, 0.0]])
ALL = jnp.ones(3, bool)
PLAIN = jnp.eye(2)[:, :, None]  # theta for f_i(x) = x_i


def model(name: str, **parts):
    """The zoo's model with two scores, F(x) = x, and these parts replaced."""
    built = ZOO[name].build(2, Sizes(dimension=2), jax.random.key(0))
    if name != "lcl":
        built = eqx.tree_at(lambda m: m.F.theta, built, PLAIN)
    for path, value in parts.items():
        built = eqx.tree_at(lambda m, path=path: _at(m, path), built, value)
    return built


def _at(tree, path):
    for name in path.split("__"):
        tree = getattr(tree, name)
    return tree


def scores(built, x=X, present=ALL):
    return np.asarray(built.scores(x, present))


def test_tversky():
    # w = (3^2, 3^2) with rho = 2: 9 * (x1 + x2) = 27, 18, 27
    tversky = model("tversky", w__raw=inverse_softplus(2.0))
    np.testing.assert_allclose(scores(tversky), [27, 18, 27], rtol=1e-5)


def test_kalai_rubinstein_spiegler():
    # a = (mean f_1, max f_2) = (4/3, 3), tau = 1: softmax = (1, e^(5/3)) / (1 + e^(5/3))
    # e^(5/3) = 5.294490 -> w = (0.158869, 0.841131)
    # 3 * .841131 = 2.523393; 1; 3 * .158869 = 0.476607
    krs = model(
        "krs",
        w__from_mean=jnp.array([1.0, 0.0]),
        w__from_maximum=jnp.array([0.0, 1.0]),
        w__constant=jnp.zeros(2),
        w__raw=inverse_softplus(1.0),
    )
    np.testing.assert_allclose(scores(krs), [2.523393, 1.0, 0.476607], atol=1e-5)


def test_orhun():
    # pi = softmax(x1 log 2) = (1, 2, 8) / 11; r = (2 + 24, 3 + 2) / 11 = (2.363636, 0.454545)
    # omega = (1, 2), lambda = 2:
    # item 1: -2.363636 -> -4.727273; 3 - .454545 = 2.545455 -> * 2: 5.090909;  sum 0.363636
    # item 2: -1.363636 -> -2.727273; .545455 * 2 = 1.090909;                    sum -1.636364
    # item 3: .636364;  -.454545 -> -.909091 * 2 = -1.818182;                    sum -1.181818
    orhun = model(
        "orhun",
        w__value=jnp.array([1.0, 2.0]),
        r__attention=jnp.array([np.log(2.0), 0.0], jnp.float32),
        mu=KinkedLinear(start=2.0),
    )
    np.testing.assert_allclose(scores(orhun), [0.363636, -1.636364, -1.181818], atol=1e-5)


def test_kaneko_nakamura():
    # log(f1 + 1) + log(f2 + 1) with epsilon = 1, min = 0: log 4, 2 log 2, log 4
    nash = model("kaneko_nakamura", mu=Logarithm(start=1.0))
    np.testing.assert_allclose(scores(nash), [np.log(4), np.log(4), np.log(4)], rtol=1e-5)
    # a worse item moves the origin: min = (0, -1), so f2 - min = 4, 2, 1, 0
    wider = jnp.concatenate([X, jnp.array([[1.0, -1.0]])])
    # log 1 + log 5, log 2 + log 3, log 4 + log 2, log 2 + log 1
    expected = np.log([5.0, 6.0, 8.0, 2.0])
    np.testing.assert_allclose(scores(nash, wider, jnp.ones(4, bool)), expected, rtol=1e-5)


def test_lam():
    # r = (1.5, 1.5), lambda = 2: items (-1.5, 1.5) -> -3 + 1.5; (-.5, -.5) -> -1 - 1; as the first
    lam = model("lam", mu=KinkedLinear(start=2.0))
    np.testing.assert_allclose(scores(lam), [-1.5, -2.0, -1.5], rtol=1e-5)


def test_ccm():
    # f^0.5 with min = 0: 0 + sqrt 3, 1 + 1, sqrt 3
    ccm = model("ccm", mu=Power(start=0.5))
    np.testing.assert_allclose(scores(ccm), [np.sqrt(3), 2.0, np.sqrt(3)], rtol=1e-5)


def test_nccm():
    # 3 * (f / 3)^0.5: 3, 2 * 3 * sqrt(1/3) = 3.464102, 3
    nccm = model("nccm", mu=Power(start=0.5))
    np.testing.assert_allclose(scores(nccm), [3.0, 3.464102, 3.0], rtol=1e-5)
    # where max = min the dimension counts nothing: x2 = 1 for all
    flat = jnp.array([[0.0, 1.0], [1.0, 1.0], [3.0, 1.0]])
    np.testing.assert_allclose(scores(nccm, flat), [0.0, np.sqrt(3), 3.0], atol=1e-5)


def test_lcl():
    # theta = (1, 0), A = [[0, 3], [0, 0]], mean = (4/3, 4/3): w = (1 + 4, 0) -> 0, 5, 15
    lcl = model("lcl", w__theta=jnp.array([1.0, 0.0]), w__A=jnp.array([[0.0, 3.0], [0.0, 0.0]]))
    np.testing.assert_allclose(scores(lcl), [0.0, 5.0, 15.0], rtol=1e-5)


def test_lam_with_no_kink_is_mnl():
    """Without loss aversion the reference cancels: the same probabilities as the sum of scores."""
    lam = model("lam", mu=eqx.tree_at(lambda m: m.raw, KinkedLinear(), jnp.array(-100.0)))
    np.testing.assert_allclose(
        lam.probabilities(X, ALL), jax.nn.softmax(jnp.array([3.0, 2.0, 3.0])), rtol=1e-5
    )


@pytest.mark.parametrize("name", ["lam", "ccm"])
def test_the_compromise_effect(name):
    """The middle of three gains on an extreme when the other extreme joins."""
    built = model(name)
    pair = jnp.array([True, True, False])
    a_pair, a_triple = (scores(built, present=p) for p in (pair, ALL))
    assert a_triple[1] - a_triple[0] > a_pair[1] - a_pair[0]


ABLATIONS = {
    # name: (w, r, mu, comparison), rows of the paper's table of ablated models
    "sda_inner": ("JointNetwork", "JointNetwork", "KinkedTanh", "inner"),
    "sda_tanh": ("JointNetwork", "JointNetwork", "Tanh", "inner"),
    "sda_linear": ("JointNetwork", "JointNetwork", "Identity", "inner"),
    "sda_vector": ("Vector", "JointNetwork", "KinkedTanh", "inner"),
    "sde": ("Vector", "JointNetwork", "KinkedTanh", "difference"),
    "sdw": ("JointNetwork", "Constant", "Identity", "difference"),
    "mnl_set": ("JointNetwork", "Constant", "Identity", "difference"),
    "mnl": ("Constant", "Constant", "Identity", "difference"),
}


@pytest.mark.parametrize("name", ABLATIONS)
def test_the_ablations_are_the_papers_compositions(name):
    built = ZOO[name].build(8, Sizes(), jax.random.key(0))
    w, r, mu, compare = ABLATIONS[name]
    assert type(built.w).__name__ == w
    assert type(built.r).__name__ == r
    assert type(built.mu).__name__ == mu
    assert built.compare.__name__ == compare
    assert built.F.theta.shape[1] == (1 if name.startswith("mnl") else 24)
