"""Boosted trees as a model: what they see of an item, and equal scores wherever they are scored."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scored
import setwise as sw
from setwise import InputError
from setwise._tensorfile import named_arrays, with_arrays
from setwise._tree_division import divided
from setwise._tree_view import TreeView, tree_columns
from setwise._trees import TYPES, Trees
from setwise.choices import Schema
from setwise.models import ZOO, BoostedTrees, Ensemble, Sizes
from setwise.scoring import load_scorer
from setwise.scoring.graph import checked, run
from setwise.scoring.model_file import Artifact
from setwise.scoring.numpy_program import NumpyProgram
from setwise.scoring.onnx_file import export_onnx
from setwise.scoring.tracing import traced

lightgbm = pytest.importorskip("lightgbm")

WIDTH, OWN, CATEGORIES = 8, 6, ((2, 5),)  # two numbers, a category of 3 levels, a number, context


def drawn(sizes, seed=0):
    """Encoded rows of sets of these sizes, and where the sets begin."""
    rng = np.random.default_rng(seed)
    rows = int(np.sum(sizes))
    items = rng.normal(size=(rows, WIDTH)).astype(np.float32)
    items[:, 1] = rng.integers(0, 4, rows)  # with ties
    items[:, 2:5] = -0.4
    level = rng.integers(0, 4, rows)
    items[np.arange(rows)[level > 0], 1 + level[level > 0]] = 1.6
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    items[:, OWN:] = np.repeat(items[offsets[:-1], OWN:], sizes, 0)
    return items, offsets


def trained(leaves=8, rounds=30, seed=0, **settings):
    """Trees that LightGBM trained, as a booster and as a model."""
    items, offsets = drawn(np.random.default_rng(seed).integers(1, 9, 300), seed)
    x = tree_columns(items, offsets, OWN, CATEGORIES)
    rng = np.random.default_rng(seed)
    y = np.sin(3 * x[:, 0]) + (x[:, 2] == 2) + x[:, 8] * x[:, 4] + rng.normal(size=len(x)) / 4
    data = lightgbm.Dataset(x, y, categorical_feature=[2])
    settings = {"verbosity": -1, "num_leaves": leaves, "min_data_in_leaf": 5, "num_threads": 1,
                "min_data_per_group": 5, "cat_smooth": 1} | settings  # fmt: skip
    booster = lightgbm.train(settings, data, rounds)
    trees = Trees.parsed(booster.model_to_string())
    return booster, BoostedTrees.of(trees, OWN, CATEGORIES)


def padded(items, offsets, width):
    sizes = np.diff(offsets)
    present = np.arange(width) < sizes[:, None]
    out = np.full((len(sizes), width, items.shape[1]), 7.5, np.float32)  # padding is no zero
    out[present] = items
    return out, present


def test_columns_by_hand():
    items = np.array(
        [
            [1.0, -0.5, 2.0, 9.0],
            [3.0, 1.5, -1.0, 9.0],
            [3.0, -0.5, -1.0, 9.0],
            [5.0, 1.5, -1.0, 4.0],
        ],
        np.float32,
    )
    found = tree_columns(items, np.array([0, 3, 4]), 3, ((1, 3),))
    z, sd = np.array([-4 / 3, 2 / 3, 2 / 3]), np.sqrt(8 / 9)
    expected = np.array([
        [1, 2, 9, z[0] / sd, 0, 0, 1, 3, 7 / 3, 3],
        [3, 1, 9, z[1] / sd, 1, 1.5, 1, 3, 7 / 3, 3],
        [3, 0, 9, z[2] / sd, 1, 1.5, 1, 3, 7 / 3, 3],
        [5, 1, 4, 0, 0, 0, 5, 5, 5, 1],
    ])  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    view = TreeView(3, ((1, 3),))
    assert view.categorical(4) == [1]
    assert view.names(["price", "brand=a", "brand=b", "age"]) == [
        "price", "brand", "age", "price z-score", "price position", "price rank", "price min",
        "price max", "price mean", "items"
    ]  # fmt: skip


def test_a_column_that_hardly_varies_is_constant():
    items = np.array([[1.0], [1.0 + 5e-7]], np.float32)
    assert (tree_columns(items, np.array([0, 2]), 1, ())[:, 1:3] == 0).all()


@pytest.mark.parametrize("size", [2, 99, 150])
def test_ranks_of_large_sets_are_those_of_small_ones(size):
    x = np.random.default_rng(0).integers(0, 40, size).astype(np.float32)
    found = tree_columns(x[:, None], np.array([0, size]), 1, ())[:, 3]
    less = (x[None] < x[:, None]).sum(1)
    equal = (x[None] == x[:, None]).sum(1) - 1
    np.testing.assert_array_equal(found, less + equal / 2)


def test_padding_never_changes_a_column():
    items, offsets = drawn([3, 1, 5, 2])
    flat = tree_columns(items, offsets, OWN, CATEGORIES)
    for width in (5, 9):
        whole, present = padded(items, offsets, width)
        found = TreeView(OWN, CATEGORIES).of_sets(whole, present).transpose(2, 1, 0)
        np.testing.assert_array_equal(found[present], flat)


@pytest.mark.parametrize("leaves", [2, 8, 31, 60, 90])
def test_models_score_as_lightgbm_does(leaves):
    booster, model = trained(leaves)
    model.check(WIDTH)
    items, offsets = drawn([4, 2, 7, 1, 5] * 20, seed=1)
    expected = booster.predict(tree_columns(items, offsets, OWN, CATEGORIES))
    whole, present = padded(items, offsets, 9)
    found = np.asarray(jax.jit(jax.vmap(model.scores))(whole, present))
    np.testing.assert_allclose(found[present], expected, rtol=1e-7, atol=5e-7)
    assert leaves == 2 or (np.asarray(model.trees["decision"]) & 1).any()


@st.composite
def forests(draw):
    """Trees of any form with whole numbers as values, so that every sum is exact."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    most = draw(st.sampled_from([1, 3, 8, 16, 20, 40, 64, 70]))
    found = {name: [] for name in TYPES}
    for _ in range(draw(st.integers(1, 40))):
        leaves = int(rng.integers(1, most + 1))
        _add_tree(found, leaves, rng)
    return Trees.of({name: np.array(found[name], kind) for name, kind in TYPES.items()}, 4)


