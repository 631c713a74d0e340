"""A graph that was read from a file: every operation makes sense, and none needs much memory.

A file's checksum finds accidents, not intent. So nothing that a graph says is trusted before it was
checked here: not the number of its operations, not what they take, not how large their values are.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from setwise._errors import InputError
from setwise.scoring.graph import (
    BINARY,
    COMPARISONS,
    LOGICAL,
    REDUCTIONS,
    UNARY,
    Graph,
    Operation,
    Shape,
    Spec,
    broadcast_shape,
    spec_of,
)

MOST_AXES = 8
MOST_CONSTANT = 1 << 24, 64
"""How many numbers the constants of a graph have in all: at least so many are allowed, and so many
times those of the file's arrays. The models have up to 30 times as many."""
MOST_OF_AN_ITEM = 1 << 20, 16
"""The same of all values that data decide, for one item of one set. Models have up to 11 times."""

WHOLE = ("neg", "abs", "sign", "add", "sub", "mul", "max", "min")
"""Operations that are for whole numbers, too."""
DTYPES = ("bool", "int32", "int64", "float32", "float64")
INPUTS = {"items": ("float32", True), "present": ("bool", False)}
"""The type of each input, and whether it has the features of items."""


def checked(graph: Graph, arrays: Mapping[str, np.ndarray], width: int) -> Graph:
    """The graph, if it computes scores of items of so many features from these arrays."""
    specs: list[Spec] = []
    for place, one in enumerate(graph.operations):
        try:
            specs.append(_checked(one, specs, arrays, width))
        except (InputError, TypeError, ValueError, LookupError) as error:
            raise InputError(f"operation {place} ('{one.name}') of the graph: {error}") from None
    if specs[-1] != Spec(("sets", "items"), "float32"):
        raise InputError(f"the graph's result is {specs[-1].dtype} of shape {specs[-1].shape}")
    _check_sizes(specs, arrays)
    return graph


def _checked(
    one: Operation, specs: Sequence[Spec], arrays: Mapping[str, np.ndarray], width: int
) -> Spec:
    """Shape and type of what the operation makes, after all checks."""
    if one.name not in _CHECKS:
        raise ValueError("this setwise does not know it; upgrade setwise")
    if not all(_is_whole(number) and number < len(specs) for number in one.inputs):
        raise ValueError("it takes values that were not made before")
    arity, check = _CHECKS[one.name]
    inputs = [specs[number] for number in one.inputs]
    if len(inputs) != arity and (arity is not None or not inputs):
        raise ValueError(f"it takes {len(inputs)} values")
    check(one.name, one.settings, inputs)
    made = spec_of(one.name, one.settings, inputs)
    _check_shape(made.shape)
    if made.dtype not in DTYPES:
        raise ValueError(f"there is no type {made.dtype}")
    if one.name == "weight":
        _check_weight(one.settings[0], made, arrays)
    if one.name == "input":
        dtype, of_item = INPUTS[one.settings[0]]
        shape: Shape = ("sets", "items", width) if of_item else ("sets", "items")
        if made != Spec(shape, dtype):
            raise ValueError(f"the data have not the shape {made.shape} or the type {made.dtype}")
    return made


def _check_weight(name: str, spec: Spec, arrays: Mapping[str, np.ndarray]) -> None:
    found = arrays.get(name)
    if found is None or (found.shape, found.dtype.name) != spec:
        raise ValueError(f"the weight '{name}' does not fit the file's arrays")
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise ValueError(f"the weight '{name}' has values that are not finite numbers")


def _check_shape(shape: Any) -> None:
    named = [size for size in shape if isinstance(size, str)]
    sound = set(named) <= {"sets", "items"} and named.count("sets") <= 1 and len(named) <= 3
    numbers = all(_is_whole(size) and size > 0 for size in shape if not isinstance(size, str))
    if len(shape) > MOST_AXES or not sound or not numbers:
        raise ValueError(f"{shape} is not a shape")


