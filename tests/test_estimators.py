"""Estimators: scikit-learn's conventions, prediction on any table, and the outside option."""

import warnings

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import setwise as sw
from setwise.estimators import CATALOGUE, CLASSES, configured, named
from setwise.estimators.base import trainable
from setwise.training.options import OBJECTIVES

QUICK = sw.Training(epochs=6, batch_size=32, learning_rate=3e-2)


# "nested" needs a column of nests, and has tests of its own; so has LightGBM's ranker.
NAMES = [name for name in CATALOGUE if name not in ("nested", "lambdamart")]


def quick(name: str):
    estimator = named(name)
    small = {
        "training": QUICK, "dimension": 4, "hidden": 8, "classes": 1, "draws": 30, "rounds": 5,
        "threads": 1,
        "time_budget": 2,  # so that there are logits and trees; networks have tests of their own
    }  # fmt: skip
    known = estimator.get_params()
    return estimator.set_params(**{key: small[key] for key in small if key in known})


@pytest.fixture(scope="module")
def made():
    # Sets of several sizes but one bucket: each more is a part of every training program.
    return sw.datasets.generate("mnl", sets=300, items=(5, 6), features=4)


@pytest.fixture(scope="module")
def choices(made):
    return made.choices


@pytest.fixture(scope="module")
def fits(choices):
    """Estimators, and what their ``fit`` returned."""
    estimators = {name: quick(name) for name in NAMES}
    return {name: (one, one.fit(choices)) for name, one in estimators.items()}


@pytest.fixture(scope="module")
def fitted(fits):
    return {name: estimator for name, (estimator, _) in fits.items()}


every_name = pytest.mark.parametrize("name", NAMES)


@every_name
def test_init_only_stores_and_clone_copies_without_what_was_learned(name, fitted):
    copy = clone(fitted[name])
    assert copy.get_params() == fitted[name].get_params()
    assert not hasattr(copy, "model_")
    with pytest.raises(NotFittedError, match="fit"):
        copy.predict_proba(None)


@every_name
def test_fit_returns_self_and_learns_more_than_chance(name, fits, choices):
    estimator, returned = fits[name]
    assert returned is estimator
    chance = (1 / choices.sizes).mean()
    gain = estimator.score(choices) - chance
    assert abs(gain) < 1e-6 if name == "random" else gain > 0.05


@every_name
def test_probabilities_add_up_in_the_tables_order(name, fitted, made):
    order = np.random.default_rng(0).permutation(len(made.columns["set_id"]))
    table = {column: values[order] for column, values in made.columns.items()}
    shuffled = fitted[name].predict_proba(table)
    straight = fitted[name].predict_proba(made.columns)
    np.testing.assert_allclose(shuffled, straight[order], atol=1e-6)
    sums = np.bincount(table["set_id"], shuffled)
    np.testing.assert_allclose(sums, 1, atol=1e-5)


@every_name
def test_prediction_takes_sizes_never_seen_in_training(name, fitted):
    """All in one table: each table of other sizes would have programs of its own."""
    parts = [
        sw.datasets.generate("mnl", sets=3, items=size, features=4, seed=5) for size in (1, 9, 700)
    ]
    table = {
        column: np.concatenate([one.columns[column] for one in parts])
        for column in parts[0].columns
    }
    sizes = np.repeat([1, 9, 700], 3)
    table["set_id"] = np.repeat(np.arange(9), sizes)
    p = fitted[name].predict_proba(table)
    np.testing.assert_allclose(np.bincount(table["set_id"], p), 1, atol=1e-5)


@every_name
def test_a_set_alone_or_in_a_crowd_gets_the_same_probabilities(name, fitted):
    made = sw.datasets.generate("mnl", sets=200, items=(2, 40), features=4, seed=6).choices
    together = fitted[name].predict_proba(made)
    one = made.take(np.array([17]))
    alone = fitted[name].predict_proba(one)
    np.testing.assert_allclose(together[made.offsets[17] : made.offsets[18]], alone, atol=1e-6)


@every_name
def test_predict_marks_one_best_item_a_set(name, fitted, choices):
    marked = fitted[name].predict(choices)
    p = fitted[name].predict_proba(choices)
    for i in range(len(choices)):
        rows = slice(choices.offsets[i], choices.offsets[i + 1])
        assert marked[rows].sum() == 1
        assert p[rows][marked[rows] == 1] == p[rows].max()


@every_name
def test_save_and_load_gives_the_same_predictions(name, fitted, choices, tmp_path):
    path = tmp_path / "model.setwise"
    fitted[name].save(path)
    loaded = sw.load(path)
    assert type(loaded) is type(fitted[name])
    assert loaded.get_params() == fitted[name].get_params()
    assert loaded.schema_ == fitted[name].schema_
    np.testing.assert_array_equal(
        loaded.predict_proba(choices), fitted[name].predict_proba(choices)
    )


