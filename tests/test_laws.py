"""Laws that every model of the zoo obeys, whatever its weights."""

import functools

import equinox as eqx
import jax
import numpy as np
import pytest

from setwise.models import ZOO, Ensemble, Model, Sizes
from setwise.training.options import OBJECTIVES

FEATURES = 5
MODELS = [(name, "joint") for name in ZOO]
MODELS += [(name, "shared") for name in ZOO if name != "mnl"]  # MNL has no network to wire
ENSEMBLE = "ensemble of mnl"  # its members obey the laws above; here it is about their mean
MODELS += [(ENSEMBLE, "joint")]
every_model = pytest.mark.parametrize(("name", "wiring"), MODELS)


@eqx.filter_jit
def both(model: Model, x: np.ndarray, present: np.ndarray) -> tuple[jax.Array, jax.Array]:
    """Scores and probabilities: tests of either share its programs, one per model and size."""
    return model.scores(x, present), model.probabilities(x, present)


def scores(model: Model, x: np.ndarray, present: np.ndarray) -> np.ndarray:
    return np.asarray(both(model, x, present)[0])


def probabilities(model: Model, x: np.ndarray, present: np.ndarray) -> np.ndarray:
    return np.asarray(both(model, x, present)[1])


@functools.cache
def plain(name: str, wiring: str) -> Model:
    """The shapes of its weights, which are all its arrays: no program is needed to draw them."""
    sizes = Sizes(dimension=6, components=3, hidden=8, wiring=wiring)
    return eqx.filter_eval_shape(ZOO[name].build, FEATURES, sizes, jax.random.key(0))


@functools.cache
def built(name: str, wiring: str, seed: int = 0) -> Model:
    """A model with random weights, biases and mu's kink included."""
    if name == ENSEMBLE:
        return Ensemble.of([built("mnl", wiring, seed + 1000 * i) for i in range(3)])
    rng = np.random.default_rng(seed + 1)

    def drawn(leaf: jax.ShapeDtypeStruct) -> np.ndarray:
        assert leaf.dtype == np.float32
        return rng.normal(size=leaf.shape).astype(np.float32)

    return jax.tree.map(drawn, plain(name, wiring))


def items(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, FEATURES)).astype(np.float32)


def everyone(n: int) -> np.ndarray:
    return np.ones(n, bool)


@every_model
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_permuting_items_permutes_scores(name, wiring, n):
    model, x = built(name, wiring), items(n)
    order = np.random.default_rng(n).permutation(n)
    straight = scores(model, x, everyone(n))
    np.testing.assert_allclose(
        scores(model, x[order], everyone(n)), straight[order], rtol=1e-4, atol=1e-5
    )


@every_model
def test_padding_changes_nothing(name, wiring):
    model, x = built(name, wiring), items(7)
    padded = np.concatenate([x, np.zeros((33, FEATURES), np.float32)])
    present = np.arange(40) < 7
    np.testing.assert_allclose(
        scores(model, padded, present)[:7], scores(model, x, everyone(7)), rtol=1e-4, atol=1e-5
    )


@every_model
@pytest.mark.parametrize("garbage", [1e6, -3.0, np.nan, np.inf])
def test_what_stands_in_absent_places_is_never_read(name, wiring, garbage):
    model, x = built(name, wiring), items(7)
    present = np.arange(7) != 4
    x[4] = 0.0
    clean = probabilities(model, x, present)
    x[4] = garbage
    dirty = probabilities(model, x, present)
    np.testing.assert_array_equal(clean, dirty)
    assert clean[4] == 0


@every_model
@pytest.mark.parametrize("n", [1, 2, 40])
def test_probabilities_are_a_distribution(name, wiring, n):
    p = probabilities(built(name, wiring), items(n), everyone(n))
    assert (p >= 0).all()
    assert p.sum() == pytest.approx(1, abs=1e-5)


in_batches = eqx.filter_jit(lambda model, x, present: jax.vmap(model.scores)(x, present))


@every_model
def test_a_batch_scores_each_set_as_if_alone(name, wiring):
    model = built(name, wiring)
    x = np.stack([items(7, seed) for seed in range(3)])
    together = in_batches(model, x, np.ones((3, 7), bool))
    for i in range(3):
        np.testing.assert_allclose(
            together[i], scores(model, x[i], everyone(7)), rtol=1e-4, atol=1e-5
        )


@every_model
def test_iia_holds_exactly_where_promised_and_breaks_elsewhere(name, wiring):
    """Removing an item leaves the others' score differences as they are, bit for bit, or not."""
    changed, reversed_choices = [], 0
    for seed in range(150):
        model, x = built(name, wiring, seed), items(7, seed)
        before = scores(model, x, everyone(7))[:6]
        after = scores(model, x, np.arange(7) != 6)[:6]
        changed.append(np.abs((before - before[0]) - (after - after[0])).max())
        reversed_choices += int(np.argmax(before) != np.argmax(after))
    if name != ENSEMBLE and ZOO[name].about.satisfies_iia:
        assert max(changed) == 0
        assert reversed_choices == 0
    else:
        assert max(changed) > 1e-2  # a statistic such as the range may not notice every item
        assert reversed_choices > 0


@eqx.filter_jit
def pulled_back(model: Model, x: jax.Array, present: jax.Array, slopes: jax.Array):
    """The loss's gradients from its slopes in the scores: one program serves all objectives."""
    _, pull_back = eqx.filter_vjp(lambda model, x: model.scores(x, present), model, x)
    return pull_back(slopes)


@functools.cache
def loss_and_slopes(objective: str):
    return jax.jit(jax.value_and_grad(OBJECTIVES[objective]))


@every_model
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradients_are_finite_on_extreme_inputs(name, wiring, objective):
    model = built(name, wiring)
    extremes = {
        "huge": 1e4 * items(7),
        "tiny": 1e-12 * items(7),
        "all zero": np.zeros((7, FEATURES), np.float32),
        "all equal": np.ones((7, FEATURES), np.float32),
    }
    for present in (everyone(7), np.arange(7) < 1):
        for what, x in extremes.items():
            found = scores(model, x, present)
            loss, slopes = loss_and_slopes(objective)(found, present, 0)
            gradients = pulled_back(model, x, present, slopes)
            assert np.isfinite(loss), what
            for leaf in jax.tree.leaves(eqx.filter(gradients, eqx.is_array)):
                assert np.isfinite(leaf).all(), what


LEVEL_FREE = {"mnl", "tversky", "orhun", "kaneko_nakamura", "lam", "ccm", "nccm"}
LEVEL_FREE |= {"mixed_mnl", "mnl_within_set"}
"""Built from differences of linear scores alone: what is added to all items cancels."""


@pytest.mark.parametrize(
    "name", [n for n in ZOO if n in LEVEL_FREE or not ZOO[n].about.satisfies_iia]
)
def test_context_alone_cancels_in_differences_and_moves_the_others(name):
    """A feature that is equal for all items is context to all but the models of differences.

    Score differences are compared: with weights this large some probabilities are all 0 or 1.
    (No law for the perceptrons: IIA holds in them, yet a common feature meets the others in a
    nonlinear score.)
    """
    model, x = built(name, "joint", seed=4), items(7, seed=4)
    moved = x.copy()
    moved[:, -1] += 2.0
    before, after = (scores(model, one, everyone(7)) for one in (x, moved))
    shift = float(np.abs((before - before[0]) - (after - after[0])).max())
    assert shift < 1e-4 if name in LEVEL_FREE else shift > 1e-2
