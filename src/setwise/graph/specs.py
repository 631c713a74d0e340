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
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, cast

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
