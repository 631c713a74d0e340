"""The operations that models are made of: one table, with one row per operation.

A row says all that is known about an operation: how many values it takes, the shape and type of
its result, what it computes in NumPy, how ONNX writes it, and which primitives of JAX become it.
To add an operation, add a row. This module imports neither JAX nor ONNX.

| operations | settings |
|---|---|
| elementwise ones, such as ``exp``, ``add``, ``lt``, ``and``, ``where`` | none |
| ``cast`` | the type |
| ``sum``, ``largest``, ``smallest``, ``any``, ``all`` | the axes that are reduced and removed |
| ``reshape``, ``broadcast`` | the new shape |
| ``transpose`` | the order of the axes |
| ``slice`` | axis, start, end and step |
| ``concatenate`` | the axis |
| ``dot`` | four tuples: summed axes of the left and of the right value, then batch axes of both |
| ``take`` | none; the second value indexes the first, which has one axis |
| ``trees`` | of :class:`setwise._tree_view.TreeView`: own columns, categories, within sets |
| ``pieces`` | height and slope of hat functions: see :mod:`setwise.scoring.pieces_operation` |
| ``size`` | "sets" or "items"; the value is their number |
| ``input``, ``weight`` | name, type and shape |
| ``literal`` | value and type |

Elementwise operations broadcast as NumPy's do. The result of a ``dot`` has the batch axes first,
then the other axes of the left value, then those of the right value.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter, methodcaller
from string import ascii_lowercase
from typing import Any, cast

import numpy as np

from setwise._errors import InputError
from setwise.scoring.operation_types import (
    DTYPES,
    MOST_AXES,
    Dimension,
    OnnxCall,
    OperationType,
    Settings,
    Shape,
    Spec,
    is_whole,
)
from setwise.scoring.pieces_operation import PIECES
from setwise.scoring.tree_operation import TREES


def spec_of(name: str, settings: Settings, inputs: Sequence[Spec]) -> Spec:
    """Shape and type of an operation's result.

    >>> x, w = Spec(("sets", "items", 8), "float32"), Spec((8, 3), "float32")
    >>> spec_of("dot", ((2,), (0,), (), ()), [x, w])
    Spec(shape=('sets', 'items', 3), dtype='float32')
    """
    if name not in OPERATIONS:
        raise InputError(
            f"the model's graph has an operation '{name}', which this setwise does not know; "
            "upgrade setwise"
        )
    row = OPERATIONS[name]
    if len(inputs) != row.inputs and (row.inputs is not None or not inputs):
        raise InputError(f"it takes {row.inputs or 'at least 1'} inputs, not {len(inputs)}")
    return row.spec(settings, list(inputs))


# Shapes and types


def broadcast_shape(shapes: Sequence[Shape]) -> Shape:
    """The shape that values of these shapes have after broadcasting.

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


def check_shape(shape: Any) -> None:
    """Refuse what is not a shape."""
    named = [size for size in shape if isinstance(size, str)]
    sound = set(named) <= {"sets", "items"} and named.count("sets") <= 1 and len(named) <= 3
    numbers = all(is_whole(size) and size > 0 for size in shape if not isinstance(size, str))
    if len(shape) > MOST_AXES or not sound or not numbers:
        raise InputError(f"{shape} is not a shape")


def _check_axes(axes: Any, rank: int) -> None:
    if not all(is_whole(axis) and axis < rank for axis in axes) or len(set(axes)) != len(axes):
        raise InputError(f"a value of {rank} axes has no axes {axes}")


def _check_same(values: Sequence[Any], what: str) -> None:
    if any(value != values[0] for value in values):
        raise InputError(f"{what} differ: {', '.join(map(str, values))}")


def _check_dtype(dtype: Any) -> None:
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise InputError(f"there is no type {dtype}")


_TAKES = {
    "floats": ("float32", "float64"),
    "numbers": ("float32", "float64", "int32", "int64"),
    "truth": ("bool",),
    "anything": DTYPES,
}


def _elementwise_spec(
    takes: str, gives: str | None, settings: Settings, inputs: list[Spec]
) -> Spec:
    if settings:
        raise InputError(f"it has no settings, such as {settings}")
    _check_same([one.dtype for one in inputs], "types")
    if inputs[0].dtype not in _TAKES[takes]:
        raise InputError(f"it is not for {inputs[0].dtype}")
    return Spec(broadcast_shape([one.shape for one in inputs]), gives or inputs[0].dtype)


