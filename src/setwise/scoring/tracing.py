"""From a model to its graph: its own scores, traced once, with the sizes of the data left open.

A model is a function of one set, written in JAX. Traced for any number of sets of any number of
items, it becomes JAX's list of primitive operations; these become the few plain ones of a
:class:`Graph`. No model is written twice.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var
from jax.tree_util import PyTreeDef

from setwise import _masked
from setwise._errors import InputError
from setwise._tensorfile import named_arrays
from setwise.models import Model
from setwise.scoring.graph import Builder, Graph
from setwise.scoring.operations import OPERATIONS, Dimension, OperationType, Spec, free_axes

SIMPLE = {primitive: row for row in OPERATIONS.values() for primitive in row.primitives}
"""The operations of primitives that need no rule of their own."""
UNCHANGED = ("stop_gradient", "copy", "copy_p")

Leaves = tuple[Any, ...]
Weights = tuple[tuple[str, Spec], ...]


def traced(model: Model, width: int) -> tuple[Graph, dict[str, np.ndarray]]:
    """The graph of log P(x | s), and the arrays that it refers to.

    Inputs are ``items`` (sets x items x width, standardised as the model's schema does) and
    ``present`` (sets x items).

    >>> from setwise.models import ZOO, Sizes
    >>> graph, arrays = traced(ZOO["mnl"].build(2, Sizes(), jax.random.key(0)), 2)
    >>> [one.name for one in graph.operations if one.inputs][:2], list(arrays)
    (['reshape', 'dot'], ['F.theta'])
    """
    arrays, rest = eqx.partition(model, eqx.is_array)
    structure = jax.tree.structure(arrays)
    plain, outline = jax.tree.flatten(rest)
    named = named_arrays(model)
    specs = tuple((name, _spec_of(array)) for name, array in named.items())
    graph, constants = _graph(structure, outline, tuple(plain), specs, width)
    return graph, {name: (named | constants)[name] for name in sorted(graph.weights)}


@lru_cache(maxsize=64)
def _graph(
    structure: PyTreeDef, outline: PyTreeDef, plain: Leaves, weights: Weights, width: int
) -> tuple[Graph, dict[str, np.ndarray]]:
    """The graph of all models that differ in the values of their weights only, and its constants.

    A model's arrays fit ``structure``, and what else it holds is ``plain`` in ``outline``.
    """

    def log_probabilities(leaves: list[Any], items: Any, present: Any) -> Any:
        rest = jax.tree.unflatten(outline, plain)
        whole = eqx.combine(jax.tree.unflatten(structure, leaves), rest)
        return jax.vmap(lambda x, p: _masked.log_softmax(whole.scores(x, p), p))(items, present)

    sets, items = export.symbolic_shape("sets, items")
    closed = jax.make_jaxpr(log_probabilities)(
        [jax.ShapeDtypeStruct(spec.shape, spec.dtype) for _, spec in weights],
        jax.ShapeDtypeStruct((sets, items, width), jnp.float32),
        jax.ShapeDtypeStruct((sets, items), jnp.bool_),
    )
    lowering = _Lowering()
    given = [lowering.build.given("weight", name, spec) for name, spec in weights]
    features = Spec(("sets", "items", width), "float32")
    given.append(lowering.build.given("input", "items", features))
    given.append(lowering.build.given("input", "present", Spec(("sets", "items"), "bool")))
    (result,) = lowering.inlined(closed, given)
    result = lowering.whole(result, ("sets", "items"))
    return lowering.build.graph(result), lowering.constants


class _Lowering:
    """Primitive operations of JAX, as those of a graph.

    A value may have length 1 where JAX's has more, or be a plain number: operations broadcast, so
    few have to be made :meth:`whole`.
    """

    def __init__(self) -> None:
        self.build = Builder()
        self.constants: dict[str, np.ndarray] = {}

    def inlined(self, closed: ClosedJaxpr, given: list[int]) -> list[int]:
        """The results of a JAX program, with the programs that it calls."""
        jaxpr: Jaxpr = closed.jaxpr
        values: dict[Var, int] = dict(zip(jaxpr.invars, given, strict=True))
        for variable, constant in zip(jaxpr.constvars, closed.consts, strict=True):
            values[variable] = self.constant(np.asarray(constant))

        def value(atom: Any) -> int:
            if not isinstance(atom, Literal):
                return values[atom]
            kind: Any = atom.aval
            return self.constant(np.asarray(atom.val, kind.dtype))

        for equation in jaxpr.eqns:
            made = self._lowered(equation, [value(atom) for atom in equation.invars])
            values.update(zip(equation.outvars, made, strict=True))
        return [value(atom) for atom in jaxpr.outvars]

    def constant(self, array: np.ndarray) -> int:
        """An array that is not a weight of the model."""
        if array.ndim == 0:
            return self.build.literal(array.item(), _spec_of(array).dtype)
        for name, known in self.constants.items():
            if known.shape == array.shape and np.array_equal(known, array):
                return self.build.given("weight", name, _spec_of(array))
        name = f"constant.{len(self.constants)}"
        self.constants[name] = array
        return self.build.given("weight", name, _spec_of(array))

    def whole(self, x: int, shape: tuple[Dimension, ...]) -> int:
        """The value in the full shape that it stands for."""
        return self.build.add("broadcast", x, settings=shape)

    def _lowered(self, equation: Any, x: list[int]) -> list[int]:
        name, params = equation.primitive.name, equation.params
        if name in UNCHANGED:
            return x
        inner = params.get("jaxpr", params.get("call_jaxpr"))
        if isinstance(inner, Jaxpr):
            inner = ClosedJaxpr(inner, [])
        if isinstance(inner, ClosedJaxpr) and len(inner.jaxpr.invars) == len(x):
            return self.inlined(inner, x)
        if name in SIMPLE:
            row = SIMPLE[name]
            add = self._reduced if row.reduces else self._elementwise
            return [add(row, equation, *x)]
        rule: Callable[..., int] | None = getattr(self, f"_{name}", None)
        if rule is None:
            raise unsupported(name)
        return [rule(equation, *x)]

    def _rank(self, x: int) -> int:
        return len(self.build.specs[x].shape)

    def _operand(self, equation: Any, place: int, x: int) -> int:
        """An input of the equation in its full shape."""
        return self.whole(x, _shape_of(equation.invars[place].aval))

    def _convert_element_type(self, equation: Any, x: int) -> int:
        return self.build.add("cast", x, settings=(np.dtype(equation.params["new_dtype"]).name,))

    def _select_n(self, equation: Any, which: int, *cases: int) -> int:
        if len(cases) != 2 or self.build.specs[which].dtype != "bool":
            raise unsupported("select_n of several cases")
        return self.build.add("where", which, cases[1], cases[0])

    def _integer_pow(self, equation: Any, x: int) -> int:
        power = equation.params["y"]
        if not 1 <= power <= 4:
            raise unsupported(f"integer_pow[y={power}]")
        result = x
        for _ in range(power - 1):
            result = self.build.add("mul", result, x)
        return result

    def _square(self, equation: Any, x: int) -> int:
        return self.build.add("mul", x, x)

    def _rsqrt(self, equation: Any, x: int) -> int:
        return self.build.add("div", self.build.literal(1.0, "float32"), self.build.add("sqrt", x))

    def _clamp(self, equation: Any, low: int, x: int, high: int) -> int:
        return self.build.add("min", self.build.add("max", x, low), high)

    def _broadcast_in_dim(self, equation: Any, x: int, *sizes: int) -> int:
        if self._rank(x) == 0:
            return x
        spread: list[Dimension] = [1] * len(equation.params["shape"])
        for own, place in zip(
            self.build.specs[x].shape, equation.params["broadcast_dimensions"], strict=True
        ):
            spread[int(place)] = own
        return self.build.reshape(x, tuple(spread))

    def _reshape(self, equation: Any, x: int, *sizes: int) -> int:
        if self._rank(x) == 0:
            return x
        whole = self._operand(equation, 0, x)
        return self.build.reshape(whole, _shape_of(equation.outvars[0].aval))

    def _squeeze(self, equation: Any, x: int) -> int:
        if self._rank(x) == 0:
            return x
        shape = self.build.specs[x].shape
        gone = [int(axis) % len(shape) for axis in equation.params["dimensions"]]
        return self.build.reshape(x, tuple(shape[axis] for axis in free_axes(len(shape), gone)))

    def _transpose(self, equation: Any, x: int) -> int:
        if self._rank(x) == 0:
            return x
        order = tuple(int(axis) for axis in equation.params["permutation"])
        return self.build.add("transpose", x, settings=order)

    def _slice(self, equation: Any, x: int) -> int:
        x, shape = self._operand(equation, 0, x), _shape_of(equation.invars[0].aval)
        first, end = equation.params["start_indices"], equation.params["limit_indices"]
        step = equation.params["strides"] or (1,) * len(shape)
        for axis, length in enumerate(shape):
            part = (_dimension(first[axis]), _dimension(end[axis]), _dimension(step[axis]))
            if part != (0, length, 1):
                if not all(isinstance(one, int) for one in part):
                    raise unsupported("slice of an open size")
                x = self.build.add("slice", x, settings=(axis, *part))
        return x

    def _gather(self, equation: Any, x: int, index: int) -> int:
        """Neighbouring places along one axis, as ``x[:, 0]`` and ``x[:, 2:5]`` take them."""
        numbers, shape = equation.params["dimension_numbers"], _shape_of(equation.invars[0].aval)
        axes = tuple(int(axis) for axis in numbers.start_index_map)
        sizes = tuple(_dimension(size) for size in equation.params["slice_sizes"])
        first, axis = self.build.number(index), axes[0] if axes else 0
        others = sizes[:axis] + sizes[axis + 1 :] == shape[:axis] + shape[axis + 1 :]
        count = sizes[axis]
        if len(axes) != 1 or first is None or not others or not isinstance(count, int):
            raise unsupported("gather of places that are not neighbours")
        x = self._operand(equation, 0, x)
        x = self.build.add("slice", x, settings=(axis, int(first), int(first) + count, 1))
        return self.build.reshape(x, _shape_of(equation.outvars[0].aval))

    def _concatenate(self, equation: Any, *parts: int) -> int:
        whole = [self._operand(equation, place, x) for place, x in enumerate(parts)]
        return self.build.add("concatenate", *whole, settings=(int(equation.params["dimension"]),))

    def _stack(self, equation: Any, *parts: int) -> int:
        axis, shape = int(equation.params["axis"]), _shape_of(equation.outvars[0].aval)
        one = (*shape[:axis], 1, *shape[axis + 1 :])
        whole = [self._operand(equation, place, x) for place, x in enumerate(parts)]
        shaped = [self.build.reshape(x, one) for x in whole]
        return self.build.add("concatenate", *shaped, settings=(axis,))

    def _iota(self, equation: Any) -> int:
        shape, along = _shape_of(equation.outvars[0].aval), equation.params["dimension"]
        if not all(isinstance(one, int) for one in shape):
            raise unsupported("iota of an open size")
        counted = np.indices(cast(Any, shape))[along]
        return self.constant(counted.astype(equation.params["dtype"]))

    def _dim_as_value(self, equation: Any) -> int:
        size, dtype = _dimension(equation.params["dim"]), equation.outvars[0].aval.dtype.name
        return self.build.add("cast", self.build.add("size", settings=(size,)), settings=(dtype,))

    def _dot_general(self, equation: Any, x: int, y: int) -> int:
        summed, kept = equation.params["dimension_numbers"]
        settings = tuple(tuple(int(axis) for axis in axes) for axes in (*summed, *kept))
        left, right = self._operand(equation, 0, x), self._operand(equation, 1, y)
        return self.build.add("dot", left, right, settings=settings)

    def _tree_scores(self, equation: Any, items: int, present: int, *arrays: int) -> int:
        whole = [self._operand(equation, place, x) for place, x in enumerate((items, present))]
        settings = tuple(equation.params[name] for name in ("own", "categories", "within"))
        return self.build.add("trees", *whole, *arrays, settings=settings)

    def _elementwise(self, row: OperationType, equation: Any, *x: int) -> int:
        return self.build.add(row.name, *x)

    def _reduced(self, row: OperationType, equation: Any, x: int) -> int:
        if row.name == "sum" or self._rank(x) == 0:
            x = self._operand(equation, 0, x)
        return self.build.add(row.name, x, settings=tuple(map(int, equation.params["axes"])))


def unsupported(name: str) -> InputError:
    """The error for a primitive that no operation stands for."""
    return InputError(
        f"the model computes with JAX's '{name}', for which setwise.scoring has no operation; "
        "add a rule to setwise/scoring/tracing.py, or write the model with other functions"
    )


def _shape_of(aval: Any) -> tuple[Dimension, ...]:
    return tuple(_dimension(one) for one in aval.shape)


def _spec_of(array: np.ndarray) -> Spec:
    return Spec(tuple(array.shape), array.dtype.name)


def _dimension(size: Any) -> Dimension:
    if isinstance(size, (int, np.integer)):
        return int(size)
    name = str(size)
    if name not in ("sets", "items"):
        raise unsupported(f"size {name}")
    return name  # type: ignore[return-value]
