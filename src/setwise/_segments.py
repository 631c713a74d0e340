"""Operations within sets on flat rows: set i has the rows ``offsets[i]`` up to ``offsets[i + 1]``.

Values have one row per item, set after set, and may have more axes. Every set must have a row.
NumPy only; ``_masked`` has the like for sets that are padded to a common size, in JAX.
"""

import numpy as np

from setwise._shapes import Bool, Float, Int, Shaped

Offsets = Int[np.ndarray, " sets_and_one"]
Rows = Shaped[np.ndarray, "rows *rest"]
Sets = Shaped[np.ndarray, "sets *rest"]


def offsets_of(sizes: Int[np.ndarray, " sets"]) -> Offsets:
    """Where sets of these sizes begin and end.

    >>> offsets_of(np.array([2, 3])).tolist()
    [0, 2, 5]
    """
    return np.concatenate([[0], np.cumsum(sizes)])


def owners(offsets: Offsets) -> Int[np.ndarray, " rows"]:
    """The number of each row's set.

    >>> owners(np.array([0, 2, 5])).tolist()
    [0, 0, 1, 1, 1]
    """
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def positions(offsets: Offsets) -> Int[np.ndarray, " rows"]:
    """The place of each row in its set, from 0.

    >>> positions(np.array([0, 2, 5])).tolist()
    [0, 1, 0, 1, 2]
    """
    return np.arange(int(offsets[-1])) - spread(offsets[:-1], offsets)


def spread(values: Sets, offsets: Offsets) -> Rows:
    """A value per set, repeated for each of its rows.

    >>> spread(np.array([7, 8]), np.array([0, 2, 5])).tolist()
    [7, 7, 8, 8, 8]
    """
    return np.repeat(values, np.diff(offsets), 0)


def sums(values: Rows, offsets: Offsets) -> Sets:
    """The sum over each set; of flags, how many are true.

    >>> sums(np.array([1, 2, 3, 4, 5]), np.array([0, 2, 5])).tolist()
    [3, 12]
    """
    return np.add.reduceat(values, offsets[:-1], dtype=np.int64 if values.dtype == bool else None)


def means(values: Rows, offsets: Offsets) -> Sets:
    """The mean over each set."""
    sizes = np.diff(offsets)
    return sums(values, offsets) / sizes.reshape(-1, *[1] * (values.ndim - 1))


def maxima(values: Rows, offsets: Offsets) -> Sets:
    """The largest value of each set; of flags, whether any is true."""
    return np.maximum.reduceat(values, offsets[:-1])


def minima(values: Rows, offsets: Offsets) -> Sets:
    """The smallest value of each set; of flags, whether all are true."""
    return np.minimum.reduceat(values, offsets[:-1])


def predicted(scores: Float[np.ndarray, " rows"], offsets: Offsets) -> Bool[np.ndarray, " rows"]:
    """True for the best item of each set (the first of equals, so that there is exactly one).

    >>> predicted(np.array([1.0, 2.0, 5.0, 5.0]), np.array([0, 2, 4])).tolist()
    [False, True, True, False]
    """
    best = scores == spread(maxima(scores, offsets), offsets)
    places = np.flatnonzero(best)
    sets = np.searchsorted(offsets, places, side="right") - 1
    first = places[np.concatenate([[True], sets[1:] != sets[:-1]])]
    chosen = np.zeros(len(scores), bool)
    chosen[first] = True
    return chosen


def centred(values: Rows, offsets: Offsets) -> Rows:
    """Each value less the mean of its set."""
    of_rows = spread(means(values, offsets), offsets)
    return np.subtract(values, of_rows, out=of_rows)


def log_sum_exp(values: Rows, offsets: Offsets) -> Sets:
    """log sum exp over each set; minus infinity where all values are.

    >>> np.exp(log_sum_exp(np.log([1.0, 2.0, 3.0]), np.array([0, 2, 3]))).round(6).tolist()
    [3.0, 3.0]
    """
    top = maxima(values, offsets)
    top = np.where(np.isneginf(top), 0, top)
    with np.errstate(divide="ignore"):
        return top + np.log(sums(np.exp(values - spread(top, offsets)), offsets))


def log_softmax(scores: Rows, offsets: Offsets) -> Rows:
    """log P(x | s) = g(x) - log sum exp over s of g."""
    shifted = scores - spread(maxima(scores, offsets), offsets)
    return shifted - spread(np.log(sums(np.exp(shifted), offsets)), offsets)


def softmax(scores: Rows, offsets: Offsets) -> Rows:
    """P(x | s) = exp g(x) / sum over s of exp g.

    >>> softmax(np.log([1.0, 3.0, 5.0]), np.array([0, 2, 3])).round(6).tolist()
    [0.25, 0.75, 1.0]
    """
    odds = np.exp(scores - spread(maxima(scores, offsets), offsets))
    return odds / spread(sums(odds, offsets), offsets)


def ranks(values: Float[np.ndarray, " rows"], offsets: Offsets) -> Float[np.ndarray, " rows"]:
    """The rank within the set, 1 for the largest value; equal values share their mean rank.

    >>> ranks(np.array([5.0, 9.0, 9.0, 1.0]), np.array([0, 3, 4])).tolist()
    [3.0, 1.5, 1.5, 1.0]
    """
    sets = owners(offsets)
    order = np.lexsort((-values, sets))
    place = np.empty(len(order))
    place[order] = positions(offsets) + 1.0
    _, tie = np.unique(np.stack([sets, -values]), axis=1, return_inverse=True)
    tie = tie.reshape(-1)
    return (np.bincount(tie, place) / np.bincount(tie))[tie]
