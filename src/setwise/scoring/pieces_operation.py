"""The operation ``pieces``: a matrix times the hat functions of some numbers, in NumPy.

No model file has it. The NumPy scorer puts it where a graph multiplies hat functions (see
:class:`setwise.models.within_set.Hats`) with weights, most of which are then times zero.
"""

from collections.abc import Callable

import numpy as np

from setwise._errors import InputError
from setwise.scoring.operation_types import OperationType, Settings, Spec

MOST_RAMPS = 16
"""Knots of a number up to which a product with all its ramps is faster than looking weights up."""
RAMPS_AT_ONCE, WEIGHTS_AT_ONCE = 1 << 17, 1 << 17
"""Numbers that stay in the processor's cache."""

Product = Callable[[np.ndarray], np.ndarray]


def _spec(settings: Settings, inputs: list[Spec]) -> Spec:
    x, knots, weights = inputs
    count = x.shape[-1] * knots.shape[-1] if isinstance(x.shape[-1], int) else 0
    if len(settings) != 2 or x.shape[:-1] != ("sets", "items") or weights.shape[:1] != (count,):
        raise InputError(f"pieces do not fit values of shape {x.shape}")
    return Spec((*x.shape[:-1], *weights.shape[1:]), x.dtype)


def _numpy(settings: Settings, knots: np.ndarray, weights: np.ndarray) -> Callable[..., np.ndarray]:
    """A function of x, sets x items x numbers.

    With hats max(0, height - |slope x - knot|) whose knots are ``height`` apart, the sum of a
    number's hats times their weights is linear between the knots, where it is height x weight, and
    constant beyond the last ones.
    """
    height, slope = settings
    places = np.unique(knots.astype(np.float64)) / slope
    width = weights.shape[1:]
    at_knots = height * weights.astype(np.float64).reshape(-1, len(places), int(np.prod(width)))
    product = (_by_ramps if len(places) <= MOST_RAMPS else _by_cells)(places, at_knots)

    def pieces(x: np.ndarray) -> np.ndarray:
        numbers = x.transpose(2, 1, 0)
        out = product(numbers.reshape(len(numbers), -1))
        return out.reshape(*width, *numbers.shape[1:]).transpose(
            len(width) + 1, len(width), *range(len(width))
        )

    return pieces


def _by_ramps(places: np.ndarray, at_knots: np.ndarray) -> Product:
    """The value at the first knot, and for each piece its slope times the way gone on it."""
    step = np.diff(places)
    slopes = np.diff(at_knots, axis=1) / step[:, None]
    matrix = np.ascontiguousarray(slopes.reshape(-1, slopes.shape[2]).T, np.float32)
    start = at_knots[:, 0].sum(0).astype(np.float32)[:, None]
    begins, most = places[:-1, None].astype(np.float32), np.float32(step.max())
    at_once = max(1, RAMPS_AT_ONCE // matrix.shape[1])

    def product(x: np.ndarray) -> np.ndarray:
        rows = x.shape[1]
        out = np.empty((len(matrix), rows), np.float32)
        for begin in range(0, rows, at_once):
            some = slice(begin, begin + at_once)
            gone = np.subtract(x[:, None, some], begins)
            np.clip(gone, np.float32(0), most, out=gone)
            np.matmul(matrix, gone.reshape(matrix.shape[1], -1), out=out[:, some])
        out += start
        return out

    return product


def _by_cells(places: np.ndarray, at_knots: np.ndarray) -> Product:
    """The values at the knots on either side, weighed by how near they are."""
    numbers, knots, columns = at_knots.shape
    table = at_knots.reshape(-1, columns).astype(np.float32)
    first = (knots * np.arange(numbers, dtype=np.float32))[:, None]
    at_once = max(1, WEIGHTS_AT_ONCE // (2 * numbers * columns))
    low, scale = np.float32(places[0]), np.float32((knots - 1) / (places[-1] - places[0]))

    def product(x: np.ndarray) -> np.ndarray:
        rows = x.shape[1]
        place = np.clip((x - low) * scale, np.float32(0), np.float32(knots - 1))
        cell = np.minimum(np.floor(place), np.float32(knots - 2))
        shares, knot = np.empty((2, 2, numbers, rows), np.float32)
        np.subtract(place, cell, out=shares[1])
        np.subtract(np.float32(1), shares[1], out=shares[0])
        np.add(cell, first, out=knot[0])
        np.add(knot[0], np.float32(1), out=knot[1])
        near = np.ascontiguousarray(shares.reshape(-1, rows).T)[:, None]
        at = knot.reshape(-1, rows).T.astype(np.intp, order="C")
        out = np.empty((rows, 1, columns), np.float32)
        held = np.empty((min(at_once, rows), 2 * numbers, columns), np.float32)
        for begin in range(0, rows, at_once):
            some = slice(begin, begin + at_once)
            of_some = held[: len(at[some])]
            table.take(at[some], 0, of_some, "clip")
            np.matmul(near[some], of_some, out=out[some])
        return np.ascontiguousarray(out[:, 0].T)

    return product


PIECES = OperationType("pieces", 3, _spec, _numpy, in_model_files=False, weights=2)
