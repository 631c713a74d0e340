"""Packing: sets of similar size together, so that padding stays small and programs stay few.

Rows are never copied into padded arrays. A batch is a vector of set numbers; the compiled step
reads each set's rows from the flat matrix, up to the width of its bucket.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from setwise._shapes import Int


@dataclass(frozen=True, eq=False)
class Bucket:
    """Sets of at most ``width`` items."""

    width: int
    sets: Int[np.ndarray, " m"]


def round_up(size: int) -> int:
    """The next of a few round sizes (at most an eighth above), so that programs are reused.

    >>> [round_up(size) for size in (3, 16, 17, 37, 50, 1000)]
    [3, 16, 18, 40, 52, 1024]
    """
    if size <= 16:
        return size
    step = 1 << (int(size - 1).bit_length() - 4)
    return -(-size // step) * step


def bucket(sizes: Int[np.ndarray, " sets"], most: int = 4, overhead: float = 0.1) -> list[Bucket]:
    """Group sets into at most ``most`` buckets with the least padding in all.

    A bucket beyond the first must save at least the share ``overhead`` of all rows, since each
    adds a program to compile.

    >>> [(b.width, len(b.sets)) for b in bucket(np.array([2, 3, 3, 30, 31]))]
    [(3, 3), (32, 2)]
    """
    widths, counts = np.unique([round_up(int(size)) for size in sizes], return_counts=True)
    edges = _cheapest_edges(widths, counts, most, overhead * float(sizes.sum()))
    place = np.searchsorted(widths[edges], sizes)
    return [Bucket(int(widths[edge]), np.flatnonzero(place == i)) for i, edge in enumerate(edges)]


def _cheapest_edges(
    widths: Int[np.ndarray, " w"], counts: Int[np.ndarray, " w"], most: int, price: float
) -> list[int]:
    """Dynamic programme: best[b][j] is the least cost of widths[: j + 1] in b + 1 buckets."""
    totals = np.cumsum(counts)
    cost = totals * widths.astype(np.float64)
    best, cuts = [cost], [np.full(len(widths), -1)]
    for _ in range(min(most, len(widths)) - 1):
        through = np.full(len(widths), np.inf)
        cut = np.full(len(widths), -1)
        for j in range(1, len(widths)):
            options = best[-1][:j] + (totals[j] - totals[:j]) * float(widths[j]) + price
            cut[j] = int(np.argmin(options))
            through[j] = options[cut[j]]
        best.append(through)
        cuts.append(cut)
    number = int(np.argmin([row[-1] for row in best]))
    edges = [len(widths) - 1]
    while number > 0:
        edges.insert(0, int(cuts[number][edges[0]]))
        number -= 1
    return edges


def common_order(
    epoch: int, counts: Sequence[int]
) -> tuple[Int[np.ndarray, " steps"], Int[np.ndarray, " steps"]]:
    """The order of an epoch's batches, if the buckets have so many: their buckets and places there.

    The place of one batch does not depend on how many others there are. So the orders of all data
    are parts of one that they have in common, and models of different data train in step. Buckets
    are told apart by how many are wider.

    >>> for counts in ([2, 1], [2, 3]):
    ...     print(*zip(*(one.tolist() for one in common_order(0, counts))))
    (0, 1) (1, 0) (0, 0)
    (1, 2) (1, 1) (0, 1) (1, 0) (0, 0)
    """
    priority = [
        np.random.default_rng([epoch, wider]).random(count)
        for wider, count in zip(reversed(range(len(counts))), counts, strict=True)
    ]
    order = np.argsort(np.concatenate(priority), kind="stable")
    numbers = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    places = np.concatenate([np.arange(count, dtype=np.int32) for count in counts])
    return numbers[order], places[order]


def steps_of(buckets: Sequence[Bucket], batch_size: int) -> list[int]:
    """How many batches each bucket fills, the last one perhaps in part."""
    return [-(-len(one.sets) // batch_size) for one in buckets]


def shuffled_batches(
    buckets: list[Bucket], batch_size: int, rng: np.random.Generator, epoch: int
) -> tuple[Int[np.ndarray, "steps batch"], Int[np.ndarray, " steps"]]:
    """One epoch: every set once, in random batches of one bucket each.

    Returns set numbers (-1 fills a bucket's last batch) and each batch's bucket. ``rng`` says which
    sets are together, the epoch alone in which order the buckets come (:func:`common_order`). With
    several buckets, idle steps (bucket -1) round the number up, so that data of about the same size
    share a program.
    """
    counts = steps_of(buckets, batch_size)
    batches = []
    for steps, one in zip(counts, buckets, strict=True):
        order = np.full(steps * batch_size, -1, np.int32)
        order[: len(one.sets)] = rng.permutation(one.sets)
        batches.append(order.reshape(steps, batch_size))
    if len(buckets) == 1:
        return batches[0], np.zeros(counts[0], np.int32)
    numbers, places = common_order(epoch, counts)
    sets = np.stack([batches[number][place] for number, place in zip(numbers, places, strict=True)])
    idle = round_up(len(sets)) - len(sets)
    return (
        np.pad(sets, [(0, idle), (0, 0)], constant_values=-1),
        np.pad(numbers, (0, idle), constant_values=-1),
    )