def _add_tree(found, leaves, rng):
    left, right = [], []
    free = []  # (side, split) that lead nowhere yet
    for split in range(leaves - 1):
        if free:
            side, parent = free.pop(int(rng.integers(len(free))))
            side[parent] = split
        left.append(None), right.append(None)
        free += [(left, split), (right, split)]
    for leaf, place in enumerate(rng.permutation(len(free))):
        side, parent = free[place]
        side[parent] = ~leaf
    found["leaves"].append(leaves)
    found["left"] += left
    found["right"] += right
    found["value"] += rng.integers(-99, 99, leaves).tolist()
    for _ in range(leaves - 1):
        column = int(rng.integers(4))
        found["feature"].append(column)
        found["decision"].append(int(column == 3) + 2 * int(rng.integers(2)))
        found["threshold"].append(
            len(found["category_ends"]) if column == 3 else rng.integers(-6, 6) / 2
        )
        if column == 3:
            words = rng.integers(0, 2**32, int(rng.integers(0, 3))).tolist()
            found["categories"] += words
            found["category_ends"].append(len(found["categories"]))


@settings(deadline=None, max_examples=100)
@given(forests(), st.integers(0, 2**32 - 1))
def test_masks_lead_to_the_same_leaves_as_splits(trees, seed):
    rng = np.random.default_rng(seed)
    rows = np.round(rng.normal(size=(60, 4)) * 3) / 2
    rows[:, 3] = rng.integers(-3, 80, 60) + rng.choice([0, 0.5], 60)
    rows[0] = np.inf
    rows[1] = -np.inf
    small = trees.leaves.max() <= 64
    assert trees._groups() is not None or not small  # large ones that are deep are not divided
    for forest, x in ((trees, rows), (trees.single(), rows.astype(np.float32))):
        expected = np.zeros(len(x))
        forest._add(np.ascontiguousarray(x, np.float64), expected)
        np.testing.assert_array_equal(forest.predict(x), expected)


