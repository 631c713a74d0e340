"""SDA as it comes: items seen among the others, in pieces, beside a logit, as an ensemble."""

import itertools
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone

import setwise as sw
from setwise.choices import Schema
from setwise.estimators import fit_together, named
from setwise.models import ZOO, Ensemble, Sizes
from setwise.models.model import Dropout
from setwise.models.set_functions import values
from setwise.models.within_set import (
    COARSE,
    FINE,
    REACH,
    SplitColumns,
    among_others,
    fine_splines,
    splines,
    within_set,
)
from setwise.paper.theory.regions import contributions
from setwise.training import Options, Task
from setwise.training.population_plan import Population

QUICK = sw.Training(epochs=4, batch_size=32, learning_rate=3e-2)
SMALL = sw.SDA(2, hidden=4, training=QUICK, weight_decays=(0.01, 1.0), ensemble=3)


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
    b = jnp.arange(9.0 + 9 * COARSE.knots) / 9
    model = eqx.tree_at(lambda one: one.b, model, b)
    z, position = jnp.split(within_set(items, present), 2, axis=1)
    pieces = [COARSE.of(one) for one in (items, z, REACH * (2 * position - 1))]
    x = jnp.concatenate([items, z, position, *pieces], 1)
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


@pytest.mark.parametrize("hats", [COARSE, FINE])
def test_sums_of_hats_are_linear_between_knots(hats):
    knots = np.linspace(-REACH, REACH, hats.knots)
    x = np.linspace(-2 * REACH, 2 * REACH, 201)
    values = np.random.default_rng(0).normal(size=hats.knots)
    found = hats.of(jnp.asarray(x, jnp.float32)[:, None]) @ jnp.asarray(values, jnp.float32)
    np.testing.assert_allclose(
        found, hats.height * np.interp(x, knots, values), atol=1e-5 * hats.height
    )


@pytest.mark.parametrize(("seen", "hats"), [(splines, COARSE), (fine_splines, FINE)])
def test_hats_are_of_one_feature_each_and_positions_reach_over_all_knots(seen, hats):
    items, present = jnp.array([[0.0, 1.0], [0.3, 1.0], [1.0, 1.0]]), jnp.ones(3, bool)
    pieces = seen(items, present).right.reshape(3, 6, hats.knots)
    np.testing.assert_allclose(pieces.sum(2), hats.height, atol=1e-6)
    last = hats.knots - 1
    assert pieces[:, 4].argmax(1).tolist() == [0, round(0.3 * last), last]


@pytest.mark.parametrize("columns", [(), (4,)])
def test_a_product_of_columns_beside_others_is_that_of_all(columns):
    rng = np.random.default_rng(0)
    left, right, matrix = (
        jnp.asarray(rng.normal(size=shape), jnp.float32)
        for shape in ((3, 2), (3, 5), (7, *columns))
    )
    x = SplitColumns(left, right)
    whole = np.concatenate([left, right], 1)
    assert x.shape == whole.shape
    np.testing.assert_allclose(x @ matrix, whole @ np.asarray(matrix), rtol=1e-5, atol=1e-6)


def test_a_hidden_layer_of_F_by_hand():
    model = ZOO["sda_fine"].build(2, Sizes(dimension=3, hidden=5), jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (4, model.b.shape[0]))
    hidden = np.maximum(np.asarray(x) @ np.asarray(model.F.A) + np.asarray(model.F.a), 0)
    expected = hidden @ np.asarray(model.F.theta[:, :, 0])
    np.testing.assert_allclose(model.F(x).values[:, :, 0], expected, rtol=1e-4, atol=1e-5)
    noise = Dropout(jax.random.key(2), 0.5)
    dropped = np.asarray(model.F(x, noise).hidden)
    assert 0.3 < (dropped[hidden > 0] == 0).mean() < 0.7
    np.testing.assert_allclose(dropped[dropped > 0], 2 * hidden[dropped > 0], rtol=1e-4)


def test_what_learns_without_a_hidden_layer_has_the_noise_it_had():
    """F has a third source of noise; those of w and r are as they were without it."""
    noise = Dropout(jax.random.key(3), 0.5)
    keys = [[jax.random.key_data(one.key).tolist() for one in some]
            for some in (noise.split(), noise.three())]  # fmt: skip
    assert keys[0] == keys[1][:2]
    assert keys[1][2] not in keys[0]


