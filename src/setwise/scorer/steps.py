"""Operations as functions of the values so far: compiled once, called for every block of sets."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from setwise.graph import Graph, Operation
from setwise.graph.meaning import REDUCTIONS, UFUNCS, computed
from setwise.graph.specs import Shape
from setwise.scorer.products import product_of

Values = list[Any]
"""Of every operation, its value; then the number of sets and the number of items."""

Step = Callable[[Values], None]


def step_of(graph: Graph, place: int, over: int | None, arrays: Mapping[int, np.ndarray]) -> Step:
    """What computes the value at this place; ``over`` is the input whose memory it may take."""
    one = graph.operations[place]
    if one.name in UFUNCS:
        return _ufunc(UFUNCS[one.name], one.inputs, place, over)
    if one.name in REDUCTIONS:
        dtype = np.dtype(graph.specs[place].dtype)
        return _reduction(REDUCTIONS[one.name].reduce, one.inputs[0], place, one.settings, dtype)
    if one.name in _MAKERS:
        return _MAKERS[one.name](graph, place, over)
    if one.name == "dot":
        return _dot(graph, place, arrays)
    return _plain(one, place)


def _ufunc(function: Any, inputs: tuple[int, ...], place: int, over: int | None) -> Step:
    if len(inputs) == 1:
        (x,) = inputs

        def unary(v: Values) -> None:
            v[place] = function(v[x])

        def unary_in_place(v: Values) -> None:
            v[place] = function(v[x], v[x])

        return unary if over is None else unary_in_place
    x, y = inputs

    def binary(v: Values) -> None:
        v[place] = function(v[x], v[y])

    def binary_in_place(v: Values) -> None:
        v[place] = function(v[x], v[y], v[over])  # type: ignore[index]

    return binary if over is None else binary_in_place


def _reduction(reduce: Any, x: int, place: int, axes: tuple[int, ...], dtype: Any) -> Step:
    axis = axes[0] if len(axes) == 1 else axes

    def step(v: Values) -> None:
        v[place] = reduce(v[x], axis, dtype)

    return step


def _where(graph: Graph, place: int, over: int | None) -> Step:
    mask, x, y = graph.operations[place].inputs

    def anew(v: Values) -> None:
        v[place] = np.where(v[mask], v[x], v[y])

    def into_x(v: Values) -> None:
        np.copyto(v[x], v[y], where=np.logical_not(v[mask]))
        v[place] = v[x]

    def into_y(v: Values) -> None:
        np.copyto(v[y], v[x], where=v[mask])
        v[place] = v[y]

    return anew if over is None else into_x if over == x else into_y


def _reshape(graph: Graph, place: int, over: int | None) -> Step:
    (x,) = graph.operations[place].inputs
    index = _as_index(graph.specs[x].shape, graph.specs[place].shape)
    if index is not None:

        def indexed(v: Values) -> None:
            v[place] = v[x][index]

        return indexed
    sized = _sized(graph.specs[place].shape, len(graph.operations))

    def reshaped(v: Values) -> None:
        v[place] = v[x].reshape(sized(v))

    return reshaped


def _as_index(old: Shape, new: Shape) -> tuple[Any, ...] | None:
    """The index that adds and takes away axes of length one, if nothing else changes.

    >>> _as_index(("sets", 8), ("sets", 1, 8))
    (slice(None, None, None), None, slice(None, None, None))
    """
    if [size for size in old if size != 1] != [size for size in new if size != 1]:
        return None
    index: list[Any] = []
    left, right = list(old), list(new)
    while left or right:
        if left and right and left[0] == right[0]:
            left.pop(0), right.pop(0)
            index.append(slice(None))
        elif left and left[0] == 1:
            left.pop(0)
            index.append(0)
        else:
            right.pop(0)
            index.append(None)
    return tuple(index)


def _sized(shape: Shape, operations: int) -> Callable[[Values], tuple[int, ...]]:
    """The shape in numbers, for the sizes of a call."""
    at = {"sets": operations, "items": operations + 1}
    places = [(axis, at[size]) for axis, size in enumerate(shape) if isinstance(size, str)]
    fixed = [0 if isinstance(size, str) else size for size in shape]

    def sized(v: Values) -> tuple[int, ...]:
        sizes = fixed.copy()
        for axis, place in places:
            sizes[axis] = v[place]
        return tuple(sizes)

    return sized


def _broadcast(graph: Graph, place: int, over: int | None) -> Step:
    (x,) = graph.operations[place].inputs
    sized = _sized(graph.specs[place].shape, len(graph.operations))

    def step(v: Values) -> None:
        v[place] = np.broadcast_to(v[x], sized(v))

    return step


def _size(graph: Graph, place: int, over: int | None) -> Step:
    at = len(graph.operations) + ("sets", "items").index(graph.operations[place].settings[0])

    def step(v: Values) -> None:
        v[place] = np.int32(v[at])

    return step


def _cast(graph: Graph, place: int, over: int | None) -> Step:
    (x,), dtype = graph.operations[place].inputs, np.dtype(graph.specs[place].dtype)

    def of_array(v: Values) -> None:
        v[place] = v[x].astype(dtype)

    def of_number(v: Values) -> None:
        v[place] = dtype.type(v[x])

    return of_array if graph.specs[place].shape else of_number


def _transpose(graph: Graph, place: int, over: int | None) -> Step:
    (x,), order = graph.operations[place].inputs, graph.operations[place].settings

    def step(v: Values) -> None:
        v[place] = v[x].transpose(order)

    return step


def _slice(graph: Graph, place: int, over: int | None) -> Step:
    (x,), (axis, *part) = graph.operations[place].inputs, graph.operations[place].settings
    index = (slice(None),) * axis + (slice(*part),)

    def step(v: Values) -> None:
        v[place] = v[x][index]

    return step


def _concatenate(graph: Graph, place: int, over: int | None) -> Step:
    one = graph.operations[place]
    parts, (axis,) = one.inputs, one.settings

    def step(v: Values) -> None:
        v[place] = np.concatenate([v[part] for part in parts], axis)

    return step


def _dot(graph: Graph, place: int, arrays: Mapping[int, np.ndarray]) -> Step:
    one = graph.operations[place]
    x, y = one.inputs
    product = product_of(one.settings, graph.specs[x], graph.specs[y], arrays.get(y))

    def step(v: Values) -> None:
        v[place] = product(v[x], v[y])

    return step


def _plain(one: Operation, place: int) -> Step:
    def step(v: Values) -> None:
        v[place] = computed(one, [v[x] for x in one.inputs], {})

    return step


_MAKERS: dict[str, Callable[[Graph, int, int | None], Step]] = {
    "where": _where,
    "reshape": _reshape,
    "broadcast": _broadcast,
    "size": _size,
    "cast": _cast,
    "transpose": _transpose,
    "slice": _slice,
    "concatenate": _concatenate,
}