def _where_spec(settings: Settings, inputs: list[Spec]) -> Spec:
    if inputs[0].dtype != "bool":
        raise InputError(f"it is not for {inputs[0].dtype}")
    dtype = _elementwise_spec("anything", None, settings, inputs[1:]).dtype
    return Spec(broadcast_shape([one.shape for one in inputs]), dtype)


def _reduced_spec(takes: str, axes: Settings, inputs: list[Spec]) -> Spec:
    (x,) = inputs
    _check_axes(axes, len(x.shape))
    if not axes or x.dtype not in _TAKES[takes]:
        raise InputError(f"it is not for {x.dtype} over the axes {axes}")
    return Spec(tuple(x.shape[axis] for axis in free_axes(len(x.shape), axes)), x.dtype)


def _cast_spec(settings: Settings, inputs: list[Spec]) -> Spec:
    (dtype,) = settings
    _check_dtype(dtype)
    return Spec(inputs[0].shape, dtype)


def _reshaped_spec(shape: Shape, inputs: list[Spec]) -> Spec:
    check_shape(shape)

    def size(shape: Shape) -> tuple[int, list[str]]:
        return (
            math.prod(one for one in shape if isinstance(one, int)),
            sorted(one for one in shape if isinstance(one, str)),
        )

    if size(shape) != size(inputs[0].shape):
        raise InputError(f"{inputs[0].shape} has another size than {shape}")
    return Spec(shape, inputs[0].dtype)


def _broadcast_spec(shape: Shape, inputs: list[Spec]) -> Spec:
    check_shape(shape)
    if broadcast_shape([inputs[0].shape, shape]) != shape:
        raise InputError(f"{inputs[0].shape} does not broadcast to {shape}")
    return Spec(shape, inputs[0].dtype)


def _transposed_spec(order: Settings, inputs: list[Spec]) -> Spec:
    (x,) = inputs
    _check_axes(order, len(x.shape))
    if len(order) != len(x.shape):
        raise InputError(f"{order} is not an order of {len(x.shape)} axes")
    return Spec(tuple(x.shape[axis] for axis in order), x.dtype)


def _sliced_spec(settings: Settings, inputs: list[Spec]) -> Spec:
    (x,), (axis, first, end, step) = inputs, settings
    _check_axes((axis,), len(x.shape))
    size: Any = x.shape[axis]
    if not all(map(is_whole, (size, first, end, step))) or not first < end <= size or step == 0:
        raise InputError(f"an axis of length {size} has no part {first}:{end}:{step}")
    return Spec((*x.shape[:axis], len(range(first, end, step)), *x.shape[axis + 1 :]), x.dtype)


def _concatenated_spec(settings: Settings, inputs: list[Spec]) -> Spec:
    (axis,), shape = settings, inputs[0].shape
    _check_axes((axis,), len(shape))
    _check_same([(*one.shape[:axis], *one.shape[axis + 1 :], one.dtype) for one in inputs], "parts")
    if not all(is_whole(one.shape[axis]) for one in inputs):
        raise InputError("it cannot join data along their sets or items")
    along = sum(cast(int, one.shape[axis]) for one in inputs)
    return Spec((*shape[:axis], along, *shape[axis + 1 :]), inputs[0].dtype)


def _dot_spec(settings: Settings, inputs: list[Spec]) -> Spec:
    left, right = inputs
    summed_left, summed_right, kept_left, kept_right = settings
    _check_axes((*summed_left, *kept_left), len(left.shape))
    _check_axes((*summed_right, *kept_right), len(right.shape))
    _check_same([left.dtype, right.dtype], "types")
    for own, other in ((summed_left, summed_right), (kept_left, kept_right)):
        lengths = [left.shape[axis] for axis in own], [right.shape[axis] for axis in other]
        _check_same(lengths, "lengths of axes")
    if left.dtype not in _TAKES["floats"]:
        raise InputError(f"it is not for {left.dtype}")
    kept = [left.shape[axis] for axis in kept_left]
    rows = [left.shape[axis] for axis in free_axes(len(left.shape), summed_left, kept_left)]
    columns = [right.shape[axis] for axis in free_axes(len(right.shape), summed_right, kept_right)]
    return Spec((*kept, *rows, *columns), left.dtype)


