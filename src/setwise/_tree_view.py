"""What boosted trees see of the items of a set: their columns, and where they stand in the set."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from setwise._errors import InputError
from setwise._shapes import Bool, Float32, Int

WITHIN = ("z-score", "position", "rank", "min", "max", "mean")
"""What trees see of a number in addition to its value."""
FLOOR = 1e-6
"""Columns whose range within a set is at most this count as constant, as networks have it."""
MOST_PAIRS = 100
"""Items of a set up to which all pairs are compared to find ranks; more are sorted."""
ROWS_PER_BLOCK = 1 << 15

Items = Float32[np.ndarray, "sets items width"]
Present = Bool[np.ndarray, "sets items"]
ByColumn = Float32[np.ndarray, "columns items sets"]


@dataclass(frozen=True)
class TreeView:
    """What trees see of each item of a set, as columns of float32.

    First come the plain columns: numbers as they are, and one column for each block of one-hot
    columns, with the place of the level from 1, or 0 if it is none of them. A level's column is
    positive where the item has the level, standardised or not. Then, ``within`` sets, come six
    columns for each number of the items, and last the number of items. The six are where the item
    stands in its set, and how the set is:

        z = (x - mean) / sd     position = (x - min) / (max - min)
        rank = items with a smaller x + half of the others with the same x
        min, max and mean of x in the set

    z and position are 0 where the range of x in the set is at most a millionth. All are computed in
    double precision and then rounded, so that the order of summation does not matter.

    Args:
        own: how many of the encoded columns are the item's own; those that follow are context.
        categories: where each block of one-hot columns begins and ends.
        within: whether trees see more than the plain columns.
    """

    own: int
    categories: tuple[tuple[int, int], ...] = ()
    within: bool = True

    def check(self, width: int) -> None:
        """Refuse a view that does not fit rows of ``width`` columns."""
        ends = [0, *(end for _, end in self.categories)]
        apart = all(
            before <= begin < end
            for before, (begin, end) in zip(ends, self.categories, strict=False)
        )
        if not 0 <= self.own <= width or not apart or ends[-1] > width:
            raise InputError(f"the trees' columns are not those of rows of {width} columns")

    def plain(self, width: int) -> list[tuple[int, int]]:
        """Where each of the plain columns begins and ends among the encoded ones."""
        blocks = dict(self.categories)
        found, begin = [], 0
        while begin < width:
            end = blocks.get(begin, begin + 1)
            found.append((begin, end))
            begin = end
        return found

    def numbers(self) -> list[int]:
        """The items' own columns that are numbers; they have columns within the set."""
        if not self.within:
            return []
        levels = {column for block in self.categories for column in range(*block)}
        return [column for column in range(self.own) if column not in levels]

    def categorical(self, width: int) -> list[int]:
        """Which of the columns hold categories."""
        return [at for at, one in enumerate(self.plain(width)) if one in self.categories]

    def of_the_set(self, width: int) -> tuple[int, ...]:
        """Which of the columns within sets are the same for all items of a set."""
        if not self.within:
            return ()
        plain, count = len(self.plain(width)), len(WITHIN)
        alike = [n for n, what in enumerate(WITHIN) if what in ("min", "max", "mean")]
        found = [plain + count * one + n for one in range(len(self.numbers())) for n in alike]
        return (*found, plain + count * len(self.numbers()))

    def names(self, encoded: Sequence[str]) -> list[str]:
        """A name for each column, from those of the encoded columns.

        >>> TreeView(2, ((2, 4),)).names(["price", "stars", "brand=a", "brand=b"])[:6]
        ['price', 'stars', 'brand', 'price z-score', 'price position', 'price rank']
        """
        found = [
            encoded[begin].partition("=")[0] if (begin, end) in self.categories else encoded[begin]
            for begin, end in self.plain(len(encoded))
        ]
        if not self.within:
            return found
        for column in self.numbers():
            found += [f"{encoded[column]} {what}" for what in WITHIN]
        return [*found, "items"]

    def columns_of(self, column: int, width: int) -> dict[int, bool]:
        """Where an encoded number is seen, by place; whether an item's own rises with it there.

        It does so in the column itself, in positions and in ranks, while those of the other items
        fall or stay.
        """
        found = {self.plain(width).index((column, column + 1)): True}
        if column in self.numbers():
            first = len(self.plain(width)) + len(WITHIN) * self.numbers().index(column)
            found |= {first + n: what in ("position", "rank") for n, what in enumerate(WITHIN)}
        return found

    def width(self, encoded: int) -> int:
        """How many columns there are, of this many encoded ones."""
        within = len(WITHIN) * len(self.numbers()) + 1 if self.within else 0
        return len(self.plain(encoded)) + within

    def of_rows(
        self, items: Float32[np.ndarray, "rows width"], offsets: Int[np.ndarray, " sets_and_one"]
    ) -> Float32[np.ndarray, "rows columns"]:
        """The columns of flat rows, set after set."""
        sizes, width = np.diff(offsets), items.shape[1]
        out = np.empty((len(items), self.width(width)), np.float32)
        for size in np.unique(sizes).tolist():
            sets = np.flatnonzero(sizes == size)
            at_once = max(1, ROWS_PER_BLOCK // size)
            for begin in range(0, len(sets), at_once):
                rows = offsets[sets[begin : begin + at_once]][:, None] + np.arange(size)
                found = self.of_sets(items[rows], np.ones(rows.shape, bool))
                out[rows] = found.transpose(2, 1, 0)
        return out

    def of_sets(self, items: Items, present: Present) -> ByColumn:
        """The columns of padded sets, each contiguous; those of absent items have no meaning."""
        sets, size, width = items.shape
        plain, numbers = self.plain(width), self.numbers()
        out = np.empty((self.width(width), size, sets), np.float32)
        for at, (begin, end) in enumerate(plain):
            if (begin, end) in self.categories:
                levels = items[:, :, begin:end] > 0
                out[at] = (levels @ np.arange(1, end - begin + 1, dtype=np.float32)).T
            else:
                out[at] = items[:, :, begin].T
        if self.within:
            there = None if present.all() else present.T
            x = np.ascontiguousarray(items[:, :, numbers].transpose(2, 1, 0))
            _fill_standing(x, there, out[len(plain) : -1])
            out[-1] = size if there is None else there.sum(0)
        return out


def tree_columns(
    items: Float32[np.ndarray, "rows width"],
    offsets: Int[np.ndarray, " sets_and_one"],
    own: int,
    categories: tuple[tuple[int, int], ...],
) -> Float32[np.ndarray, "rows columns"]:
    """What trees see of flat encoded rows: see :class:`TreeView`.

    >>> items = np.array([[1.0], [2.0], [4.0], [7.0]], np.float32)
    >>> tree_columns(items, np.array([0, 3, 4]), 1, ())[:, 2:6].tolist()[2:]
    [[1.0, 2.0, 1.0, 4.0], [0.0, 0.0, 7.0, 7.0]]
    """
    return TreeView(own, categories).of_rows(items, offsets)


def _fill_standing(
    x: Float32[np.ndarray, "numbers items sets"],
    present: Bool[np.ndarray, "items sets"] | None,
    out: Float32[np.ndarray, "six_each items sets"],
) -> None:
    """The six columns of each number (see ``WITHIN``), one after the other, into ``out``."""
    if present is not None:
        x = np.where(present, x, np.float32(np.inf))
    low = x.min(1, keepdims=True).astype(np.float64)
    top = x if present is None else np.where(present, x, np.float32(-np.inf))
    high = top.max(1, keepdims=True).astype(np.float64)
    span = high - low
    varied = span > FLOOR
    with np.errstate(invalid="ignore"):  # a set may have no item
        position = np.where(varied, x - low, 0.0)
    position /= np.where(varied, span, 1.0)
    if present is not None:
        position[:, ~present] = 0.0
    count = x.shape[1] if present is None else np.maximum(present.sum(0), 1)
    middle = position.sum(1, keepdims=True) / count
    centred = position - middle
    if present is not None:
        centred[:, ~present] = 0.0
    variance = np.square(centred).sum(1, keepdims=True) / count
    every = len(WITHIN)
    out[0::every] = centred / np.sqrt(np.where(varied, variance, 1.0))
    out[1::every] = position
    out[2::every] = _ranks(x)
    out[3::every], out[4::every] = low, high
    out[5::every] = low + middle * np.where(varied, span, 0.0)


def _ranks(
    x: Float32[np.ndarray, "numbers items sets"],
) -> Float32[np.ndarray, "numbers items sets"]:
    """How many of the set are smaller, and half of how many others are equal; absent is infinite.

    Twice the rank is #(smaller) + #(smaller or equal) - 1, whose sums are whole numbers.
    """
    numbers, size, sets = x.shape
    if size <= MOST_PAIRS:
        twice = np.zeros(x.shape, np.uint8)
        less = np.empty(x.shape, bool)
        for other in range(size):
            for compare in (np.less, np.less_equal):
                compare(x[:, other : other + 1], x, out=less)
                twice += less.view(np.uint8)
        return (twice.astype(np.float32) - 1) / 2
    ranks = np.empty(x.shape, np.float32)
    ordered = np.sort(x, 1)
    for number in range(numbers):
        for one in range(sets):
            values, own = ordered[number, :, one], x[number, :, one]
            below = np.searchsorted(values, own) + np.searchsorted(values, own, "right")
            ranks[number, :, one] = (below - 1) / 2
    return ranks