def test_large_trees_are_sums_of_small_ones():
    rng = np.random.default_rng(0)
    found = {name: [] for name in TYPES}
    for leaves in (1, 8, 9, 60):
        _add_tree(found, leaves, rng)
    trees = Trees(**{name: np.array(found[name], kind) for name, kind in TYPES.items()})
    small = divided(trees.arrays(), 16)
    assert small is not None
    assert small["leaves"].max() <= 16 < trees.leaves.max()
    rows = np.round(rng.normal(size=(500, 4)) * 3) / 2
    rows[:, 3] = rng.integers(-3, 80, 500)
    np.testing.assert_array_equal(Trees.of(small, 4).predict(rows), trees.predict(rows))
    deep = np.arange(40)  # each split has a leaf and the next split
    sides = {"left": ~deep, "right": np.append(deep[1:], -41)}
    assert divided(trees.arrays() | sides | {"leaves": np.array([41])}, 16) is None


def test_trees_are_made_of_single_ways():
    forest = trained()[1]
    arrays = {name: np.asarray(array) for name, array in forest.trees.items()}
    arrays["right"] = arrays["right"].copy()
    arrays["right"][0] = arrays["left"][0]
    with pytest.raises(InputError, match="lead to the same place"):
        Trees.of(arrays, 99)


def test_trees_without_a_split_are_a_model():
    booster, model = trained(rounds=3, min_data_in_leaf=10**6)
    items, offsets = drawn([4])
    found = model.scores(jnp.asarray(items), jnp.ones(4, bool))
    expected = booster.predict(tree_columns(items, offsets, OWN, CATEGORIES))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert all(array.size for array in named_arrays(model).values())


def test_thresholds_of_single_precision_decide_alike():
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000).astype(np.float32)
    threshold = np.concatenate([x[:500].astype(np.float64), x[:500] + 1e-12, x[:500] - 1e-12])
    threshold = np.concatenate([threshold, [np.inf, -np.inf]])
    one = np.ones(len(threshold), np.int32)
    many = Trees(
        2 * one, 0 * one, threshold, (0 * one).astype(np.uint8), -one, -2 * one,
        np.zeros(2 * len(one)), np.zeros(0, np.int32), np.zeros(0, np.uint32),
    )  # fmt: skip
    single = many.single().threshold
    assert single.dtype == np.float32
    np.testing.assert_array_equal(x[:, None] <= single, x[:, None] <= threshold)


def test_files_keep_the_arrays():
    _, model = trained()
    arrays = named_arrays(model)
    again = with_arrays(BoostedTrees.skeleton(arrays, OWN, CATEGORIES), arrays)
    again.check(WIDTH)
    assert jax.tree.structure(again) == jax.tree.structure(model)
    for name, array in named_arrays(again).items():
        np.testing.assert_array_equal(array, arrays[name])
    del arrays["trees.value"]
    with pytest.raises(InputError, match="not those of trees"):
        BoostedTrees.skeleton(arrays, OWN, CATEGORIES)


def test_trees_that_do_not_fit_are_refused():
    _, model = trained()
    far = model.trees | {"feature": model.trees["feature"] + 20}
    with pytest.raises(InputError, match="beyond the"):
        BoostedTrees(far, OWN, CATEGORIES).check(WIDTH)
    with pytest.raises(InputError, match="not those of rows"):
        model.check(4)


