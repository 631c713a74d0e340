"""Separable regions: by hand, by brute force over sets, and against violation capacity."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

import setwise as sw
from setwise.choices import Schema
from setwise.models import ZOO, Aggregation, Ensemble, Sizes
from setwise.models.evaluations import Identity, difference
from setwise.models.item_functions import Features
from setwise.models.set_functions import Constant, Spread, Vector
from setwise.paper.theory import Regions, separable_regions
from setwise.paper.theory.regions import contributions
from setwise.violations import violation_capacity


def table(sizes, seed=0):
    rng = np.random.default_rng(seed)
    sets = np.repeat(np.arange(len(sizes)), sizes)
    first = np.concatenate([np.arange(size) == 0 for size in sizes])
    columns = {name: rng.normal(size=len(sets)) for name in ("cost", "time", "size")}
    return pl.DataFrame({"trip": sets, **columns, "taken": first.astype(np.int64)})


def read(frame, **roles):
    return sw.read(frame, set="trip", chosen="taken", **roles)


def fitted(model, choices, plain=False):
    """An estimator as if fitted to have this model; ``plain`` leaves numbers as they are."""
    estimator = sw.ChoiceModel("sda")
    schema, _ = Schema.learn(choices)
    if plain:
        numbers = {"mean": (0.0,) * len(schema.mean), "scale": (1.0,) * len(schema.scale)}
        schema = replace(schema, **numbers)
    estimator.schema_ = schema
    estimator.model_ = model
    return estimator


def loud(name, features, seed=0):
    """A model of the zoo with weights large enough to break IIA now and then."""
    model = ZOO[name].build(features, Sizes(dimension=3, components=2), jax.random.key(seed))
    return jax.tree.map(lambda leaf: 3 * leaf, model)


def of_features(w, features):
    zero = Constant(0.0, (features,))
    return Aggregation(F=Features(), w=w, r=zero, mu=Identity(), compare=difference)


# The models again, in NumPy's double precision


def network(function, f):
    first, second, last = (
        (np.asarray(layer.weight, float), np.asarray(layer.bias, float))
        for layer in (function.network.first, function.network.second, function.network.last)
    )
    hidden = np.tanh(np.tanh(f @ first[0] + first[1]) @ second[0] + second[1])
    return hidden.mean(0) @ last[0] + last[1]


def parts_of_scores(name, model, items):
    f = items @ np.asarray(model.F.theta, float)[:, :, 0]
    if name == "sdw":
        return f * network(model.w, f)
    if name == "sde":
        z = f - network(model.r, f)
        return np.where(z < 0, float(model.mu.c), 1) * np.tanh(z) * np.asarray(model.w.value)
    return f * (f.max(0) - f.min(0)) ** float(model.w.rho)  # Tversky


def brute_force(name, model, items):
    """Regions of one set, from the definitions."""
    everything = list(range(len(items)))
    whole = parts_of_scores(name, model, items)
    best = int(whole.sum(1).argmax())
    functions = range(whole.shape[1])
    others = [x for x in everything if x != best]
    agrees = [all(whole[best, i] > whole[x, i] for x in others) for i in functions]
    lead = whole[best] - whole
    alone = [
        i for i in functions
        if others and all(lead[x, i] > np.delete(np.abs(lead[x]), i).sum() for x in others)
    ]  # fmt: skip
    violating = []
    for x in others:
        left = [z for z in everything if z != x]
        if left[int(parts_of_scores(name, model, items[left]).sum(1).argmax())] != best:
            violating.append(x)
    separated = np.array(
        [[all(whole[x, i] < whole[z, i] for z in everything if z != x) for i in functions]
         for x in violating]
    ).reshape(-1, len(functions))  # fmt: skip
    assert len(alone) <= 1
    return (alone[0] if alone else -1, agrees, len(violating), separated.sum(0).tolist(),
            int(separated.any(1).sum()))  # fmt: skip


@pytest.mark.parametrize("name", ["sdw", "sde", "tversky"])
def test_they_are_those_of_the_definitions(name):
    choices = read(table([4, 2, 6, 3, 5, 1, 4] * 20))
    encoded = Schema.learn(choices)[1].encoded()
    model = loud(name, 3)
    found = separable_regions(fitted(model, choices), choices)
    for number, (begin, end) in enumerate(itertools.pairwise(encoded.offsets)):
        wanted = brute_force(name, model, encoded.items[begin:end])
        decided, agrees, violations, separated, separable = wanted
        assert found.decided_by[number] == decided
        assert found.agrees[number].tolist() == agrees
        assert found.violations[number] == violations
        assert found.separated[number].tolist() == separated
        assert found.separable[number] == separable
    assert found.violations.sum() > found.separable.sum() > 0  # else this would show little
    assert found.decided_by.max() > -1


def test_violations_are_those_that_violation_capacity_counts():
    choices = read(table([5, 3, 2, 6] * 5, seed=1))
    estimator = fitted(loud("sda", 3, seed=2), choices)
    found = separable_regions(estimator, choices)
    kappa = violation_capacity(estimator, choices).of_sets
    np.testing.assert_allclose(found.violations / (choices.sizes - 1), kappa)


def test_contributions_add_up_to_scores():
    items = jax.random.normal(jax.random.key(3), (5, 4))
    present = jnp.arange(5) < 4
    for name in ("sda", "nccm"):
        model = ZOO[name].build(4, Sizes(dimension=3, components=2), jax.random.key(1))
        total = contributions(model, items, present).sum(1)
        np.testing.assert_allclose(
            total[:4], model.scores(items, present)[:4], rtol=1e-4, atol=1e-5
        )


def test_a_function_decides_alone_exactly_where_it_outweighs_the_others():
    """5 a + b: feature a decides where it differs by more than a fifth of what b does."""
    rows = {"trip": [0, 0, 1, 1, 2, 2], "a": [1.0, -1.0, 0.1, -0.1, 1.0, -1.0],
            "b": [1.0, -1.0, -1.0, 1.0, -1.0, 1.0], "taken": [1, 0] * 3}  # fmt: skip
    choices = read(pl.DataFrame(rows))
    model = of_features(Vector(jnp.array([5.0, 1.0])), 2)
    found = separable_regions(fitted(model, choices, plain=True), choices)
    assert found.decided_by.tolist() == [0, 1, 0]
    assert found.agrees.tolist() == [[True, True], [False, True], [True, False]]
    assert found.violations.tolist() == [0, 0, 0]


def test_a_decoy_is_separated_by_the_attribute_on_which_it_is_worst():
    """Ranges as weights: 3 a + 5 b gives 18, 17, -4; without the decoy, 3 a + 2 b gives 9, 14.

    With the decoy b decides alone, its lead 10 over the rival against 9 by a. The decoy is the
    lowest on b and not on a.
    """
    rows = {"trip": [0, 0, 0], "a": [1.0, 4.0, 2.0], "b": [3.0, 1.0, -2.0], "taken": [1, 0, 0]}
    choices = read(pl.DataFrame(rows))
    found = separable_regions(fitted(of_features(Spread(), 2), choices, plain=True), choices)
    assert found.decided_by.tolist() == [1]
    assert found.agrees.tolist() == [[False, True]]
    assert found.violations.tolist() == [1]
    assert found.separated.tolist() == [[0, 1]]
    assert found.separable.tolist() == [1]


def test_equal_items_are_one_and_the_same():
    """A twin of the prediction neither contests it nor breaks IIA when it goes."""
    rows = {"trip": [0, 0, 0], "a": [1.0, 1.0, 0.0], "b": [1.0, 1.0, 0.0], "taken": [1, 0, 0]}
    choices = sw.read(pl.DataFrame(rows), set="trip", chosen="taken", on_duplicate="keep")
    model = of_features(Vector(jnp.array([2.0, 1.0])), 2)
    found = separable_regions(fitted(model, choices, plain=True), choices)
    assert found.decided_by.tolist() == [0]
    assert found.agrees.tolist() == [[True, True]]
    assert found.violations.tolist() == [0]


def test_it_reads_well():
    found = Regions(
        decided_by=np.array([1, -1, 1, -1]),
        agrees=np.array([[False, True], [True, True], [False, True], [True, False]]),
        violations=np.array([0, 3, 0, 1]),
        separated=np.array([[0, 0], [1, 2], [0, 0], [0, 0]]),
        separable=np.array([0, 2, 0, 0]),
    )
    assert found.describe().splitlines() == [
        "4 sets, 2 score functions",
        "one decides alone on 50.0% of the sets",
        "50.0% of the sets have a violating subset; of the 4 such subsets, 50.0% are separable",
        "  function   decides alone   agrees   separates",
        "         1           50.0%    75.0%       50.0%",
        "         0            0.0%    50.0%       25.0%",
    ]
    assert len(found.describe(most=1).splitlines()) == 5
    assert repr(found) == (
        "Regions(4 sets; one of 2 score functions decides alone on 50.0%; 4 violating subsets, "
        "50.0% separable)"
    )


def test_what_is_no_single_aggregation_is_refused():
    choices = read(table([3, 3]))
    model = loud("sdw", 3)
    for other in (Ensemble.of([model, model]), loud("deep_sets", 3)):
        with pytest.raises(sw.InputError, match="no separable regions"):
            separable_regions(fitted(other, choices), choices)


def test_scores_that_are_not_numbers_are_refused():
    choices = read(table([3, 3]))
    broken = jax.tree.map(lambda leaf: leaf * jnp.nan, loud("sdw", 3))
    with pytest.raises(sw.InputError, match="'trip'=0 are not numbers"):
        separable_regions(fitted(broken, choices), choices)
