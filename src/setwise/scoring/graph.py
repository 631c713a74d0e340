"""Shape and type of what each operation makes, from those of what it takes.

| operations | settings |
|---|---|
| those of ``UNARY``, ``BINARY``, ``COMPARISONS``, ``LOGICAL`` and ``where``: elementwise | none |
| ``cast`` | the type |
| ``sum``, ``largest``, ``smallest``, ``any``, ``all`` | the axes, which go |
| ``reshape``, ``broadcast`` | the shape |
| ``transpose`` | the order of axes |
| ``slice`` | axis, first, end and step |
| ``concatenate`` | the axis |
| ``dot`` | axes summed over and axes kept in step, of the left and of the right: four tuples |
| ``size`` | the name of a size; the value is a number |
| ``take`` | none; the places of the second value, looked up in the first, which has one axis |

Elementwise operations broadcast as NumPy's do. The axes of a ``dot`` come in the order: kept in
step, the left's others, the right's others.

A model as a list of plain operations on arrays: what is left of it without its engine.

Values are numbered by the operation that makes them, and the last one is the result. Shapes hold
numbers and the names of the two sizes that a call decides: "sets" and "items".

What each operation means, in NumPy: for constants, and for those who ask what is right.

The scorer does the same faster; tests compare the two.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from setwise._arguments import check_all, each, instance
from setwise._errors import InputError

Dimension = int | Literal["sets", "items"]
Shape = tuple[Dimension, ...]

UNARY = ("neg", "abs", "sign", "exp", "log", "log1p", "expm1", "tanh", "sqrt", "logistic", "floor")
BINARY = ("add", "sub", "mul", "div", "max", "min", "pow")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
LOGICAL = ("and", "or", "not")
REDUCTIONS = ("sum", "largest", "smallest", "any", "all")
ELEMENTWISE = (*UNARY, *BINARY, *COMPARISONS, *LOGICAL, "is_finite", "where", "cast")


class Spec(NamedTuple):
    """Shape and type of a value."""

    shape: Shape
    dtype: str


def spec_of(name: str, settings: tuple[Any, ...], inputs: Sequence[Spec]) -> Spec:
    """What the operation makes of such inputs.

    >>> x, w = Spec(("sets", "items", 8), "float32"), Spec((8, 3), "float32")
    >>> spec_of("dot", ((2,), (0,), (), ()), [x, w])
    Spec(shape=('sets', 'items', 3), dtype='float32')
    """
    if name not in _RULES:
        raise InputError(
            f"the model's graph has an operation '{name}', which this setwise does not know; "
            "upgrade setwise"
        )
    return _RULES[name](settings, list(inputs))


def broadcast_shape(shapes: Sequence[Shape]) -> Shape:
    """The shape that these have in common.

    >>> broadcast_shape([("sets", 1, 8), ("items", 1), ()])
    ('sets', 'items', 8)
    """
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    common: list[Dimension] = []
    for dimensions in zip(*padded, strict=True):
        wide = {one for one in dimensions if one != 1}
        if len(wide) > 1:
            raise InputError(f"shapes {', '.join(map(str, shapes))} of a graph do not fit together")
        common.append(wide.pop() if wide else 1)
    return tuple(common)


def free_axes(rank: int, *taken: Sequence[int]) -> list[int]:
    """The axes that are not among those taken."""
    return [axis for axis in range(rank) if all(axis not in one for one in taken)]


def _elementwise(dtype: str | None) -> Callable[[tuple[Any, ...], list[Spec]], Spec]:
    def rule(settings: tuple[Any, ...], inputs: list[Spec]) -> Spec:
        return Spec(broadcast_shape([one.shape for one in inputs]), dtype or inputs[-1].dtype)

    return rule


def _given(settings: tuple[Any, ...], inputs: list[Spec]) -> Spec:
    _, dtype, shape = settings
    return Spec(shape, dtype)


def _reduced(settings: tuple[Any, ...], inputs: list[Spec]) -> Spec:
    (x,) = inputs
    return Spec(tuple(x.shape[axis] for axis in free_axes(len(x.shape), settings)), x.dtype)


def _transposed(settings: tuple[Any, ...], inputs: list[Spec]) -> Spec:
    (x,) = inputs
    return Spec(tuple(x.shape[axis] for axis in settings), x.dtype)


def _sliced(settings: tuple[Any, ...], inputs: list[Spec]) -> Spec:
    (x,), (axis, first, end, step) = inputs, settings
    return Spec((*x.shape[:axis], len(range(first, end, step)), *x.shape[axis + 1 :]), x.dtype)


def _concatenated(settings: tuple[Any, ...], inputs: list[Spec]) -> Spec:
    (axis,), shape = settings, inputs[0].shape
    along: Any = sum(cast(int, one.shape[axis]) for one in inputs)
    return Spec((*shape[:axis], along, *shape[axis + 1 :]), inputs[0].dtype)


def _dotted(settings: tuple[Any, ...], inputs: list[Spec]) -> Spec:
    left, right = inputs
    summed_left, summed_right, kept_left, kept_right = settings
    kept = [left.shape[axis] for axis in kept_left]
    rows = [left.shape[axis] for axis in free_axes(len(left.shape), summed_left, kept_left)]
    columns = [right.shape[axis] for axis in free_axes(len(right.shape), summed_right, kept_right)]
    return Spec((*kept, *rows, *columns), left.dtype)


_RULES: dict[str, Callable[[tuple[Any, ...], list[Spec]], Spec]] = {
    **{name: _elementwise(None) for name in (*UNARY, *BINARY, "where")},
    **{name: _elementwise("bool") for name in (*COMPARISONS, *LOGICAL, "is_finite")},
    **dict.fromkeys(REDUCTIONS, _reduced),
    "input": _given,
    "weight": _given,
    "literal": lambda settings, inputs: Spec((), settings[1]),
    "cast": lambda settings, inputs: Spec(inputs[0].shape, settings[0]),
    "reshape": lambda settings, inputs: Spec(settings, inputs[0].dtype),
    "broadcast": lambda settings, inputs: Spec(settings, inputs[0].dtype),
    "transpose": _transposed,
    "slice": _sliced,
    "concatenate": _concatenated,
    "dot": _dotted,
    "take": lambda settings, inputs: Spec(inputs[1].shape, inputs[0].dtype),
    "size": lambda settings, inputs: Spec((), "int32"),
}


FORMAT_VERSION = 1
MOST_OPERATIONS = 4_000
"""Of a graph in a file; the largest models have about two hundred."""


@dataclass(frozen=True)
class Operation:
    """One step: its name, the values it takes, and what else it needs to know.

    The settings are, of an ``input`` or a ``weight``, its name, type and shape; of a ``literal``,
    its value and type; of others, see :mod:`setwise.scoring.graph`.
    """

    name: str
    inputs: tuple[int, ...] = ()
    settings: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Graph:
    """Operations in the order in which they can be done.

    >>> graph = Graph((Operation("input", (), ("items", "float32", ("sets", "items", 2))),
    ...                Operation("tanh", (0,)), Operation("sum", (1,), (2,))))
    >>> graph.specs[-1]
    Spec(shape=('sets', 'items'), dtype='float32')
    """

    operations: tuple[Operation, ...]

    @cached_property
    def specs(self) -> tuple[Spec, ...]:
        """Shape and type of every value; an error names an operation that makes no sense."""
        specs: list[Spec] = []
        for place, operation in enumerate(self.operations):
            if not all(0 <= number < place for number in operation.inputs):
                raise InputError(f"operation {place} ({operation.name}) of the graph is misplaced")
            taken = [specs[number] for number in operation.inputs]
            specs.append(spec_of(operation.name, operation.settings, taken))
        return tuple(specs)

    @property
    def weights(self) -> dict[str, Spec]:
        """The arrays that the operations refer to by name."""
        return {
            operation.settings[0]: spec
            for operation, spec in zip(self.operations, self.specs, strict=True)
            if operation.name == "weight"
        }

    def uses(self) -> Counter[int]:
        """How many operations take each value; the result is taken once more."""
        uses = Counter(number for one in self.operations for number in one.inputs)
        uses[len(self.operations) - 1] += 1
        return uses

    def to_json(self) -> dict[str, Any]:
        """Plain values for a model file."""
        plain = [[one.name, one.inputs, one.settings] for one in self.operations]
        return {"version": FORMAT_VERSION, "operations": plain}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Graph":
        """The graph that :meth:`to_json` wrote."""
        if plain["version"] != FORMAT_VERSION:
            raise InputError(
                f"the model's graph has format version {plain['version']}, and this setwise reads "
                f"{FORMAT_VERSION}; upgrade setwise, or load the model and save it again"
            )
        if len(plain["operations"]) > MOST_OPERATIONS:
            raise InputError(
                f"the graph has {len(plain['operations']):,} operations; at most "
                f"{MOST_OPERATIONS:,} are read"
            )
        check_all({"operations": each(instance(list, "write name, inputs, settings"))}, plain)
        return cls(
            tuple(
                Operation(str(name), tuple(inputs), _tuples(settings))
                for name, inputs, settings in plain["operations"]
            )
        )


def live(operations: Sequence[Operation], result: int) -> Graph:
    """The operations that the result needs, renumbered; the result comes last."""
    needed, waiting = set(), [result]
    while waiting:
        number = waiting.pop()
        if number not in needed:
            needed.add(number)
            waiting.extend(operations[number].inputs)
    order = [*sorted(needed - {result}), result]
    place = {number: new for new, number in enumerate(order)}
    return Graph(
        tuple(
            Operation(one.name, tuple(place[i] for i in one.inputs), one.settings)
            for one in (operations[number] for number in order)
        )
    )


def _tuples(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(_tuples(one) if isinstance(one, (list, tuple)) else one for one in values)


Sizes = Mapping[str, int]

UFUNCS: dict[str, Any] = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "exp": np.exp, "log": np.log,
    "log1p": np.log1p, "expm1": np.expm1, "tanh": np.tanh, "sqrt": np.sqrt, "floor": np.floor,
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum,
    "min": np.minimum, "pow": np.power, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "and": np.logical_and,
    "or": np.logical_or, "not": np.logical_not, "is_finite": np.isfinite,
}  # fmt: skip
REDUCERS: dict[str, Any] = {
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
    if name in REDUCERS:
        return REDUCERS[name].reduce(inputs[0], settings, dtype=np.asarray(inputs[0]).dtype)
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