def test_trees_have_no_derivatives():
    _, model = trained()
    items, present = jnp.zeros((3, WIDTH)), jnp.ones(3, bool)
    assert not model.differentiable
    assert not Ensemble.of(
        [model, ZOO["mnl"].build(WIDTH, Sizes(), jax.random.key(0))]
    ).differentiable
    for slope in (jax.grad, jax.jacfwd):
        with pytest.raises(InputError, match="no derivatives"):
            slope(lambda x: model.scores(x, present).sum())(items)


def test_trees_are_members_of_ensembles():
    first, second = trained()[1], trained(4, 7)[1]
    mnl, sda = (ZOO[name].build(WIDTH, Sizes(), jax.random.key(0)) for name in ("mnl", "sda"))
    models, weight = [mnl, first, sda, mnl, second], np.array([0.1, 0.3, 0.2, 0.15, 0.25])
    items, offsets = drawn([4, 2, 7])
    whole, present = padded(items, offsets, 7)
    mean = sum(
        one * np.asarray(jax.vmap(model.probabilities)(whole, present))
        for one, model in zip(weight, models, strict=True)
    )
    ensemble = Ensemble.of(models, weight)
    found = jax.jit(jax.vmap(ensemble.probabilities))(whole, present)
    np.testing.assert_allclose(found, mean, rtol=0, atol=1e-6)
    arrays = named_arrays(ensemble)
    skeletons = [
        BoostedTrees.skeleton(named_arrays(one), OWN, CATEGORIES)
        if isinstance(one, BoostedTrees)
        else jax.eval_shape(lambda one=one: one)
        for one in models
    ]
    again = with_arrays(Ensemble.skeleton(skeletons, weighed=True), arrays)
    found_again = jax.jit(jax.vmap(again.probabilities))(whole, present)
    np.testing.assert_array_equal(found_again, found)


def test_threads_do_not_wait_for_each_other_for_ever():
    """With ``jax.pure_callback``, as many calls at once as JAX has threads never ended."""
    model = trained()[1]
    items, present = padded(*drawn(np.tile([4, 7], 2000)), 7)
    scores = jax.jit(jax.vmap(model.scores))
    expected = np.asarray(scores(items, present))
    with ThreadPoolExecutor(6) as threads:
        for found in threads.map(lambda _: np.asarray(scores(items, present)), range(12)):
            np.testing.assert_array_equal(found, expected)


# Wherever they are scored


def in_company():
    """Trees of both kinds beside a logit and a network."""
    mnl, sda = (scored.built(name, width=WIDTH) for name in ("mnl", "sda"))
    models = [mnl, trained()[1], sda, trained(40, 7)[1]]
    return Ensemble.of(models, np.array([0.1, 0.3, 0.2, 0.4]))


MODELS = {
    "small": lambda: trained()[1],
    "deep": lambda: trained(90)[1],
    "plain": lambda: BoostedTrees(trained(rounds=1)[1].trees, OWN, CATEGORIES),
    "ensemble": in_company,
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param]()


def test_numpy_scores_as_jax_does(model):
    graph, arrays = traced(model, WIDTH)
    assert sum(one.name == "trees" for one in graph.operations) == (
        2 if isinstance(model, Ensemble) else 1
    )
    program = NumpyProgram.of(checked(graph, arrays, WIDTH), arrays)
    for sizes in ([4, 2, 7, 1], [3, 3], [120, 5], [1]):
        items, present = padded(*drawn(sizes, seed=2), max(sizes) + (len(sizes) > 3))
        wanted = scored.by_jax(model, items, present)
        found = program(items, present)
        np.testing.assert_array_equal(found[~present], -np.inf)
        np.testing.assert_allclose(found[present], wanted[present], rtol=1e-5, atol=2e-6)
        given = arrays | {"items": items, "present": present}
        np.testing.assert_allclose(
            run(graph, given)[present], wanted[present], rtol=1e-5, atol=2e-6
        )


