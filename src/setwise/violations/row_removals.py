"""Removals for any scoring function: copies of each set with one row less."""

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float, Int

from setwise.choices import Encoded
from setwise.choices.columns import rows_of
from setwise.metrics import predicted
from setwise.training.removals import Removals

ROWS_A_CHUNK = 500_000

Score = Callable[[Encoded], Float[np.ndarray, " rows"]]
"""Scores of all rows, such as log P(x | s): the highest of a set is its predicted item."""


def row_removals(score: Score, encoded: Encoded, outside: bool) -> Removals:
    """As :func:`setwise.training.removals.removals`, for models that are not JAX's.

    >>> two = Encoded(np.array([[3.0], [1], [2], [5], [4]]), np.empty((2, 0)),
    ...               np.array([0, 3, 5]), None, None)
    >>> contrary = lambda part: np.where(np.repeat(part.sizes, part.sizes) > 2, -1, 1) * (
    ...     part.items[:, 0])  # the least of three, the largest of two
    >>> removed = row_removals(contrary, two, outside=False)
    >>> removed.tried.tolist(), removed.changed.tolist()
    ([2, 1], [2, 0])
    """
    whole = score(encoded)
    unsound = np.logical_or.reduceat(np.isnan(whole), encoded.offsets[:-1])
    if unsound.any():
        return Removals(np.zeros(len(encoded), np.int64), np.where(unsound, -1, 0))
    best = np.flatnonzero(predicted(whole, encoded.offsets))
    first = _first_twins(encoded, best)
    can_go = np.ones(len(encoded.items), bool)
    can_go[first] = False
    if outside:
        can_go[encoded.offsets[1:] - 1] = False
    sets = np.repeat(np.arange(len(encoded)), encoded.sizes)
    changed = np.zeros(len(encoded), np.int64)
    for gone in _chunks(np.flatnonzero(can_go), encoded.sizes[sets]):
        owner = sets[gone]
        rows, offsets = _rows_left(encoded, owner, gone)
        left = Encoded(encoded.items[rows], encoded.context[owner], offsets, None, None)
        winner = rows[predicted(score(left), offsets)]
        other = (encoded.items[winner] != encoded.items[first[owner]]).any(1)
        changed += np.bincount(owner[other], minlength=len(encoded))
    return Removals(np.bincount(sets[can_go], minlength=len(encoded)), changed)


def _first_twins(encoded: Encoded, best: Int[np.ndarray, " sets"]) -> Int[np.ndarray, " sets"]:
    """The first row of each set that has the features of its best row."""
    like = encoded.items == np.repeat(encoded.items[best], encoded.sizes, 0)
    return np.flatnonzero(predicted(like.all(1).astype(np.float64), encoded.offsets))


def _chunks(
    rows: Int[np.ndarray, " removals"], sizes: Int[np.ndarray, " rows"]
) -> Iterator[Int[np.ndarray, " some"]]:
    """Rows to take away, in parts whose sets have a bounded number of rows in all."""
    number = np.cumsum(sizes[rows]) // ROWS_A_CHUNK
    return iter(np.split(rows, np.flatnonzero(np.diff(number)) + 1) if len(rows) else [])


def _rows_left(
    encoded: Encoded, owner: Int[np.ndarray, " removals"], gone: Int[np.ndarray, " removals"]
) -> tuple[Int[np.ndarray, " rows"], Int[np.ndarray, " removals_and_one"]]:
    """The rows of each removal's set but the one that is gone, and where each set begins."""
    sizes = encoded.sizes[owner] - 1
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = rows_of(encoded.offsets[owner], sizes)
    return rows + (rows >= np.repeat(gone, sizes)), offsets
