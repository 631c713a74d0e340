"""SDA as it comes: items seen among the others, beside a logit, as a weighed ensemble."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone

import setwise as sw
from setwise.models import ZOO, Ensemble, Sizes
from setwise.models.within_set import among_others, within_set
from setwise.theory.regions import contributions

pytestmark = pytest.mark.usefixtures("quick_to_compile")

QUICK = sw.Training(epochs=4, batch_size=32, learning_rate=3e-2)
SMALL = sw.SDA(2, hidden=4, training=QUICK, ensemble=3)


@pytest.fixture(scope="module")
def parts():
    choices = sw.datasets.generate("mnl", sets=200, items=(2, 5), features=3).choices
    return sw.split(choices, (0.6, 0.2, 0.2))


@pytest.fixture(scope="module")
def fitted(parts):
    return clone(SMALL).fit(*parts[:2])


def built(features=3):
    return ZOO["sda"].build(features, Sizes(dimension=4, hidden=5), jax.random.key(0))


# The equation


def test_the_score_is_the_aggregation_beside_a_logit_by_hand():
    model, present = built(), jnp.array([True, True, False, True])
    items = jax.random.normal(jax.random.key(1), (4, 3))
    b = jnp.arange(9.0) / 9
    model = eqx.tree_at(lambda one: one.b, model, b)
    x = jnp.concatenate([items, within_set(items, present)], 1)
    f = x @ model.F.theta[:, :, 0]
    w, r = (part(model.F(x), present, None) for part in (model.w, model.r))
    felt = jnp.tanh(f - r)
    felt = jnp.where(f < r, model.mu.c * felt, felt)
    expected = (felt * w).sum(1) + x @ b
    found = model.scores(items, present)
    np.testing.assert_allclose(found[present], expected[present], rtol=1e-5)
    parts = contributions(model, items, present)
    np.testing.assert_allclose(parts.sum(1)[present], found[present], rtol=1e-5)
    assert parts.shape == (4, 5)  # four score functions, and the logit


def test_items_are_seen_with_their_place_in_the_set():
    items = jnp.array([[1.0], [2.0], [3.0]])
    seen = among_others(items, jnp.ones(3, bool))
    np.testing.assert_allclose(seen[:, 2], [0, 0.5, 1], atol=1e-6)  # position in the range
    assert seen.shape == (3, 3)


def test_context_has_to_be_learned():
    """At the start w and r are nearly the same for every set."""
    model = built()
    sets = jax.random.normal(jax.random.key(2), (50, 4, 3))

    def parts(items):
        f = model.F(among_others(items, jnp.ones(4, bool)))
        return model.w(f, jnp.ones(4, bool)), model.r(f, jnp.ones(4, bool))

    w, r = jax.vmap(parts)(sets)
    plain = ZOO["sda_difference"].build(3, Sizes(dimension=4, hidden=5), jax.random.key(0))
    loud = jax.vmap(lambda x: plain.w(plain.F(x), jnp.ones(4, bool)))(sets)
    assert w.std(0).max() < 0.3 * loud.std(0).max()
    assert jnp.abs(r).max() < 0.3
    assert jnp.abs(w.mean(0)).max() > 0.1


# The ensemble


def test_members_take_the_weight_decays_in_turn():
    decays = [one.weight_decay for one in sw.SDA(ensemble=5).options_of_members()]
    assert decays == [0.01, 0.3, 1.0, 0.01, 0.3]
    assert sw.SDA(ensemble=1).options_of_members() == [sw.SDA().training]
    same = sw.SDA(ensemble=2, weight_decays=None).options_of_members()
    assert len(set(same)) == 1


def test_probabilities_are_the_weighed_mean_of_the_members(fitted, parts):
    model = fitted.model_
    assert isinstance(model, Ensemble)
    assert float(model.weight.sum()) == pytest.approx(1)
    count = len(model.weight)
    members = [jax.tree.map(lambda leaf, at=at: leaf[at], model.members) for at in range(count)]
    items, present = jnp.ones((2, 3)) * jnp.array([[1.0], [-1.0]]), jnp.ones(2, bool)
    each = np.array([one.probabilities(items, present) for one in members])
    np.testing.assert_allclose(
        model.probabilities(items, present), np.asarray(model.weight) @ each, rtol=1e-5
    )


def test_the_weights_are_what_validation_gives(fitted, parts):
    """The ensemble is on the validation part at least as good as its best member."""
    best = min(history[best]["nll"] for history, best in
               zip(fitted.history_, fitted.best_epoch_, strict=True))  # fmt: skip
    assert fitted.evaluate(parts[1]).nll <= best + 0.02


def test_members_that_train_alike_count_alike(parts):
    same = clone(SMALL).set_params(weight_decays=None).fit(*parts[:2])
    assert same.model_.weight is None


def test_it_is_saved_and_loaded_as_one_model(fitted, parts, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = sw.load(tmp_path / "model")
    assert loaded.get_params() == fitted.get_params()
    np.testing.assert_array_equal(loaded.predict_proba(parts[2]), fitted.predict_proba(parts[2]))


# The arguments


def test_a_weight_decay_that_is_asked_for_holds_for_all_members():
    changed = sw.SDA().set_training(weight_decay=0.5, epochs=3)
    assert {one.weight_decay for one in changed.options_of_members()} == {0.5}
    assert sw.SDA().set_training(epochs=3).weight_decays == (0.01, 0.3, 1.0)


def test_impossible_arguments_are_refused(parts):
    with pytest.raises(sw.InputError, match="within_set=True compares by differences"):
        sw.SDA(comparison="inner").fit(parts[0])
    with pytest.raises(sw.InputError, match="weight_decays is empty"):
        sw.SDA(weight_decays=()).fit(parts[0])


def test_the_papers_model_has_nothing_of_this():
    paper = sw.SDA.paper()
    assert paper.blueprint is ZOO["sda_inner"]
    assert (paper.ensemble, paper.dimension, paper.components) == (1, 24, 16)
    assert paper.blueprint.skeleton(3, paper.sizes()).b is None
    assert sw.SDA.paper(8, comparison="difference").blueprint is ZOO["sda_difference"]