def _given_spec(settings: Settings, inputs: list[Spec]) -> Spec:
    name, dtype, shape = settings
    if not isinstance(name, str) or not isinstance(dtype, str) or not isinstance(shape, tuple):
        raise InputError("its settings must be a name, a type and a shape")
    return Spec(shape, dtype)


def _literal_spec(settings: Settings, inputs: list[Spec]) -> Spec:
    value, dtype = settings
    _check_dtype(dtype)
    number = type(value) in (int, float) or value in ("inf", "-inf", "nan")
    kinds = {"b": type(value) is bool, "i": type(value) is int, "f": number}
    if not kinds[np.dtype(dtype).kind]:
        raise InputError(f"{value!r} is not of type {dtype}")
    if type(value) is int and dtype != "bool" and abs(value) >= 2**31:
        raise InputError(f"{value} is too large")
    return Spec((), dtype)


def _size_spec(settings: Settings, inputs: list[Spec]) -> Spec:
    if settings not in (("sets",), ("items",)):
        raise InputError(f"there is no size {settings}; sizes are 'sets' and 'items'")
    return Spec((), "int32")


# NumPy


def dot(left: Any, right: Any, settings: Settings) -> np.ndarray:
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


def _logistic(x: Any) -> Any:
    below = np.exp(-np.abs(x))  # never overflows
    return np.where(x < 0, below, 1) / (1 + below)


def _reduction(ufunc: np.ufunc, axes: Settings) -> Callable[..., Any]:
    reduce, axis = ufunc.reduce, axes[0] if len(axes) == 1 else axes
    return lambda x: reduce(x, axis, x.dtype)


def _in_shape(change: Callable[..., Any], shape: Shape) -> Callable[..., Any]:
    """``change`` with the shape in numbers, whatever the numbers of sets and items are."""
    fixed = [0 if isinstance(size, str) else size for size in shape]
    sets = [axis for axis, size in enumerate(shape) if size == "sets"]
    items = [axis for axis, size in enumerate(shape) if size == "items"]

    def changed(x: Any, count_sets: int, count_items: int) -> Any:
        sizes = fixed.copy()
        for axis in sets:
            sizes[axis] = count_sets
        for axis in items:
            sizes[axis] = count_items
        return change(x, sizes)

    return changed


def _part(settings: Settings) -> Callable[..., Any]:
    axis, first, end, step = settings
    return itemgetter((slice(None),) * axis + (slice(first, end, step),))


# ONNX


def _numbers(call: OnnxCall, values: Any) -> str:
    return call.nodes.constant(list(values), np.int64)


def _write_is_finite(call: OnnxCall, x: str) -> str:
    infinite, no_number = call.nodes.add("IsInf", x), call.nodes.add("IsNaN", x)
    return call.nodes.add("Not", call.nodes.add("Or", infinite, no_number))


def _write_log1p(call: OnnxCall, x: str) -> str:
    """log(1 + x), as exact for small x as ONNX's operators allow (Kahan's way)."""
    add, one = call.nodes.add, call.nodes.constant(1, call.result.dtype)
    above = add("Add", x, one)
    gained = add("Sub", above, one)
    same = add("Equal", above, one)
    safe = add("Where", same, one, gained)
    return add("Where", same, x, add("Div", add("Mul", add("Log", above), x), safe))


def _write_expm1(call: OnnxCall, x: str) -> str:
    """exp(x) - 1 = tanh(x / 2) (exp(x) + 1), which loses no digits near 0."""
    nodes, dtype = call.nodes, call.result.dtype
    half = nodes.add("Mul", x, nodes.constant(0.5, dtype))
    above = nodes.add("Add", nodes.add("Exp", x), nodes.constant(1, dtype))
    return nodes.add("Mul", nodes.add("Tanh", half), above)


def _write_reduction(operator: str, call: OnnxCall, x: str) -> str:
    if operator == "ReduceSum":  # which alone takes the axes as an input
        return call.nodes.add(operator, x, _numbers(call, call.settings), keepdims=0)
    return call.nodes.add(operator, x, axes=list(call.settings), keepdims=0)


