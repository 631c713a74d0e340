"""Products of arrays as calls of BLAS: the fewest and the largest that the layout allows."""

from collections.abc import Callable
from typing import Any

import numpy as np

from setwise.graph.specs import Spec, free_axes

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
