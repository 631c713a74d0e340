"""Products of a graph's values in NumPy: the fewest and largest calls of BLAS.

Values lie in memory with the sets last, next to them the items, and before both the other axes:
see :func:`sets_last`. A product with constants then is one matrix times all rows at once.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from setwise.scoring.operation_types import Settings, Shape, Spec
from setwise.scoring.operations import free_axes

Product = Callable[[Any, Any], np.ndarray]

ALONE = 262_144
"""Multiplications up to which OpenBLAS, which NumPy comes with, uses one thread. More threads wait
for one another: where the cores are busy, as in a service, a product then takes a hundred times as
long, and where they are not, it gains little at such sizes."""
ONE_THREAD = "OPENBLAS_NUM_THREADS"
"""Where this environment variable says 1, products need not be divided."""
FEWEST_ROWS = 4


def memory_order(shape: Shape) -> tuple[int, ...]:
    """The axes of a value in the order in which they lie in memory.

    >>> memory_order(("sets", "items", 8))
    (2, 1, 0)
    """
    weight = {"items": 1, "sets": 2}
    return tuple(sorted(range(len(shape)), key=lambda axis: weight.get(str(shape[axis]), 0)))


def sets_last(x: np.ndarray, shape: Shape) -> np.ndarray:
    """The same array with the sets last in memory, whatever its axes.

    What is the same for all items of a set, or for all sets, then meets long runs of numbers: NumPy
    adds a number to many as fast as it adds many to many, and a few to a few ten times as slowly.
    """
    order = memory_order(shape)
    return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))


def product_of(settings: Settings, left: Spec, right: Spec, constant: Any) -> Product:
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
    if constant is not None:
        kept = [right.shape[axis] for axis in kept_right]
        matrices = constant.transpose(*kept_right, *columns, *summed_right)
        width = matrices.shape[len(kept) : len(kept) + len(columns)]
        whole = np.ascontiguousarray(matrices).reshape(*kept, int(np.prod(width)), -1)
        return _by_constant(left.shape, (kept_left, summed_left, rows), whole, width)
    order_left, order_right = (*kept_left, *rows, *summed_left), (
        *kept_right, *summed_right, *columns
    )  # fmt: skip
    if not rows or not columns:
        order_right = (*kept_right, *columns, *summed_right)
        return _elementwise(order_left, order_right, len(kept_left), len(rows), len(columns))
    made = [left.shape[axis] for axis in (*kept_left, *rows)]
    shape = (*made, *(right.shape[axis] for axis in columns))
    return _of_values(order_left, order_right, len(kept_left), len(rows), shape)


def _by_constant(
    shape: Shape, axes: tuple[Sequence[int], ...], matrices: np.ndarray, width: tuple[int, ...]
) -> Product:
    """All rows times one matrix, or times a matrix for each member of an ensemble.

    The matrices are columns x terms, and the result lies in memory as members x columns x rows.
    """
    kept, summed, rows = axes
    near = [axis for axis in memory_order(shape) if axis in rows]
    order = (*kept, *summed, *near)
    k, w = len(kept), len(width)
    back = (
        *range(k), *(k + w + near.index(axis) for axis in rows), *range(k, k + w)
    )  # fmt: skip
    columns, terms = matrices.shape[-2:]
    at_once = _rows_at_once(terms, columns)

    def product(x: np.ndarray, _: Any) -> np.ndarray:
        x = x.transpose(order)
        members, free = x.shape[:k], x.shape[k + len(summed) :]
        flat = x.reshape(*members, terms, -1)
        count = flat.shape[-1]
        if count <= at_once:
            out = np.matmul(matrices, flat)
        else:
            out = np.empty((*members, columns, count), np.float32)
            _in_parts(matrices, flat, out, at_once)
        return out.reshape(members + width + free).transpose(back)

    return product


def _rows_at_once(terms: int, columns: int) -> int:
    if os.environ.get(ONE_THREAD) == "1":
        return np.iinfo(np.int64).max
    return max(FEWEST_ROWS, ALONE // (terms * columns))


def _in_parts(matrices: np.ndarray, x: np.ndarray, out: np.ndarray, at_once: int) -> None:
    """``matrices @ x`` into ``out``, ``at_once`` rows in each call of BLAS."""
    *kept, terms, rows = x.shape
    whole = rows // at_once * at_once
    parts = x[..., :whole].reshape(*kept, terms, -1, at_once).swapaxes(-3, -2)
    into = out[..., :whole].reshape(*kept, out.shape[-2], -1, at_once).swapaxes(-3, -2)
    np.matmul(matrices[..., None, :, :], parts, out=into)
    if whole < rows:
        np.matmul(matrices, x[..., whole:], out=out[..., whole:])


def _elementwise(
    left: tuple[int, ...], right: tuple[int, ...], kept: int, rows: int, columns: int
) -> Product:
    """The product of two values that depend on the data, one of which has no axes of its own."""
    summed = len(left) - kept - rows
    place = (slice(None),) * kept + (None,) * max(rows, columns)
    axes = tuple(range(kept + rows + columns, kept + rows + columns + summed))

    def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        x, y = x.transpose(left), y.transpose(right)
        both = np.multiply(x[place], y) if columns else np.multiply(x, y[place])
        return np.asarray(np.add.reduce(both, axes))

    return product


def _of_values(
    left: tuple[int, ...], right: tuple[int, ...], kept: int, rows: int, made: Shape
) -> Product:
    """The product of two values that depend on the data: one call per set."""
    matrices = rows == 1 and len(left) - kept == 2

    def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        x, y = x.transpose(left), y.transpose(right)
        shape = x.shape[: kept + rows] + y.shape[kept + len(left) - kept - rows :]
        terms = int(np.prod(x.shape[kept + rows :]))
        a = _for_blas(x if matrices else x.reshape(*x.shape[:kept], -1, terms))
        b = _for_blas(y.reshape(*y.shape[:kept], terms, -1))
        return sets_last(np.matmul(a, b).reshape(shape), made)

    return product


def _for_blas(x: np.ndarray) -> np.ndarray:
    """The array itself if BLAS can read its matrices, or a copy: NumPy's own product is slow."""
    near = x.strides[-2:]
    return x if x.itemsize in near else np.ascontiguousarray(x)