def _write_truth(operator: str, call: OnnxCall, x: str) -> str:
    return call.nodes.cast(_write_reduction(operator, call, call.nodes.cast(x, "int32")), "bool")


def _write_shape(call: OnnxCall, old: Shape) -> str:
    """The result's shape as a value: 0 keeps the size of an axis that stays in its place."""
    shape = call.result.shape
    stays = [
        isinstance(size, str) and old[axis : axis + 1] == (size,) for axis, size in enumerate(shape)
    ]
    open_axes = [
        axis for axis, size in enumerate(shape) if isinstance(size, str) and not stays[axis]
    ]
    if not open_axes or (old and len(open_axes) == 1):
        sizes = [0 if stay else -1 if isinstance(size, str) else size
                 for stay, size in zip(stays, shape, strict=True)]  # fmt: skip
        return _numbers(call, sizes)
    parts = [
        call.nodes.size(size) if isinstance(size, str) else _numbers(call, [size]) for size in shape
    ]
    return call.nodes.add("Concat", *parts, axis=0)


def _write_size(call: OnnxCall) -> str:
    count = call.nodes.size(call.settings[0])
    return call.nodes.cast(call.nodes.add("Squeeze", count, _numbers(call, [0])), "int32")


def _write_slice(call: OnnxCall, x: str) -> str:
    axis, first, end, step = call.settings
    return call.nodes.add("Slice", x, *(_numbers(call, [one]) for one in (first, end, axis, step)))


def _write_dot(call: OnnxCall, x: str, y: str) -> str:
    left, right = (len(one.shape) for one in call.inputs)
    summed_left, summed_right, kept_left, kept_right = call.settings
    if not kept_left and right == 2 and summed_left == (left - 1,) and summed_right == (0,):
        return call.nodes.add("MatMul", x, y)
    letters = iter(ascii_lowercase)
    first = [next(letters) for _ in range(left)]
    second = [""] * right
    for own, other in zip((*summed_left, *kept_left), (*summed_right, *kept_right), strict=True):
        second[other] = first[own]
    second = [one or next(letters) for one in second]
    result = [first[axis] for axis in kept_left]
    result += [first[axis] for axis in free_axes(left, summed_left, kept_left)]
    result += [second[axis] for axis in free_axes(right, summed_right, kept_right)]
    equation = f"{''.join(first)},{''.join(second)}->{''.join(result)}"
    return call.nodes.add("Einsum", x, y, equation=equation)


# The table


def _elementwise(
    name: str, inputs: int, takes: str, numpy: Any, onnx: Any,
    gives: str | None = None, also: tuple[str, ...] = (),
) -> OperationType:  # fmt: skip
    """An elementwise operation, which has the name of a JAX primitive."""
    spec = partial(_elementwise_spec, takes, gives)
    return OperationType(name, inputs, spec, numpy, onnx, (name, *also), elementwise=True)


def _reducing(name: str, takes: str, ufunc: np.ufunc, onnx: Any, primitive: str) -> OperationType:
    spec, numpy = partial(_reduced_spec, takes), partial(_reduction, ufunc)
    return OperationType(name, 1, spec, numpy, onnx, (primitive,), reduces=True)