def _check_sizes(specs: Sequence[Spec], arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse a graph that would need much more memory than the file that it is in."""
    held = sum(array.size for array in arrays.values())
    sizes = {False: 0, True: 0}
    for spec in specs:
        fixed = [size for size in spec.shape if not isinstance(size, str)]
        sizes[len(fixed) < len(spec.shape)] += math.prod(fixed)
    bounds = {False: MOST_CONSTANT, True: MOST_OF_AN_ITEM}
    for of_data, (least, times) in bounds.items():
        if sizes[of_data] > max(least, times * held):
            what = "values of an item" if of_data else "constants"
            raise InputError(
                f"the graph's {what} would have {sizes[of_data]:,} numbers, and the file's arrays "
                f"have {held:,}"
            )


def _is_whole(value: Any) -> bool:
    return type(value) is int and value >= 0


def _axes(axes: Any, rank: int) -> None:
    if not all(_is_whole(axis) and axis < rank for axis in axes) or len(set(axes)) != len(axes):
        raise ValueError(f"a value of {rank} axes has no axes {axes}")


def _same(values: Sequence[Any], what: str) -> None:
    if any(value != values[0] for value in values):
        raise ValueError(f"{what} differ: {', '.join(map(str, values))}")


def _check_numbers(name: str, settings: tuple[Any, ...], inputs: list[Spec]) -> None:
    if settings:
        raise ValueError(f"it has no settings, such as {settings}")
    numbers = inputs[1:] if name == "where" else inputs
    _same([one.dtype for one in numbers], "types")
    dtype = numbers[0].dtype
    if (name in LOGICAL and dtype != "bool") or (name == "where" and inputs[0].dtype != "bool"):
        raise ValueError(f"it is not for {dtype}")
    arithmetic = name in UNARY or name in BINARY or name == "is_finite"
    if arithmetic and not (dtype.startswith("float") or (name in WHOLE and dtype != "bool")):
        raise ValueError(f"it is not for {dtype}")


def _check_reduction(name: str, settings: tuple[Any, ...], inputs: list[Spec]) -> None:
    _axes(settings, len(inputs[0].shape))
    if not settings or (inputs[0].dtype == "bool") != (name in ("any", "all")):
        raise ValueError(f"it is not for {inputs[0].dtype} over the axes {settings}")


def _check_reshape(name: str, settings: Shape, inputs: list[Spec]) -> None:
    _check_shape(settings)

    def size(shape: Shape) -> tuple[int, list[str]]:
        return (
            math.prod(one for one in shape if isinstance(one, int)),
            sorted(one for one in shape if isinstance(one, str)),
        )

    if size(settings) != size(inputs[0].shape):
        raise ValueError(f"{inputs[0].shape} has another size than {settings}")


def _check_broadcast(name: str, settings: Shape, inputs: list[Spec]) -> None:
    _check_shape(settings)
    if broadcast_shape([inputs[0].shape, settings]) != settings:
        raise ValueError(f"{inputs[0].shape} does not become {settings}")


def _check_transpose(name: str, settings: tuple[Any, ...], inputs: list[Spec]) -> None:
    _axes(settings, len(inputs[0].shape))
    if len(settings) != len(inputs[0].shape):
        raise ValueError(f"{settings} is not an order of {len(inputs[0].shape)} axes")


def _check_slice(name: str, settings: tuple[Any, ...], inputs: list[Spec]) -> None:
    axis, first, end, step = settings
    _axes((axis,), len(inputs[0].shape))
    size: Any = inputs[0].shape[axis]
    whole = all(map(_is_whole, (size, first, end, step)))
    if not whole or not first < end <= size or step == 0:
        raise ValueError(f"an axis of length {size} has no part {first}:{end}:{step}")


def _check_concatenate(name: str, settings: tuple[Any, ...], inputs: list[Spec]) -> None:
    (axis,) = settings
    _axes((axis,), len(inputs[0].shape))
    _same([(*one.shape[:axis], *one.shape[axis + 1 :], one.dtype) for one in inputs], "parts")
    if not all(_is_whole(one.shape[axis]) for one in inputs):
        raise ValueError("data are not joined along their sets or items")


def _check_dot(name: str, settings: tuple[Any, ...], inputs: list[Spec]) -> None:
    left, right = inputs
    of_left, of_right, kept_left, kept_right = settings
    _axes((*of_left, *kept_left), len(left.shape))
    _axes((*of_right, *kept_right), len(right.shape))
    _same([left.dtype, right.dtype], "types")
    for own, other in ((of_left, of_right), (kept_left, kept_right)):
        lengths = [left.shape[axis] for axis in own], [right.shape[axis] for axis in other]
        _same(lengths, "lengths of axes")
    if not left.dtype.startswith("float"):
        raise ValueError(f"it is not for {left.dtype}")


def _check_given(name: str, settings: tuple[Any, ...], inputs: list[Spec]) -> None:
    called, dtype, shape = settings
    if not isinstance(called, str) or not isinstance(dtype, str) or not isinstance(shape, tuple):
        raise TypeError("its name, type or shape is something else")
    if name == "input" and called not in INPUTS:
        raise ValueError(f"there is no input '{called}'")


def _check_literal(name: str, settings: tuple[Any, ...], inputs: list[Spec]) -> None:
    value, dtype = settings
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"there is no type {dtype}")
    number = type(value) in (int, float) or value in ("inf", "-inf", "nan")
    kinds = {"b": type(value) is bool, "i": type(value) is int, "f": number}
    if not kinds[np.dtype(dtype).kind]:
        raise ValueError(f"{value!r} is not of type {dtype}")
    if type(value) is int and dtype != "bool" and abs(value) >= 2**31:
        raise ValueError(f"{value} is too large")


def _check_cast(name: str, settings: tuple[Any, ...], inputs: list[Spec]) -> None:
    (dtype,) = settings
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"there is no type {dtype}")


def _check_size(name: str, settings: tuple[Any, ...], inputs: list[Spec]) -> None:
    if settings not in (("sets",), ("items",)):
        raise ValueError(f"there is no size {settings}")


_Check = Callable[[str, tuple[Any, ...], list[Spec]], None]
_CHECKS: dict[str, tuple[int | None, _Check]] = {
    **dict.fromkeys((*UNARY, "not", "is_finite"), (1, _check_numbers)),
    **dict.fromkeys((*BINARY, *COMPARISONS, "and", "or"), (2, _check_numbers)),
    **dict.fromkeys(REDUCTIONS, (1, _check_reduction)),
    "where": (3, _check_numbers),
    "input": (0, _check_given),
    "weight": (0, _check_given),
    "literal": (0, _check_literal),
    "size": (0, _check_size),
    "cast": (1, _check_cast),
    "reshape": (1, _check_reshape),
    "broadcast": (1, _check_broadcast),
    "transpose": (1, _check_transpose),
    "slice": (1, _check_slice),
    "concatenate": (None, _check_concatenate),
    "dot": (2, _check_dot),
}
"""Of every operation, how many values it takes (None: any number) and what its settings are."""