@pytest.mark.parametrize("noise", [None, Dropout(jax.random.key(1), 0.5)])
def test_networks_beside_each_other_have_the_values_that_they_have_alone(noise):
    model = built()
    f = model.F(model.view(jnp.arange(12.0).reshape(4, 3) / 6, jnp.ones(4, bool)))
    present = jnp.array([True, True, True, False])
    together = values((model.w, model.r), f, present, (noise, noise))
    alone = model.w(f, present, noise), model.r(f, present, noise)
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_context_has_to_be_learned():
    """At the start w and r are nearly the same for every set."""
    model = built()
    sets = jax.random.normal(jax.random.key(2), (50, 4, 3))

    def parts(items):
        f = model.F(model.view(items, jnp.ones(4, bool)))
        return model.w(f, jnp.ones(4, bool)), model.r(f, jnp.ones(4, bool))

    w, r = jax.vmap(parts)(sets)
    plain = ZOO["sda_difference"].build(3, Sizes(dimension=4, hidden=5), jax.random.key(0))
    loud = jax.vmap(lambda x: plain.w(plain.F(x), jnp.ones(4, bool)))(sets)
    assert w.std(0).max() < 0.3 * loud.std(0).max()
    assert jnp.abs(r).max() < 0.3
    assert jnp.abs(w.mean(0)).max() > 0.1


# The ensemble


def test_members_take_the_weight_decays_and_the_kinds_in_turn():
    members = sw.SDA(ensemble=7, seed=5).members(task=2)
    decays = [one.options.weight_decay for one in members]
    assert decays == [0.3, 3.0, 0.3, 1.0, 0.3, 1.0, 0.3]  # each kind has its own
    assert [one.seed for one in members] == 2 * [5] + 2 * [6] + 2 * [7] + [8]
    kinds = [one.blueprint for one in members]
    assert kinds == 2 * [None] + 2 * [ZOO["sda_straight"]] + 2 * [ZOO["sda_fine"]] + [None]
    assert {one.task for one in members} == {2}
    assert [one.options for one in sw.SDA(ensemble=1).members()] == [sw.SDA().training_options]
    same = sw.SDA(ensemble=2, weight_decays=None).members()
    assert [(one.options, one.seed) for one in same] == [
        (sw.SDA().training_options, k) for k in (0, 1)
    ]
    assert {one.blueprint for one in sw.SDA.paper(ensemble=3).members()} == {None}


def test_members_in_fine_pieces_train_in_their_own_way():
    options = sw.Training(epochs=7, learning_rate=0.1, patience=50)
    coarse, _, fine = sw.SDA(training=options, weight_decays=(1.0,), ensemble=3).members()
    assert coarse.options == Options(**options.given(), weight_decay=1.0, least_steps=8)
    own = {"dropout": 0.4, "decay": 0.9, "decay_every": 1}
    assert fine.options == replace(coarse.options, **own, patience=6)
    assert {one.options.epochs for one in sw.SDA().members()[4:]} == {40}
    impatient = sw.SDA(training=replace(options, patience=2)).members()
    assert {one.options.patience for one in impatient} == {2}


def test_probabilities_are_the_weighed_mean_of_the_members(fitted, parts):
    model = fitted.model_
    assert isinstance(model, Ensemble)
    assert float(model.weight.sum()) == pytest.approx(1)
    members = [
        jax.tree.map(lambda leaf, at=at: jax.device_put(np.asarray(leaf)[at]), kind)
        for kind in model.members
        for at in range(len(jax.tree.leaves(kind)[0]))
    ]
    items, present = np.ones((2, 3), np.float32) * np.float32([[1], [-1]]), np.ones(2, bool)
    probabilities = eqx.filter_jit(lambda one, *given: one.probabilities(*given))
    each = np.array([probabilities(one, items, present) for one in members])
    np.testing.assert_allclose(
        probabilities(model, items, present), np.asarray(model.weight) @ each, rtol=1e-5
    )


def test_the_weights_are_what_validation_gives(fitted, parts):
    """The ensemble is on the validation part at least as good as its best member."""
    best = min(history[best]["nll"] for history, best in
               zip(fitted.history_, fitted.best_epoch_, strict=True))  # fmt: skip
    assert fitted.evaluate(parts[1]).nll <= best + 0.02


def test_a_fit_compiles_no_program_that_only_moves_an_array(parts, caplog):
    """jnp.asarray and jnp.stack would compile one for each new shape: 45 in a first fit."""
    with jax.log_compiles():
        sw.SDA(2, hidden=3, training=replace(QUICK, epochs=1), ensemble=2).fit(*parts[:2])
    said = [one.getMessage() for one in caplog.records]
    compiled = {one.split("jit(")[1].split(")")[0] for one in said if "XLA compilation" in one}
    assert "train" in compiled
    expected = {"initial", "start", "copied", "noise_keys", "train", "validate", "keep_best"}
    assert compiled <= expected


