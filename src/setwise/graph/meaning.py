"""What each operation means, in NumPy: for constants, and for those who ask what is right.

The scorer does the same faster; tests compare the two.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from setwise.graph.graph import Graph, Operation
from setwise.graph.specs import Shape, free_axes

Sizes = Mapping[str, int]

UFUNCS: dict[str, Any] = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "exp": np.exp, "log": np.log,
    "log1p": np.log1p, "expm1": np.expm1, "tanh": np.tanh, "sqrt": np.sqrt, "floor": np.floor,
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum,
    "min": np.minimum, "pow": np.power, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "and": np.logical_and,
    "or": np.logical_or, "not": np.logical_not, "is_finite": np.isfinite,
}  # fmt: skip
REDUCTIONS: dict[str, Any] = {
    "sum": np.add, "largest": np.maximum, "smallest": np.minimum, "any": np.logical_or,
    "all": np.logical_and,
}  # fmt: skip


def sized(shape: Shape, sizes: Sizes) -> tuple[int, ...]:
    """The shape in numbers.

    >>> sized(("sets", 1, 8), {"sets": 3, "items": 5})
    (3, 1, 8)
    """
    return tuple(sizes[one] if isinstance(one, str) else one for one in shape)


def computed(operation: Operation, inputs: Sequence[Any], sizes: Sizes) -> np.ndarray | np.generic:
    """The value of an operation that takes others."""
    name, settings = operation.name, operation.settings
    if name in UFUNCS:
        return UFUNCS[name](*inputs)
    if name in REDUCTIONS:
        return REDUCTIONS[name].reduce(inputs[0], settings, dtype=np.asarray(inputs[0]).dtype)
    return _OTHERS[name](inputs, settings, sizes)


def literal(operation: Operation) -> np.generic:
    """The number that a literal is."""
    value, dtype = operation.settings
    return np.dtype(dtype).type(value)


def run(graph: Graph, given: Mapping[str, np.ndarray]) -> np.ndarray:
    """The result of the graph for these inputs and weights, by their names.

    >>> doubled = Graph((Operation("input", (), ("x", "float32", ("items",))),
    ...                  Operation("add", (0, 0))))
    >>> run(doubled, {"x": np.ones(2, np.float32)}).tolist()
    [2.0, 2.0]
    """
    values: list[Any] = []
    sizes = sizes_of(graph, given)
    for one in graph.operations:
        if one.name in ("input", "weight"):
            values.append(given[one.settings[0]])
        elif one.name == "literal":
            values.append(literal(one))
        else:
            values.append(computed(one, [values[i] for i in one.inputs], sizes))
    return values[-1]


def sizes_of(graph: Graph, given: Mapping[str, np.ndarray]) -> dict[str, int]:
    """How many sets and items these inputs have."""
    sizes: dict[str, int] = {}
    for one, spec in zip(graph.operations, graph.specs, strict=True):
        if one.name == "input":
            lengths = given[one.settings[0]].shape
            named = zip(spec.shape, lengths, strict=True)
            sizes |= {name: length for name, length in named if isinstance(name, str)}
    return sizes


def dot(left: Any, right: Any, settings: tuple[Any, ...]) -> np.ndarray:
    """Sums of products over some axes, with others kept in step."""
    summed_left, summed_right, kept_left, kept_right = settings
    rows = free_axes(left.ndim, summed_left, kept_left)
    columns = free_axes(right.ndim, summed_right, kept_right)
    kept = [left.shape[axis] for axis in kept_left]
    shape = [
        *kept, *(left.shape[axis] for axis in rows), *(right.shape[axis] for axis in columns)
    ]  # fmt: skip
    terms = int(np.prod([left.shape[axis] for axis in summed_left], dtype=np.int64))
    a = left.transpose(*kept_left, *rows, *summed_left).reshape(*kept, -1, terms)
    b = right.transpose(*kept_right, *summed_right, *columns).reshape(*kept, terms, -1)
    return np.matmul(a, b).reshape(shape)


def _logistic(inputs: Sequence[Any], settings: Any, sizes: Sizes) -> np.ndarray:
    (x,) = inputs
    below = np.exp(-np.abs(x))  # never overflows
    return np.where(x < 0, below, 1) / (1 + below)


def _slice(inputs: Sequence[Any], settings: Any, sizes: Sizes) -> np.ndarray:
    axis, first, end, step = settings
    return inputs[0][(slice(None),) * axis + (slice(first, end, step),)]


_OTHERS: dict[str, Callable[[Sequence[Any], Any, Sizes], Any]] = {
    "logistic": _logistic,
    "where": lambda inputs, settings, sizes: np.where(*inputs),
    "cast": lambda inputs, settings, sizes: np.asarray(inputs[0]).astype(settings[0]),
    "reshape": lambda inputs, settings, sizes: np.reshape(inputs[0], sized(settings, sizes)),
    "broadcast": lambda inputs, settings, sizes: np.broadcast_to(inputs[0], sized(settings, sizes)),
    "transpose": lambda inputs, settings, sizes: inputs[0].transpose(settings),
    "slice": _slice,
    "concatenate": lambda inputs, settings, sizes: np.concatenate(inputs, settings[0]),
    "dot": lambda inputs, settings, sizes: dot(inputs[0], inputs[1], settings),
    "take": lambda inputs, settings, sizes: inputs[0][inputs[1]],
    "size": lambda inputs, settings, sizes: np.int32(sizes[settings[0]]),
}