def test_numbers_of_sets_do_not_matter(model):
    program = NumpyProgram.of(*traced(model, WIDTH))
    items, present = padded(*drawn(np.tile([4, 2, 7, 1], 300), seed=3), 7)
    whole = program(items, present)
    for some in (slice(0, 1), slice(3, 30), slice(1000, None)):
        np.testing.assert_allclose(program(items[some], present[some]), whole[some], atol=1e-6)


def as_file(model, path):
    """A model file that holds the graph of these scores of eight numbers."""
    choices = sw.datasets.generate("mnl", sets=50, items=4, features=WIDTH, seed=0).choices
    schema = Schema.fit(choices)
    artifact = Artifact("MNL", {}, schema, {}, named_arrays(model))
    artifact.with_graph(*traced(model, WIDTH)).write(path)
    return schema


def test_onnxruntime_decides_alike(model, tmp_path):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    schema = as_file(model, tmp_path / "a.setwise")
    export_onnx(tmp_path / "a.setwise", tmp_path / "a.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "a.onnx")
    scorer = load_scorer(tmp_path / "a.setwise")
    mean, scale = np.array(schema.mean), np.array(schema.scale)
    for sizes in ([4, 2, 7, 1, 30] * 20, [5], [1]):
        standard, present = padded(*drawn(sizes, seed=4), max(sizes))
        items = standard.astype(np.float64) * scale + mean
        seen = ((items - mean) / scale).astype(np.float32)
        (found,) = session.run(None, {"items": items, "present": present})
        np.testing.assert_allclose(found, scorer.probabilities(seen, present), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("left", lambda a: a * 0, "leads out of its tree, or back"),
        ("feature", lambda a: a + 99, "of a column beyond"),
        ("value", lambda a: a + np.inf, "not finite"),
        ("threshold", lambda a: a * np.nan, "not finite"),
        ("decision", lambda a: a - 9, "of an unknown kind"),
        ("decision", lambda a: a | 12, "of an unknown kind"),
        ("leaves", lambda a: a + 1, "do not have the leaves"),
        ("category_ends", lambda a: a + 1, "contradict each other"),
    ],
)
def test_crafted_trees_are_refused(name, change, message):
    graph, arrays = traced(trained()[1], WIDTH)
    kind = arrays[f"trees.{name}"].dtype
    with np.errstate(all="ignore"):
        arrays[f"trees.{name}"] = change(arrays[f"trees.{name}"]).astype(kind)
    with pytest.raises(InputError, match=message):
        checked(graph, arrays, WIDTH)


@pytest.mark.parametrize(
    "settings",
    [
        (OWN, CATEGORIES), (-1, CATEGORIES, True), (99, CATEGORIES, True), (OWN, "ab", True),
        (OWN, ((2, 5), (4, 6)), True), (OWN, ((2, 99),), True), (OWN, CATEGORIES, 1),
        (OWN, ((5, 2),), True), (True, CATEGORIES, True), (OWN, ((2, 5.0),), True),
    ],
)  # fmt: skip
def test_crafted_settings_are_refused(settings):
    graph, arrays = traced(trained()[1], WIDTH)
    operations = tuple(
        type(one)(one.name, one.inputs, settings) if one.name == "trees" else one
        for one in graph.operations
    )
    with pytest.raises(InputError, match=r"operation .* of the graph"):
        checked(type(graph)(operations), arrays, WIDTH)


def test_trees_that_are_computed_are_refused():
    graph, arrays = traced(trained()[1], WIDTH)
    place = next(n for n, one in enumerate(graph.operations) if one.name == "trees")
    trees = graph.operations[place]
    operation = type(trees)
    doubled = operation("add", (trees.inputs[-1],) * 2)
    changed = operation("trees", (*trees.inputs[:-1], place), trees.settings)
    after = [
        operation(one.name, tuple(n + (n >= place) for n in one.inputs), one.settings)
        for one in graph.operations[place + 1 :]
    ]
    operations = (*graph.operations[:place], doubled, changed, *after)
    with pytest.raises(InputError, match="must be a weight"):
        checked(type(graph)(operations), arrays, WIDTH)
