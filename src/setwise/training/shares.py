"""Which process takes which sets of a batch, where several train together.

The batches of an epoch are those that one process would have: how many processes there are changes
nothing but who computes what. Each batch is put in the order in which its sets are read and cut
into equal parts, so that process p reads about the p-th part of a shard: the others' sets are not
even in the pages that it reads.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from setwise.training.group import Group


class Batches(NamedTuple):
    """The steps of a shard: set numbers (-1: none) and the bucket of each step (-1: idle).

    ``places`` says where each set stands in the whole batch, if these are a process's share.
    """

    sets: Int[np.ndarray, "steps batch"]
    numbers: Int[np.ndarray, " steps"]
    places: Int[np.ndarray, "steps batch"] | None = None


def share(batches: Batches, group: Group) -> Batches:
    """The batches with this process's part of the sets; all processes' parts are equally wide.

    >>> whole = Batches(np.array([[7, 2, 5, 3, 4], [6, 1, -1, -1, -1]]), np.array([0, 0]))
    >>> [share(whole, Group(2, place)).sets.tolist() for place in (0, 1)]
    [[[2, 3, -1], [1, -1, -1]], [[4, 5, 7], [6, -1, -1]]]
    >>> share(whole, Group(2, 1)).places.tolist()
    [[4, 2, 0], [0, 0, 0]]
    """
    if group.size == 1:
        return batches
    order, counts = _read_order(batches.sets)
    wide = -(-batches.sets.shape[1] // group.size)
    begin, end = (counts * part // group.size for part in (group.place, group.place + 1))
    rank = begin[:, None] + np.arange(wide)
    mine = rank < end[:, None]
    places = np.take_along_axis(order, np.where(mine, rank, 0), 1)
    sets = np.where(mine, np.take_along_axis(batches.sets, places, 1), -1)
    return Batches(
        sets.astype(np.int32), batches.numbers, np.where(mine, places, 0).astype(np.int32)
    )


def largest_share(
    batches: Batches, sizes: Int[np.ndarray, " sets"], processes: int
) -> tuple[int, int]:
    """The most rows, and the most sets, that a process takes of batches of sets of these sizes.

    >>> whole = Batches(np.array([[7, 2, 5, 3, 4], [6, 1, -1, -1, -1]]), np.array([0, 0]))
    >>> largest_share(whole, np.full(8, 10), 2)
    (40, 4)
    """
    order, counts = _read_order(batches.sets)
    rank = np.arange(order.shape[1])
    real = rank < counts[:, None]
    # The process p of which floor(p c / P) <= rank < floor((p + 1) c / P), with c sets in all.
    owner = ((rank + 1) * processes - 1) // np.maximum(counts, 1)[:, None]
    sets = np.take_along_axis(batches.sets, order, 1)[real]
    rows = np.bincount(owner[real], sizes[sets], minlength=processes)
    return int(rows.max()), int(np.bincount(owner[real], minlength=processes).max())


def _read_order(
    sets: Int[np.ndarray, "steps batch"],
) -> tuple[Int[np.ndarray, "steps batch"], Int[np.ndarray, " steps"]]:
    """The places of each batch's sets in the order of their numbers, and how many there are."""
    last = np.iinfo(np.int32).max
    return np.argsort(np.where(sets < 0, last, sets), axis=1), (sets >= 0).sum(1)
