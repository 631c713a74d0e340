"""Packing: sets of similar size together, so that padding stays small and programs stay few.

Rows are never copied into padded arrays. A batch is a vector of set numbers; the compiled step
reads each set's rows from the flat matrix, up to the width of its bucket.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int


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


def shuffled_batches(
    buckets: list[Bucket], batch_size: int, rng: np.random.Generator
) -> tuple[Int[np.ndarray, "steps batch"], Int[np.ndarray, " steps"]]:
    """One epoch: every set once, batches of one bucket each, in random order.

    Returns set numbers (-1 fills a bucket's last batch) and each batch's bucket. With several
    buckets, idle steps (bucket -1) round the number up, so that data of about the same size share
    a program.
    """
    batches, which = [], []
    for number, one in enumerate(buckets):
        steps = -(-len(one.sets) // batch_size)
        order = np.full(steps * batch_size, -1, np.int32)
        order[: len(one.sets)] = rng.permutation(one.sets)
        batches.append(order.reshape(steps, batch_size))
        which.append(np.full(steps, number, np.int32))
    sets, numbers = np.concatenate(batches), np.concatenate(which)
    if len(buckets) == 1:
        return sets, numbers
    mixed = rng.permutation(len(sets))
    idle = round_up(len(sets)) - len(sets)
    return (
        np.concatenate([sets[mixed], np.full((idle, batch_size), -1, np.int32)]),
        np.concatenate([numbers[mixed], np.full(idle, -1, np.int32)]),
    )
