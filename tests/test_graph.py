"""Graphs: traced from models, simplified without change of meaning, and refused where unknown."""

import json
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scored
from setwise import InputError
from setwise.models import ZOO, Model, Sizes
from setwise.scoring import tracing
from setwise.scoring.graph import Builder, Graph, Operation, run
from setwise.scoring.numpy_program import Steps, overwritten
from setwise.scoring.operations import OPERATIONS, Spec, broadcast_shape, dot, spec_of
from setwise.scoring.products import product_of, sets_last
from setwise.scoring.shared_products import in_pieces, joined
from setwise.scoring.simplify import Folded, complete, folded
from setwise.scoring.tracing import traced

FLOAT = "float32"


def small() -> Builder:
    return Builder()


def items(build: Builder, *shape: Any) -> int:
    return build.given("input", "items", Spec(shape or ("sets", "items", 2), FLOAT))


# Tracing


def test_a_graph_computes_by_hand_arithmetic():
    model = scored.built("mnl", width=2)
    graph, arrays = traced(model, 2)
    theta = arrays["F.theta"].ravel()
    x = np.array([[[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]], np.float32)
    present = np.array([[True, True, False]])
    with np.errstate(all="ignore"):
        logs = run(graph, arrays | {"items": x, "present": present})
    wanted = theta - np.log(np.exp(theta).sum())
    np.testing.assert_allclose(logs[0, :2], wanted, rtol=1e-6)
    assert logs[0, 2] == -np.inf


def test_tracing_is_deterministic_and_json_keeps_everything():
    model = scored.variants("sda")["weighed"]
    graph, arrays = traced(model, scored.WIDTH)
    tracing._graph.cache_clear()
    assert traced(model, scored.WIDTH)[0] == graph
    assert Graph.from_json(json.loads(json.dumps(graph.to_json()))) == graph
    assert "NaN" not in json.dumps(graph.to_json(), allow_nan=False)
    assert set(graph.weights) == set(arrays)
    assert len(json.dumps(graph.to_json())) < 8000  # small beside the weights


def test_models_that_differ_in_weights_share_a_graph_and_keep_their_arrays():
    one, other = (ZOO["sda"].build(3, Sizes(2), jax.random.key(seed)) for seed in (0, 1))
    (graph, arrays), (same, others) = traced(one, 3), traced(other, 3)
    assert same is graph
    assert arrays["F.theta"].tolist() == np.asarray(one.F.theta).tolist()
    assert others["F.theta"].tolist() == np.asarray(other.F.theta).tolist()
    wider = ZOO["sda"].build(3, Sizes(4), jax.random.key(0))
    assert traced(wider, 3)[0] != graph


@pytest.mark.parametrize("name", scored.EVERY)
def test_graphs_have_no_idle_operations_and_no_double_ones(name):
    graph, _ = traced(scored.built(name), scored.WIDTH)
    uses = graph.uses()
    assert all(uses[number] for number in range(len(graph.operations)))
    assert len(set(graph.operations)) == len(graph.operations)


class Strange(Model):
    """Computes with what a graph cannot."""

    kind: str

    def scores(self, items, present, dropout=None):
        if self.kind == "sort":
            return jnp.sort(items[:, 0])
        if self.kind == "cumsum":
            return jnp.cumsum(items[:, 0])
        return items[:, 0] + items[jnp.array([0, 1]), 0].sum()


@pytest.mark.parametrize("kind", ["sort", "cumsum", "gather"])
def test_an_unknown_primitive_is_named(kind):
    with pytest.raises(InputError, match=f"JAX's '{kind}.*setwise/scoring/tracing.py"):
        traced(Strange(kind), 2)


def test_operations_beyond_the_zoo_mean_what_they_mean_in_jax():
    model = scored.everything()
    x, present = scored.padded([5, 2, 4], width=2)
    graph, arrays = traced(model, 2)
    wanted = scored.by_jax(model, x, present)
    with np.errstate(all="ignore"):
        found = run(graph, arrays | {"items": x, "present": present})
        steps = Steps.of(*folded(graph, arrays))({"items": x, "present": present})
    np.testing.assert_allclose(found[present], wanted[present], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(steps[present], wanted[present], rtol=1e-5, atol=1e-5)


# Simplification


def test_what_changes_nothing_is_left_out():
    build = small()
    x, zero, one = items(build), build.literal(0.0, FLOAT), build.literal(1.0, FLOAT)
    low = build.literal(-np.inf, FLOAT)
    mask = build.add("gt", x, zero)
    for same in (
        build.add("add", x, zero), build.add("add", zero, x), build.add("sub", x, zero),
        build.add("mul", x, one), build.add("mul", one, x), build.add("div", x, one),
        build.add("max", low, x), build.add("where", mask, x, x),
        build.reshape(build.reshape(x, ("sets", 1, "items", 2)), ("sets", "items", 2)),
        build.add("transpose", build.add("transpose", x, settings=(1, 0, 2)), settings=(1, 0, 2)),
        build.add("slice", x, settings=(2, 0, 2, 1)), build.add("cast", x, settings=(FLOAT,)),
    ):  # fmt: skip
        assert same == x
    positive = build.add("sum", build.add("exp", x), settings=(2,))
    assert build.add("abs", positive) == positive
    inner = build.add("where", mask, x, zero)
    assert build.add("where", mask, inner, one) == build.add("where", mask, x, one)


def test_a_neutral_number_stays_where_it_widens_the_shape():
    build = small()
    number = build.given("input", "n", Spec((), FLOAT))
    zeros = build.given("weight", "zeros", Spec((3,), FLOAT))
    assert build.specs[build.add("add", number, zeros)].shape == (3,)


def kinked(c: float, plain: str = "tanh") -> Graph:
    """c f where z < 0, and f elsewhere."""
    build = small()
    z = items(build)
    f = build.add(plain, z)
    w = build.given("weight", "c", Spec((1,), FLOAT))
    test = build.add("lt", z, build.literal(0.0, FLOAT))
    return build.graph(build.add("where", test, build.add("mul", w, f), f))


@pytest.mark.parametrize(
    ("c", "plain", "rewritten"), [(1.5, "tanh", True), (0.5, "tanh", False), (1.5, "exp", False)]
)
def test_a_kink_is_a_minimum_only_where_it_is_one(c, plain, rewritten):
    arrays = {"c": np.array([c], np.float32)}
    simple = folded(kinked(c, plain), arrays)
    assert ("min" in {one.name for one in simple.graph.operations}) is rewritten
    x = np.array([[[-2.0, -0.0], [0.0, 3.0]]], np.float32)
    wanted = run(kinked(c, plain), arrays | {"items": x})
    np.testing.assert_array_equal(run(simple.graph, simple.arrays | {"items": x}), wanted)


@pytest.mark.parametrize("name", scored.EVERY)
def test_folding_and_completing_keep_the_meaning(name):
    graph, arrays = traced(scored.variants(name)["weighed"], scored.WIDTH)
    simple = folded(graph, arrays)
    x, present = scored.padded([6, 2])
    there = np.ones_like(present)
    with np.errstate(all="ignore"):
        for mask in (present, there):
            wanted = run(graph, arrays | {"items": x, "present": mask})
            found = run(simple.graph, simple.arrays | {"items": x, "present": mask})
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        short = complete(simple.graph)
        assert "present" not in {one.settings[0] for one in short.operations if one.settings}
        found = run(short, simple.arrays | {"items": x})
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    computing = [one for one in short.operations if one.inputs]
    assert len(computing) < len([one for one in graph.operations if one.inputs])


# Products


@st.composite
def products(draw) -> tuple[np.ndarray, np.ndarray, tuple[Any, ...]]:
    """Two arrays and the axes of a product of them, in any order."""
    counts = {kind: draw(st.integers(0, 2)) for kind in ("kept", "rows", "summed", "columns")}
    counts["summed"] = max(1, counts["summed"])
    sizes = {kind: [draw(st.integers(1, 3)) for _ in range(count)]
             for kind, count in counts.items()}  # fmt: skip
    sides = []
    for kinds in (("kept", "rows", "summed"), ("kept", "summed", "columns")):
        axes = [(kind, place) for kind in kinds for place in range(counts[kind])]
        sides.append(draw(st.permutations(axes)))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    arrays = [rng.normal(size=[sizes[kind][place] for kind, place in side]).astype(np.float32)
              for side in sides]  # fmt: skip
    over = tuple(
        tuple(side.index((kind, place)) for place in range(counts[kind]))
        for kind in ("summed", "kept")
        for side in sides
    )
    return arrays[0], arrays[1], over


@settings(deadline=None, max_examples=80)
@given(products())
def test_products_are_einsums(product):
    left, right, over = product
    summed_left, summed_right, kept_left, kept_right = over
    letters = "abcdefghijkl"
    first = letters[: left.ndim]
    second = [""] * right.ndim
    for a, b in zip((*summed_left, *kept_left), (*summed_right, *kept_right), strict=True):
        second[b] = first[a]
    others = iter(letters[left.ndim :])
    second = [one or next(others) for one in second]
    result = [first[a] for a in kept_left]
    result += [first[a] for a in range(left.ndim) if a not in (*summed_left, *kept_left)]
    result += [second[b] for b in range(right.ndim) if b not in (*summed_right, *kept_right)]
    wanted = np.einsum(f"{first},{''.join(second)}->{''.join(result)}", left, right)
    specs = Spec(left.shape, FLOAT), Spec(right.shape, FLOAT)
    assert spec_of("dot", over, specs).shape == wanted.shape
    np.testing.assert_allclose(dot(left, right, over), wanted, rtol=1e-4, atol=1e-5)
    for constant, alone in ((None, 1), (right, 1), (right, 262_144)):  # 1: a few rows at a time
        with mock.patch("setwise.scoring.products.ALONE", alone):
            found = product_of(over, *specs, constant)(left, right)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


# Products, shared and in pieces


@pytest.mark.parametrize("name", ["sda", "sda_fine"])  # looked up, and multiplied in full
def test_hats_in_pieces_are_the_hats(name):
    graph, arrays = traced(scored.built(name, width=2), 2)
    plain = in_pieces(joined(folded(graph, arrays)))
    names = [one.name for one in plain.graph.operations]
    assert names.count("pieces") == 1
    assert "abs" not in names  # no hat is computed
    x, present = scored.padded([5, 2, 4], width=2)
    x[0, :, 0] = [-9.0, -2.5, 0.0, 2.5, 9.0]  # at the ends, and beyond
    given = {"items": x, "present": present}
    with np.errstate(all="ignore"):
        wanted = run(graph, arrays | given)
        found = Steps.of(*plain)(given)
    np.testing.assert_allclose(found[present], wanted[present], rtol=1e-5, atol=1e-5)


def test_knots_that_do_not_span_the_numbers_stay_hats():
    graph, arrays = traced(scored.built("sda", width=2), 2)
    plain = folded(graph, arrays)
    knots = next(n for n, array in plain.arrays.items() if array.shape[:2] == (1, 1)
                 and array.shape[-1] == 11)  # fmt: skip
    for changed in (plain.arrays[knots] * 0.9, plain.arrays[knots] + 0.01):
        names = in_pieces(Folded(plain.graph, plain.arrays | {knots: changed})).graph.operations
        assert "pieces" not in {one.name for one in names}


def test_values_lie_with_the_sets_last():
    x = np.zeros((5, 4, 3), np.float32)
    last = sets_last(x, ("sets", "items", 3))
    assert last.shape == x.shape
    assert last.strides == (4, 20, 80)
    times = product_of(
        ((2,), (0,), (), ()), Spec(("sets", "items", 3), FLOAT), Spec((3, 2), FLOAT),
        np.zeros((3, 2), np.float32),
    )  # fmt: skip
    assert times(last, None).strides == (4, 20, 80)


# Memory


def test_memory_is_written_over_only_where_nobody_looks_again():
    build = small()
    x = items(build, "sets", "items", 4)
    y = build.add("exp", x)  # fresh
    left, right = (build.add("slice", y, settings=(2, *part, 1)) for part in ((0, 2), (2, 4)))
    a = build.add("neg", left)  # its own half of y: may be written over
    b = build.add("mul", a, right)  # a dies
    view = build.add("transpose", b, settings=(1, 0, 2))
    c = build.add("tanh", view)  # b is looked at again
    graph = build.graph(build.add("add", c, build.add("transpose", b, settings=(1, 0, 2))))
    names = [one.name for one in graph.operations]
    over = dict(zip(names, overwritten(graph), strict=True))
    assert over["exp"] is None  # an input is never written over
    assert over["neg"] == names.index("slice")
    assert over["mul"] == names.index("neg")
    assert over["tanh"] is None
    assert over["add"] is not None


# The table


def test_every_operation_has_a_form_in_numpy_and_in_onnx():
    for name, row in OPERATIONS.items():
        assert row.name == name
        given_by_the_caller = name in ("input", "weight")
        assert (row.numpy is None) == given_by_the_caller
        assert (not row.onnx) == (given_by_the_caller or name == "pieces")  # only NumPy makes these
    primitives = [one for row in OPERATIONS.values() for one in row.primitives]
    assert len(set(primitives)) == len(primitives)


# What is refused


def test_graphs_that_make_no_sense_are_refused():
    x = Operation("input", (), ("items", FLOAT, ("sets", "items", 2)))
    with pytest.raises(InputError, match=r"operation 'fly'.*upgrade"):
        Graph((x, Operation("fly", (0,)))).specs  # noqa: B018
    with pytest.raises(InputError, match=r"operation 1 \(tanh\) of the graph is misplaced"):
        Graph((x, Operation("tanh", (1,)))).specs  # noqa: B018
    with pytest.raises(InputError, match="do not fit together"):
        broadcast_shape([("sets", 3), ("sets", 2)])
    with pytest.raises(InputError, match="format version 9"):
        Graph.from_json({"version": 9, "operations": []})
    graph, arrays = traced(scored.built("mnl"), scored.WIDTH)
    with pytest.raises(InputError, match=r"'F\.theta' does not fit"):
        folded(graph, {name: array[:2] for name, array in arrays.items()})