def test_members_that_train_alike_count_alike(parts):
    same = clone(SMALL).set_params(weight_decays=None, within_set=False).fit(*parts[:2])
    assert same.model_.weight is None
    np.testing.assert_allclose(same.weights_, 1 / SMALL.ensemble)


def test_it_is_saved_and_loaded_as_one_model(fitted, parts, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = sw.load(tmp_path / "model")
    assert loaded.get_params() == fitted.get_params()
    np.testing.assert_array_equal(loaded.predict_proba(parts[2]), fitted.predict_proba(parts[2]))


# Few sets


def few_of_a_logit(seed):
    """Sets of an MNL: 100 to learn from, 50 to validate on, and others."""
    drawn = sw.datasets.generate("mnl", sets=3150, items=5, features=4, seed=seed).choices
    parts = ((0, 100), (100, 150), (150, 3150))
    return [drawn.take(np.arange(*part)) for part in parts]


@pytest.fixture(scope="module")
def of_few():
    """Small ensembles of 100 sets, and their parts."""
    parts = [few_of_a_logit(seed) for seed in range(3)]
    training = sw.Training(epochs=12)
    model = sw.SDA(2, hidden=4, kinds=("straight",), ensemble=2, training=training)
    return list(
        zip(fit_together(model, [tuple(one[:2]) for one in parts], range(3)), parts, strict=True)
    )


def test_with_few_sets_of_a_logit_it_is_as_good_as_the_logit(of_few):
    """Without the logit beside, 100 sets lost 0.04 nats, and 1.16 against 0.68 on one split."""
    behind = [
        model.evaluate(test).nll - sw.MNL(l2=1.0).fit(train).evaluate(test).nll
        for model, (train, _, test) in of_few
    ]
    assert np.mean(behind) < 0.01
    for model, _ in of_few:
        assert model.logit_weight_ >= 10 / 60
        assert model.logit_weight_ + sum(model.weights_) == pytest.approx(1)


def test_an_epoch_of_few_sets_has_several_steps(of_few):
    """Else a patience of 25 epochs is one of 25 steps: members stopped before they learned."""
    _, (train, valid, _) = of_few[0]
    schema = Schema.fit(train)
    task = Task(schema.encode(train), schema.encode(valid))

    def sets_per_step(model):
        members = model.members()
        return Population(model.blueprint, model.sizes(), [task], members).batch_size(members[0])

    assert sets_per_step(sw.SDA()) == 8
    assert sets_per_step(sw.SDA(training=sw.Training(batch_size=50))) == 50
    assert sets_per_step(sw.SDA.paper()) == sets_per_step(sw.SDE()) == 100
    assert {one.options.sets_per_step(1000) for one in sw.SDA().members()} == {128}


def test_the_logit_beside_is_kept_in_the_file_and_in_scorers(of_few, tmp_path):
    model, (_, _, test) = of_few[0]
    model.save(tmp_path / "few.setwise")
    loaded, expected = sw.load(tmp_path / "few.setwise"), model.predict_proba(test)
    assert loaded.logit_weight_ == model.logit_weight_
    np.testing.assert_array_equal(loaded.predict_proba(test), expected)
    scorer = sw.scoring.load_scorer(tmp_path / "few.setwise")
    np.testing.assert_allclose(scorer.predict_proba(test), expected, atol=1e-6)


@pytest.mark.parametrize("weight", [-0.1, 2, "much"])
def test_a_file_with_a_nonsensical_weight_of_the_logit_is_refused(of_few, tmp_path, weight):
    artifact = of_few[0][0].artifact()
    fitted = artifact.fitted | {"logit_weight": weight}
    replace(artifact, fitted=fitted).write(tmp_path / "bad.setwise")
    with pytest.raises(sw.InputError, match="logit_weight"):
        sw.load(tmp_path / "bad.setwise")


def test_a_sure_gain_over_the_logit_leaves_members_as_they_are():
    """With 500 sets to validate on and more, data that are no logit's are weighed as before."""
    drawn = sw.datasets.generate("sharp", sets=2000, seed=1).choices
    train, valid = sw.split(drawn, (0.5, 0.5), seed=0)
    training = sw.Training(epochs=12, learning_rate=1e-2)
    model = sw.SDA(4, hidden=4, kinds=("pieces",), ensemble=2, training=training).fit(train, valid)
    assert model.logit_weight_ == 0
    assert sum(model.weights_) == pytest.approx(1)
    assert len(model.model_.weight) == sum(weight > 0 for weight in model.weights_)


@pytest.mark.slow
@pytest.mark.parametrize("sets", [100, 300, 1000])
def test_the_whole_sda_is_as_good_as_the_logit_of_logit_data(sets, compiled_well):
    drawn = [
        sw.datasets.generate("mnl", sets=sets + sets // 2 + 4000, items=5, features=4, seed=seed)
        for seed in range(5)
    ]
    ends = (0, sets, sets + sets // 2, sets + sets // 2 + 4000)
    parts = [
        [one.choices.take(np.arange(*pair)) for pair in itertools.pairwise(ends)] for one in drawn
    ]
    fits = fit_together(sw.SDA(), [tuple(one[:2]) for one in parts], range(5))
    behind = [
        model.evaluate(test).nll - sw.MNL().fit(train).evaluate(test).nll
        for model, (train, _, test) in zip(fits, parts, strict=True)
    ]
    assert np.mean(behind) < 0.01


# The arguments


def test_a_weight_decay_that_is_asked_for_holds_for_all_members():
    changed = sw.SDA().set_training(weight_decay=0.5, epochs=3)
    assert {one.options.weight_decay for one in changed.members()} == {0.5}
    assert sw.SDA().set_training(epochs=3).weight_decays == "auto"
    given = sw.SDA(training=sw.Training(weight_decay=0.5)).members()
    assert {one.options.weight_decay for one in given} == {0.5}


def test_a_single_model_has_the_weight_decay_that_is_given():
    def decays(**arguments):
        return [one.options.weight_decay for one in sw.SDA(ensemble=1, **arguments).members()]

    assert decays() == decays(weight_decays=None) == [0.01]
    assert decays(weight_decays=(9.0,)) == decays(weight_decays=[9.0, 1.0]) == [9]
    assert decays(training=sw.Training(weight_decay=0.5)) == [0.5]


def test_options_that_training_leaves_out_are_the_models():
    few = sw.Training(epochs=20)
    assert sw.SDA(training=few).training_options == Options(
        epochs=20, learning_rate=3e-3, least_steps=8
    )
    assert sw.SDW(training=few).training_options == Options(epochs=20)
    assert sw.SDA.paper(training=few).training_options == Options(epochs=20, dropout=0.1)
    assert sw.SDA.paper().set_training(epochs=20).training_options.dropout == 0.1
    ranknet = sw.ChoiceModel("ranknet", training=few).training_options
    assert ranknet == Options(epochs=20, objective="pairwise", stop_on="accuracy")
    assert named("ranknet", "paper").training_options.objective == "pairwise"
    paper = named("sda", "paper").training_options
    assert (paper.dropout, paper.stop_on, paper.decoupled_weight_decay) == (0.1, "accuracy", False)
    members = sw.SDA(training=few).members()
    assert {one.options.learning_rate for one in members} == {3e-3}


def test_impossible_arguments_are_refused(parts):
    with pytest.raises(sw.InputError, match="within_set=True compares by differences"):
        sw.SDA(comparison="inner").fit(parts[0])


def test_the_papers_model_has_nothing_of_this():
    paper = sw.SDA.paper()
    assert paper.blueprint is ZOO["sda_inner"]
    assert (paper.ensemble, paper.dimension, paper.components) == (1, 24, 16)
    assert paper.blueprint.skeleton(3, paper.sizes()).b is None
    assert sw.SDA.paper(8, comparison="difference").blueprint is ZOO["sda_difference"]


def test_members_are_chosen_by_the_names_of_their_kinds():
    named = sw.SDA(kinds=("pieces", "straight"), ensemble=4)
    assert named.members() == sw.SDA().members()[:4]
    kinds = [name.split(",")[0] for name in named.member_names()]
    assert kinds == 2 * ["pieces"] + 2 * ["straight"]
    given = sw.SDA(weight_decays=(9.0, 8.0, 7.0), ensemble=6).members()
    assert [one.options.weight_decay for one in given] == 2 * [9.0, 8.0, 7.0]
    assert [one.blueprint for one in sw.SDA(kinds=("fine",), ensemble=2).members()] == 2 * [
        ZOO["sda_fine"]
    ]
    with pytest.raises(sw.InputError, match=r"kinds\[0\]='coarse' must be one of: pieces"):
        sw.SDA(kinds=("coarse",)).check_arguments()