_ROWS = (
    _elementwise("neg", 1, "numbers", np.negative, "Neg"),
    _elementwise("abs", 1, "numbers", np.absolute, "Abs"),
    _elementwise("sign", 1, "numbers", np.sign, "Sign"),
    _elementwise("exp", 1, "floats", np.exp, "Exp"),
    _elementwise("log", 1, "floats", np.log, "Log"),
    _elementwise("log1p", 1, "floats", np.log1p, _write_log1p),
    _elementwise("expm1", 1, "floats", np.expm1, _write_expm1),
    _elementwise("tanh", 1, "floats", np.tanh, "Tanh"),
    _elementwise("sqrt", 1, "floats", np.sqrt, "Sqrt"),
    _elementwise("logistic", 1, "floats", lambda settings: _logistic, "Sigmoid"),
    _elementwise("floor", 1, "floats", np.floor, "Floor"),
    _elementwise("is_finite", 1, "floats", np.isfinite, _write_is_finite, "bool"),
    _elementwise("add", 2, "numbers", np.add, "Add", also=("add_any",)),
    _elementwise("sub", 2, "numbers", np.subtract, "Sub"),
    _elementwise("mul", 2, "numbers", np.multiply, "Mul"),
    _elementwise("div", 2, "floats", np.divide, "Div"),
    _elementwise("max", 2, "numbers", np.maximum, "Max"),
    _elementwise("min", 2, "numbers", np.minimum, "Min"),
    _elementwise("pow", 2, "floats", np.power, "Pow"),
    _elementwise("lt", 2, "anything", np.less, "Less", "bool"),
    _elementwise("le", 2, "anything", np.less_equal, "LessOrEqual", "bool"),
    _elementwise("gt", 2, "anything", np.greater, "Greater", "bool"),
    _elementwise("ge", 2, "anything", np.greater_equal, "GreaterOrEqual", "bool"),
    _elementwise("eq", 2, "anything", np.equal, "Equal", "bool"),
    _elementwise(
        "ne", 2, "anything", np.not_equal,
        lambda call, x, y: call.nodes.add("Not", call.nodes.add("Equal", x, y)), "bool",
    ),
    _elementwise("and", 2, "truth", np.logical_and, "And"),
    _elementwise("or", 2, "truth", np.logical_or, "Or"),
    _elementwise("not", 1, "truth", np.logical_not, "Not"),
    OperationType(
        "where", 3, _where_spec, lambda settings: np.where, "Where", elementwise=True
    ),
    OperationType(
        "cast", 1, _cast_spec, lambda settings: methodcaller("astype", np.dtype(settings[0])),
        lambda call, x: call.nodes.cast(x, call.result.dtype), elementwise=True,
    ),
    _reducing("sum", "numbers", np.add, partial(_write_reduction, "ReduceSum"), "reduce_sum"),
    _reducing("largest", "numbers", np.maximum, partial(_write_reduction, "ReduceMax"),
              "reduce_max"),
    _reducing("smallest", "numbers", np.minimum, partial(_write_reduction, "ReduceMin"),
              "reduce_min"),
    _reducing("any", "truth", np.logical_or, partial(_write_truth, "ReduceMax"), "reduce_or"),
    _reducing("all", "truth", np.logical_and, partial(_write_truth, "ReduceMin"), "reduce_and"),
    OperationType(
        "reshape", 1, _reshaped_spec, partial(_in_shape, np.reshape),
        lambda call, x: call.nodes.add("Reshape", x, _write_shape(call, call.inputs[0].shape)),
        sized=True,
    ),
    OperationType(
        "broadcast", 1, _broadcast_spec, partial(_in_shape, np.broadcast_to),
        lambda call, x: call.nodes.add("Expand", x, _write_shape(call, ())), sized=True,
    ),
    OperationType(
        "transpose", 1, _transposed_spec, lambda settings: methodcaller("transpose", settings),
        lambda call, x: call.nodes.add("Transpose", x, perm=list(call.settings)),
    ),
    OperationType("slice", 1, _sliced_spec, _part, _write_slice),
    OperationType(
        "concatenate", None, _concatenated_spec,
        lambda settings: lambda *parts: np.concatenate(parts, settings[0]),
        lambda call, *parts: call.nodes.add("Concat", *parts, axis=call.settings[0]),
    ),
    OperationType(
        "dot", 2, _dot_spec, lambda settings: lambda x, y: dot(x, y, settings), _write_dot
    ),
    OperationType(
        "take", 2, lambda settings, inputs: Spec(inputs[1].shape, inputs[0].dtype),
        lambda settings: lambda x, places: x[places], "Gather", in_model_files=False,
    ),
    OperationType(
        "size", 0, _size_spec,
        lambda settings: lambda sets, items: np.int32(sets if settings[0] == "sets" else items),
        _write_size, sized=True,
    ),
    OperationType(
        "literal", 0, _literal_spec,
        lambda settings: lambda: np.dtype(settings[1]).type(settings[0]),
        lambda call: call.nodes.constant(np.dtype(call.settings[1]).type(call.settings[0])),
    ),
    TREES,
    PIECES,
    OperationType("input", 0, _given_spec),
    OperationType("weight", 0, _given_spec),
)  # fmt: skip

OPERATIONS: dict[str, OperationType] = {row.name: row for row in _ROWS}
"""The table: every operation by its name."""