def moved_odds(model, made, choices):
    """How far the log odds of the others move where the last item of each set is taken away."""
    last = choices.offsets[1:] - 1
    kept = np.delete(np.arange(choices.offsets[-1]), last)
    fewer = {column: values[kept] for column, values in made.columns.items()}
    starts = np.repeat(choices.offsets[:-1], choices.sizes)[kept]
    whole = np.log(model.predict_proba(choices))
    part = np.zeros(len(whole))
    part[kept] = np.log(model.predict_proba(fewer))
    return np.abs((whole[kept] - whole[starts]) - (part[kept] - part[starts])).max()


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_zoo_says_rightly_whether_iia_holds(name, fitted, made):
    """Take the last item of each set away: the odds of the others stay, or they move."""
    if name == "lambdamart":
        pytest.importorskip("lightgbm")
    of_classes = {"mixed_mnl": sw.MixedMNL, "latent_class": sw.LatentClass}
    mixed = name in of_classes
    if mixed or name in {"nested", "lambdamart"}:
        sets = 1000 if mixed else 300
        made = sw.datasets.generate("mixed" if mixed else "nested", sets=sets, items=5, features=4)
        items = [*made.items, *(["category(nest)"] if name == "nested" else [])]
        choices = sw.read(made.columns, set="set_id", chosen="chosen", items=items)
        model = (of_classes[name](classes=2) if mixed else quick(name)).fit(choices)
    elif name == "sda":  # its ensemble finds that these are choices of a logit, and becomes one
        choices, model = made.choices, quick(name).set_params(ensemble=1).fit(made.choices)
    else:
        choices, model = made.choices, fitted[name]
    moved = moved_odds(model, made, choices)
    assert moved < 1e-4 if CATALOGUE[name].about.satisfies_iia else moved > 1e-3


def test_ranknets_loss_is_burges_cost_of_its_own_scores():
    """- log 1 / (1 + exp(-(s_chosen - s_other))), averaged over the pairs, in plain NumPy."""
    made = sw.datasets.generate("mnl", sets=40, items=4, features=3)
    model = quick("ranknet").fit(made.choices)
    encoded = model.schema_.encode(made.choices)
    hidden = encoded.items.astype(np.float64)
    for layer in model.model_.hidden.layers:
        hidden = np.maximum(hidden @ np.asarray(layer.weight) + np.asarray(layer.bias), 0)
    scores = (hidden @ np.asarray(model.model_.v)).reshape(40, 4)
    costs = []
    for one, chosen in zip(scores, encoded.chosen, strict=True):
        pairs = [np.log1p(np.exp(-(one[chosen] - one[z]))) for z in range(4) if z != chosen]
        costs.append(np.mean(pairs))
    ours = [
        float(OBJECTIVES["pairwise"](jnp.asarray(s, jnp.float32), jnp.ones(4, bool), jnp.array(c)))
        for s, c in zip(scores, encoded.chosen, strict=True)
    ]
    np.testing.assert_allclose(ours, costs, rtol=1e-4)
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(made.choices), p.ravel(), rtol=1e-3)


def test_a_loaded_logit_has_its_statistics(fitted, tmp_path):
    fitted["mnl"].save(tmp_path / "m")
    loaded = sw.load(tmp_path / "m")
    assert str(loaded.summary()) == str(fitted["mnl"].summary())


@pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame])
def test_rank_sorts_within_sets_and_keeps_the_kind_of_frame(frame, fitted):
    made = sw.datasets.generate("mnl", sets=20, items=(2, 6), features=4, seed=5)
    order = np.random.default_rng(0).permutation(len(made.columns["set_id"]))
    table = frame({name: values[order] for name, values in made.columns.items()})
    ranked = fitted["mnl"].rank(table)
    assert type(ranked) is type(table)
    p, rank, sets = (np.asarray(ranked[name]) for name in ("probability", "rank", "set_id"))
    starts = np.flatnonzero(np.diff(sets, prepend=-1))
    assert len(starts) == 20  # sets are whole again
    for begin, end in zip(starts, [*starts[1:], len(sets)], strict=True):
        assert (np.diff(p[begin:end]) <= 0).all()
        assert rank[begin:end].tolist() == list(range(1, end - begin + 1))
    # each row kept its own features: predicting the sorted table gives the same probabilities
    np.testing.assert_allclose(fitted["mnl"].predict_proba(ranked), p, atol=1e-6)


