"""Products of arrays as calls of BLAS: the fewest and the largest that the layout allows.

Operations as functions of the values so far: compiled once, called for every block of sets.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from setwise.scoring.graph import (
    REDUCERS,
    UFUNCS,
    Graph,
    Operation,
    Shape,
    Spec,
    computed,
    free_axes,
)

Product = Callable[[Any, Any], np.ndarray]

ALONE = 262_144
"""Multiplications up to which OpenBLAS, which NumPy comes with, uses one thread. More threads wait
for one another: where the cores are busy, as in a service, a product then takes a hundred times as
long, and where they are not, it gains little at such sizes."""
FEWEST_ROWS = 4


def product_of(settings: tuple[Any, ...], left: Spec, right: Spec, constant: Any) -> Product:
    """A function of the left and the right value; ``constant`` is the right one if it is known.

    >>> x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    >>> over = ((2,), (0,), (), ())
    >>> w = np.ones(3, np.float32)
    >>> times = product_of(over, Spec(("sets", "items", 3), "float32"), Spec((3,), "float32"), w)
    >>> times(x, w).tolist()
    [[3.0, 12.0]]
    """
    summed_left, summed_right, kept_left, kept_right = settings
    rows = free_axes(len(left.shape), summed_left, kept_left)
    columns = free_axes(len(right.shape), summed_right, kept_right)
    order_left, order_right = (*kept_left, *rows, *summed_left), (
        *kept_right, *summed_right, *columns
    )  # fmt: skip
    if constant is None:
        return _of_values(order_left, order_right, len(kept_left), len(rows), len(columns))
    kept = tuple(right.shape[axis] for axis in kept_right)
    terms = [right.shape[axis] for axis in summed_right]
    width = tuple(right.shape[axis] for axis in columns)
    matrix = np.ascontiguousarray(
        constant.transpose(order_right).reshape(*kept, int(np.prod(terms)), -1)
    )
    if not kept:
        return _by_matrix(order_left, len(rows), matrix, width)
    return _by_matrices(order_left, len(rows), matrix, kept, width)


def _by_matrix(order: tuple[int, ...], rows: int, matrix: np.ndarray, width: Any) -> Product:
    """All rows times one matrix."""
    terms, columns = matrix.shape
    plain = order == tuple(range(len(order)))
    at_once = _rows_at_once(terms, columns)

    def product(x: np.ndarray, _: Any) -> np.ndarray:
        x = x if plain else x.transpose(order)
        flat = x.reshape(-1, terms)
        if len(flat) <= at_once:
            out = np.dot(flat, matrix)
        else:
            out = np.empty((len(flat), columns), np.float32)
            _in_parts(flat, matrix, out, at_once)
        return out.reshape(x.shape[:rows] + width)

    return product


def _by_matrices(
    order: tuple[int, ...], rows: int, matrices: np.ndarray, kept: tuple[Any, ...], width: Any
) -> Product:
    """A matrix for each member of an ensemble: one call a member, for the rows of all sets.

    The result lies in memory as rows x members x columns, whatever its axes: so do biases, and
    long runs of memory are what NumPy adds fastest.
    """
    k, terms, columns = len(kept), matrices.shape[-2], matrices.shape[-1]
    inner, outer = (*range(1, k + 1), 0, k + 1), (*range(rows, rows + k), *range(rows))
    at_once = _rows_at_once(terms, columns)

    def product(x: np.ndarray, _: Any) -> np.ndarray:
        x = x.transpose(order)
        free = x.shape[k : k + rows]
        flat = x.reshape(*kept, -1, terms)
        out = np.empty((flat.shape[-2], *kept, columns), np.float32)
        if len(out) <= at_once:
            np.matmul(flat, matrices, out=out.transpose(inner))
        else:
            _in_parts(flat, matrices, out.transpose(inner), at_once)
        whole = out.reshape(free + kept + width)
        return whole.transpose(outer + tuple(range(rows + k, whole.ndim)))

    return product


def _rows_at_once(terms: int, columns: int) -> int:
    return max(FEWEST_ROWS, ALONE // (terms * columns))


def _in_parts(x: np.ndarray, matrices: np.ndarray, out: np.ndarray, at_once: int) -> None:
    """``x @ matrices`` into ``out``, so many rows in each call of BLAS."""
    *kept, rows, terms = x.shape
    whole = rows // at_once * at_once
    parts = x[..., :whole, :].reshape(*kept, -1, at_once, terms)
    into = out[..., :whole, :].reshape(*kept, -1, at_once, out.shape[-1])
    np.matmul(parts, matrices[..., None, :, :], out=into)
    if whole < rows:
        np.matmul(x[..., whole:, :], matrices, out=out[..., whole:, :])


def _of_values(
    left: tuple[int, ...], right: tuple[int, ...], kept: int, rows: int, columns: int
) -> Product:
    """Of two values that the data decide: one call a set."""
    summed = len(left) - kept - rows
    matrices = rows == 1 and summed == 1

    def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        x, y = x.transpose(left), y.transpose(right)
        if matrices and columns == 1:
            return np.matmul(_for_blas(x), _for_blas(y))
        shape = x.shape[: kept + rows] + y.shape[y.ndim - columns :]
        terms = int(np.prod(x.shape[kept + rows :]))
        a = _for_blas(x if matrices else x.reshape(*x.shape[:kept], -1, terms))
        b = _for_blas(y.reshape(*y.shape[:kept], terms, -1))
        return np.matmul(a, b).reshape(shape)

    return product


def _for_blas(x: np.ndarray) -> np.ndarray:
    """The array itself if BLAS can read its matrices, or a copy: NumPy's own product is slow."""
    near = x.strides[-2:]
    return x if x.itemsize in near else np.ascontiguousarray(x)


Values = list[Any]
"""Of every operation, its value; then the number of sets and the number of items."""

Step = Callable[[Values], None]


def step_of(graph: Graph, place: int, over: int | None, arrays: Mapping[int, np.ndarray]) -> Step:
    """What computes the value at this place; ``over`` is the input whose memory it may take."""
    one = graph.operations[place]
    if one.name in UFUNCS:
        return _ufunc(UFUNCS[one.name], one.inputs, place, over)
    if one.name in REDUCERS:
        dtype = np.dtype(graph.specs[place].dtype)
        return _reduction(REDUCERS[one.name].reduce, one.inputs[0], place, one.settings, dtype)
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