def test_equal_items_share_their_mean_rank(fitted):
    table = pl.DataFrame({"set_id": [1, 1, 1], **{f"x{i}": [0.0, 1.0, 1.0] for i in range(4)}})
    ranks = sorted(fitted["mnl"].rank(table)["rank"].to_list())
    assert ranks in ([1.0, 2.5, 2.5], [1.5, 1.5, 3.0])


def test_rank_takes_choices_too(fitted, choices):
    assert len(fitted["mnl"].rank(choices)) == len(choices.rows)


def test_without_validation_a_fifth_is_held_out_by_group_where_there_is_one():
    made = sw.datasets.generate("mnl", sets=200, items=4, features=4)
    user = made.columns["set_id"] // 20
    roles = {"set": "set_id", "chosen": "chosen", "items": list(made.items)}
    by_user = sw.read(made.columns | {"user": user}, **roles, group="user")
    train, valid = sw.split(by_user, (0.8, 0.2), 0, "group")
    model = quick("sdw").fit(by_user)
    explicit = quick("sdw").fit(train, valid)
    np.testing.assert_array_equal(model.predict_proba(by_user), explicit.predict_proba(by_user))


def test_context_is_used_by_set_dependent_models_only():
    """Which of two items is better depends on a context feature: no IIA model can see it."""
    rng = np.random.default_rng(0)
    x, context = rng.normal(size=(2000, 2)), rng.choice([-1.0, 1.0], 2000)
    p = 1 / (1 + np.exp(-3 * context * (x[:, 0] - x[:, 1])))
    first = rng.uniform(size=2000) < p
    table = {
        "s": np.repeat(np.arange(2000), 2),
        "x": x.ravel(),
        "mood": np.repeat(context, 2),
        "chosen": np.stack([first, ~first], 1).ravel().astype(int),
    }
    choices = sw.read(table, set="s", chosen="chosen", items=["x"], context=["mood"])
    train, valid, test = sw.split(choices)
    training = sw.Training(epochs=30, learning_rate=1e-2)
    assert sw.MNL().fit(train).score(test) < 0.56
    assert sw.SDW(4, training=training).fit(train, valid).score(test) > 0.75
    assert sw.SDA.paper(4, training=training).fit(train, valid).score(test) > 0.75


def test_the_outside_option_is_learned_and_takes_its_share():
    """One set in four buys nothing, whatever is offered."""
    rng = np.random.default_rng(0)
    sets, n = 2000, 3
    x = rng.normal(size=(sets, n))
    utility = np.concatenate([x, np.zeros((sets, 1))], 1)
    p = np.exp(utility) / np.exp(utility).sum(1, keepdims=True)
    taken = (rng.uniform(size=(sets, 1)) > p.cumsum(1)).sum(1)
    table = {
        "s": np.repeat(np.arange(sets), n),
        "x": x.ravel(),
        "buy": (np.arange(n) == taken[:, None]).ravel().astype(int),
    }
    choices = sw.read(table, set="s", chosen="buy", items=["x"], on_none="outside")
    model = sw.MNL().fit(choices)
    assert model.feature_names_ == ["x", "outside option"]
    b, outside = model.coef_
    # x is centred for the outside option: its utility 0 is b * mean(x) below in table units
    assert abs(b - 1) < 4 * model.standard_errors_[0]
    assert abs(outside + b * x.mean()) < 4 * model.standard_errors_[1]
    probability = model.predict_proba(choices).reshape(sets, n)
    np.testing.assert_allclose(1 - probability.sum(1).mean(), (taken == n).mean(), atol=1e-3)
    assert model.evaluate(choices).nll == pytest.approx(-model.log_likelihood_ / sets, abs=1e-5)
    nothing = model.predict(choices).reshape(sets, n).sum(1)
    assert set(nothing.tolist()) == {0, 1}


def test_configured_changes_what_is_asked_and_refuses_what_a_model_has_not():
    model = configured("sda", seed=3, dimension=8, training={"epochs": 7, "dropout": None})
    assert (model.seed, model.dimension, model.training.epochs) == (3, 8, 7)
    with pytest.raises(sw.InputError, match="has no dimension"):
        configured("mnl", seed=0, dimension=4, training={})
    assert configured("sda", 0, None, {"weight_decay": 0.1}, ensemble=3).weight_decays is None
    with pytest.raises(sw.InputError, match="has no ensemble"):
        configured("mnl", 0, None, {}, ensemble=3)


def test_every_estimator_class_can_be_loaded_by_its_name():
    assert {type(named(name)).__name__ for name in CATALOGUE} <= set(CLASSES)


def test_fit_refuses_what_it_cannot_learn_from(choices):
    with pytest.raises(sw.InputError, match=r"fit needs Choices, not dict.*setwise.read"):
        trainable({"x": [1]})
    unknown = sw.read({"s": [1, 1], "x": [1.0, 2.0]}, set="s", items=["x"])
    with pytest.raises(sw.InputError, match="read them with chosen="):
        sw.MNL().fit(unknown)
    with pytest.raises(sw.InputError, match="read them with chosen="):
        sw.MNL().fit(choices).evaluate(
            sw.read({"s": [1, 1]} | {f"x{i}": [1.0, 2.0] for i in range(4)}, set="s")
        )


def test_sizes_and_seeds_that_make_no_model_are_refused(choices):
    with pytest.raises(sw.InputError, match="dimension=0 must be a whole number of at least 1"):
        sw.SDA.paper(dimension=0).fit(choices)
    with pytest.raises(sw.InputError, match="seed=-1 must be a whole number of at least 0"):
        sw.SDA.paper(seed=-1).fit(choices, choices)


@pytest.mark.slow
def test_swissmetro_reaches_the_figures_of_the_issue():
    """10,000 sets, 10 splits 50:25:25: SDA at least 68.3 % and 0.700, MNL 65.3 % and 0.810."""
    sample = sw.datasets.load("swissmetro").sample(10_000, seed=0)
    result = sw.compare(["mnl", "sda", "sda_difference"], sample, splits=10)
    rows = {row.model: row.mean for row in result.leaderboard()}
    assert rows["mnl"]["top1"] == pytest.approx(0.653, abs=0.01)
    assert rows["mnl"]["nll"] == pytest.approx(0.810, abs=0.01)
    for name in ("sda", "sda_difference"):
        assert rows[name]["top1"] >= 0.683
        assert rows[name]["nll"] <= 0.700


# A leaked answer


def leaked(sets=150):
    """The answer on every row, beside the alternatives."""
    rng = np.random.default_rng(0)
    modes, choice = np.array(["bus", "car", "rail"]), rng.integers(3, size=sets)
    return pl.DataFrame(
        {
            "trip": np.repeat(np.arange(sets), 3),
            "alt": np.tile(modes, sets),
            "price": rng.uniform(1, 9, 3 * sets),
            "choice": np.repeat(modes[choice], 3),
            "taken": np.eye(3, dtype=int)[choice].ravel(),
        }
    )


@pytest.fixture(scope="module", params=[[], ["choice"]], ids=["items", "context"])
def giving_away(request):
    """The answer among the columns of items, or in the context."""
    items = ["alt", "price"] if request.param else None
    return sw.read(leaked(), set="trip", chosen="taken", items=items, context=request.param)


@every_name
def test_every_estimator_tells_of_a_leaked_answer(name, giving_away):
    """Before it learns: here the warning ends the fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", ".*column 'choice' gives the choice away")
        with pytest.raises(sw.DataWarning, match="leave 'choice' out of items and context"):
            quick(name).fit(giving_away)


@pytest.mark.parametrize(
    "name", ["mnl", "lcl", "mixed_mnl", "sda", "set_transformer", "boosted_logit"]
)
def test_a_leaked_answer_does_not_end_a_fit(name, giving_away):
    small = quick(name)
    if "training" in small.get_params():
        small.set_params(training=sw.Training(epochs=1), ensemble=1)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        small.fit(giving_away)
    told = [str(one.message) for one in raised if one.category is sw.DataWarning]
    assert any("column 'choice' gives the choice away" in one for one in told)
    assert any("leave 'choice' out of items and context" in one for one in told)
    assert np.isfinite(small.predict_proba(giving_away)).all()


PERFECT = [sw.MNL(), sw.SingleFeature("price"), sw.SDW(2, hidden=4, ensemble=1)]


@pytest.mark.parametrize("estimator", PERFECT, ids=lambda one: type(one).__name__)
def test_a_model_without_error_is_told(estimator):
    """The cheapest is always taken: no column is an answer, and yet no one errs."""
    table = leaked(600)
    cheapest = pl.col("price") == pl.col("price").min().over("trip")
    clear = pl.when(cheapest).then(pl.col("price") - 10).otherwise("price")
    table = table.with_columns(taken=cheapest.cast(pl.Int64), price=clear)
    choices = sw.read(table, set="trip", chosen="taken", items=["price", "alt"])
    if "training" in estimator.get_params():
        estimator.set_params(training=sw.Training(epochs=20, learning_rate=0.03))
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        estimator.fit(choices)
    told = [str(one.message) for one in raised if one.category is sw.DataWarning]
    assert any("choices without error; look for a column" in one for one in told)


def test_sound_data_raise_no_warning():
    """Nothing is caught here, and warnings are errors."""
    for name in ("swissmetro", "modecanada"):
        choices = sw.datasets.load(name).sample(400)
        trainable(choices)
        sw.MNL().fit(choices)
        sw.SingleFeature().fit(choices)
