"""Trees scored by bit masks, many at once and without branches (QuickScorer, Lucchese 2015).

The leaves of a tree are numbered from left to right, and each has a bit. A split that sends a row
to the right excludes the leaves on its left, so that the lowest bit that no split excludes is the
row's leaf. All splits of one column are decided at once: they cut the column into intervals, and a
table has, for each interval, the bits that are left in every tree. What remains is one row of such
a table for every column, their conjunction, and the leaf's value for each tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from setwise._shapes import Float, Float64, Int, Shaped

WIDTHS = (8, 16, 32, 64)
"""Bits of a mask: of a tree with at most so many leaves."""
CODES = {8: 0x1D, 16: 0x09AF, 32: 0x077CB531, 64: 0x03F79D71B4CB0A89}
"""De Bruijn sequences: the upper bits of 2^k times these are different for each k."""
LANES = 64
"""Words of 64 bits in a row of a table: more would leave the processor's cache."""
MERGED = 1 << 16
"""Bytes up to which the tables of several columns become one of all pairs of intervals."""
MOST_BYTES = 1 << 26
"""Of all tables: trees that need more are scored another way."""
MOST_CATEGORIES = 1 << 12
CELLS, MOST_IN_A_CELL = 1 << 10, 3
"""Of a :class:`Grid`: cells per column, and thresholds that one may have."""
BLOCK = 1 << 12
"""Rows whose intervals are looked up at a time."""
IN_CACHE = 1 << 18
"""Bytes of masks that are at hand at a time."""

Words = Shaped[np.ndarray, "_ _"]
Tables = tuple[tuple[tuple[int, ...], Words], ...]
"""The cuts of each table, the first the slowest to change, and its rows."""


class RowsOfSets(NamedTuple):
    """Which rows belong to the same set: its number for each row, and a row of each set."""

    number: Int[np.ndarray, " rows"]
    first: Int[np.ndarray, " sets"]


class Splits(NamedTuple):
    """The splits of some trees: arrays with one entry per split."""

    tree: Int[np.ndarray, " splits"]
    column: Int[np.ndarray, " splits"]
    threshold: Float[np.ndarray, " splits"]
    member: Sequence[Shaped[np.ndarray, " _"] | None]
    """Of a split by categories: which go to the left."""
    first: Int[np.ndarray, " splits"]
    """The first leaf on the left."""
    end: Int[np.ndarray, " splits"]
    """The first leaf on the right."""

    def take(self, which: Int[np.ndarray, " some"]) -> "Splits":
        """Some of them."""
        return Splits(
            self.tree[which], self.column[which], self.threshold[which],
            [self.member[one] for one in which.tolist()], self.first[which], self.end[which],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Cut:
    """A column cut into intervals, or its categories."""

    column: int
    thresholds: Float[np.ndarray, " cuts"] | None
    """In ascending order; None for categories."""
    count: int
    """How many intervals or categories there are; values beyond the categories are the last."""

    def places(self, values: Float[np.ndarray, " rows"]) -> Int[np.ndarray, " rows"]:
        """The interval or the category of each value."""
        if self.thresholds is not None:
            return np.searchsorted(self.thresholds, values)
        last = self.count - 1
        known = np.where(values > -1, values, last)
        return np.minimum(known, last).astype(np.intp)


@dataclass(frozen=True, eq=False)
class Grid:
    """Columns that are cut at thresholds, each with equal cells over the range of its thresholds.

    The cell of a value says how many thresholds lie in lower cells; the few in the same cell are
    compared. Rounding keeps the order of numbers, so this is exact, and faster than searching.
    """

    columns: Int[np.ndarray, " cuts"]
    """Those with the most thresholds in a cell come first."""
    low: Float[np.ndarray, "cuts 1"]
    scale: Float[np.ndarray, "cuts 1"]
    below: Int[np.ndarray, " cells"]
    """The thresholds in lower cells, of all cells of all columns."""
    inside: tuple[Float[np.ndarray, " _"], ...]
    """The first, second, ... threshold in each cell, for as many columns as have so many."""

    @classmethod
    def of(
        cls, cuts: Sequence[Cut], places: Sequence[int]
    ) -> "tuple[Grid | None, tuple[int, ...]]":
        """A grid and which of the cuts at these places it has, in its order; others do not lend
        themselves to it."""
        found = []
        for place in places:
            cut = cuts[place]
            if cut.thresholds is None or not len(cut.thresholds):
                continue
            low, scale = _scale(cut.thresholds)
            cells = _cells(cut.thresholds, low, scale)
            most = np.bincount(cells).max()
            if most <= MOST_IN_A_CELL:
                found.append((-most, place, low, scale, cells))
        found.sort(key=lambda one: one[:2])
        if not found:
            return None, ()
        below: list[Any] = []
        inside: list[list[Any]] = [[] for _ in range(-found[0][0])]
        for most, place, _, _, cells in found:
            thresholds = cuts[place].thresholds
            assert thresholds is not None
            first = np.searchsorted(cells, np.arange(CELLS))
            below.append(first)
            for number in range(-most):
                at = np.minimum(first + number, len(cells) - 1)
                own = (first + number < len(cells)) & (cells[at] == np.arange(CELLS))
                inside[number].append(np.where(own, thresholds[at], np.inf))
        kind = cuts[found[0][1]].thresholds.dtype  # type: ignore[union-attr]
        grid = cls(
            np.array([cuts[one[1]].column for one in found]),
            np.array([one[2] for one in found], kind)[:, None],
            np.array([one[3] for one in found], kind)[:, None],
            np.concatenate(below).astype(np.intp),
            tuple(np.concatenate(one).astype(kind) for one in inside),
        )
        return grid, tuple(one[1] for one in found)

    def places(self, columns: Float[np.ndarray, "columns rows"]) -> Int[np.ndarray, "cuts rows"]:
        """The interval of each value in each of the columns."""
        x = columns[self.columns]
        with np.errstate(over="ignore"):
            cell = _cells(x, self.low, self.scale)
        cell += CELLS * np.arange(len(cell))[:, None]
        found = self.below.take(cell)
        for thresholds in self.inside:
            count = len(thresholds) // CELLS
            found[:count] += x[:count] > thresholds.take(cell[:count])
        return found


def _scale(thresholds: Float[np.ndarray, " cuts"]) -> tuple[float, float]:
    """Where cells begin, and how many there are per unit."""
    low, high = float(thresholds[0]), float(thresholds[-1])
    span = high - low
    return low, (CELLS - 1) / span if 1e-20 < span < 1e20 else 1.0


def _cells(
    x: Float[np.ndarray, "*shape"],
    low: float | Float[np.ndarray, "cuts 1"],
    scale: float | Float[np.ndarray, "cuts 1"],
) -> Int[np.ndarray, "*shape"]:
    """The number of the cell of each value; a greater value is never in a lower cell."""
    cell = np.subtract(x, x.dtype.type(low) if isinstance(low, float) else low)
    cell *= x.dtype.type(scale) if isinstance(scale, float) else scale
    np.maximum(cell, 0, out=cell)
    np.minimum(cell, CELLS - 1, out=cell)
    return cell.astype(np.intp)


@dataclass(frozen=True, eq=False)
class MaskedTrees:
    """Trees whose masks lie side by side in the rows of the same tables."""

    bits: int
    cuts: tuple[Cut, ...]
    grids: tuple[tuple[Grid | None, tuple[int, ...]], ...]
    """One for the tables of items and one for those of sets, with the cuts that each has."""
    tables: Tables
    of_set: Tables
    """The tables of columns that are the same for all items of a set."""
    begins: Int[np.ndarray, " pairs"]
    """Where the values of each pair of trees begin."""
    values: Float64[np.ndarray, " places"]

    def add_to(
        self,
        out: Float64[np.ndarray, " rows"],
        columns: Float[np.ndarray, "columns rows"],
        sets: RowsOfSets | None = None,
    ) -> None:
        """Add the sum of the trees of each row."""
        lanes, rows = (self.tables or self.of_set)[0][1].shape[1], columns.shape[1]
        known = None if sets is None else self._of_sets(columns[:, sets.first])
        at_once = min(rows, max(16, IN_CACHE // (8 * lanes)))
        masks, spare = (np.empty((at_once, lanes), np.uint64) for _ in range(2))
        found = np.empty((at_once, len(self.begins)))
        for begin in range(0, rows, BLOCK):
            block = slice(begin, begin + BLOCK)
            places = self._places(columns[:, block], self.tables)
            tables = [table for _, table in self.tables]
            if known is not None and sets is not None:
                places, tables = [sets.number[block], *places], [known, *tables]
            for first in range(0, len(places[0]), at_once):
                some = slice(first, first + at_once)
                count = len(places[0][some])
                tables[0].take(places[0][some], 0, masks[:count], "clip")
                for place, table in zip(places[1:], tables[1:], strict=True):
                    table.take(place[some], 0, spare[:count], "clip")
                    np.bitwise_and(masks[:count], spare[:count], masks[:count])
                self._look_up(masks[:count], spare[:count], found[:count])
                out[begin + first : begin + first + count] += found[:count].sum(1)

    def _of_sets(self, columns: Float[np.ndarray, "columns sets"]) -> Words | None:
        """The masks of each set: what its own columns leave."""
        if not self.of_set:
            return None
        found: Any = None
        for place, (_, table) in zip(self._places(columns, self.of_set), self.of_set, strict=True):
            rows = table.take(place, 0)
            found = rows if found is None else np.bitwise_and(found, rows, found)
        return found

    def _places(
        self, columns: Float[np.ndarray, "columns rows"], tables: Tables
    ) -> list[Int[np.ndarray, " rows"]]:
        """The row of each table: the interval of every column."""
        own: list[Any] = [None] * len(self.cuts)
        grid, in_grid = self.grids[0 if tables is self.tables else 1]
        # In the precision of thresholds that are coarser than the values, cells would not be exact.
        if grid is not None and columns.dtype.itemsize <= grid.low.dtype.itemsize:
            wide = columns.astype(grid.low.dtype, copy=False)
            for place, found in zip(in_grid, grid.places(wide), strict=True):
                own[place] = found
        for place in (place for places, _ in tables for place in places):
            if own[place] is None:
                own[place] = self.cuts[place].places(columns[self.cuts[place].column])
        rows = []
        for places, _ in tables:
            found = own[places[0]]
            for place in places[1:]:
                found = found * self.cuts[place].count + own[place]
            rows.append(found)
        return rows

    def _look_up(self, masks: Words, spare: Words, out: Float64[np.ndarray, "_ _"]) -> None:
        """The values of the leaves with the lowest bits, for each pair of trees."""
        bits, code = self.bits, self.bits.bit_length() - 1
        one, two = (words.view(f"u{bits // 8}") for words in (masks, spare))
        np.negative(one, two)
        np.bitwise_and(one, two, one)
        np.multiply(one, one.dtype.type(CODES[bits]), one)
        np.right_shift(one, one.dtype.type(bits - code), one)
        # Each word now has the number of a leaf per tree; two neighbours make one place.
        if bits < 64:
            pairs, beside = (words.view(f"u{bits // 4}") for words in (masks, spare))
            np.right_shift(pairs, pairs.dtype.type(bits - code), beside)
            np.bitwise_or(pairs, beside, pairs)
            np.bitwise_and(pairs, pairs.dtype.type((1 << 2 * code) - 1), pairs)
            one = pairs
        place = one.astype(np.intp)
        place += self.begins
        self.values.take(place, None, out, "clip")


def groups_of(
    leaves: Int[np.ndarray, " trees"],
    values: Sequence[Float[np.ndarray, " _"]],
    splits: Splits,
    of_set: Sequence[int] = (),
) -> list[MaskedTrees] | None:
    """Trees ready to be scored; None if they have too many leaves, or tables would be too large.

    ``values`` are those of each tree's leaves from left to right, and ``of_set`` the columns that
    are the same for all items of a set.
    """
    if not len(leaves) or leaves.max() > WIDTHS[-1]:
        return None
    found, bytes_left = [], MOST_BYTES
    width = np.array(WIDTHS)[np.searchsorted(WIDTHS, leaves)]
    for bits in WIDTHS:
        trees = np.flatnonzero(width == bits)
        at_once = LANES * 64 // bits
        for begin in range(0, len(trees), at_once):
            some = trees[begin : begin + at_once]
            own = splits.take(np.flatnonzero(np.isin(splits.tree, some)))
            own = own._replace(tree=np.searchsorted(some, own.tree))
            group = _group(bits, [values[one] for one in some.tolist()], own, of_set, bytes_left)
            if group is None:
                return None
            found.append(group)
            bytes_left -= sum(table.nbytes for _, table in (*group.tables, *group.of_set))
    return found


def _group(
    bits: int,
    values: list[Float[np.ndarray, " _"]],
    splits: Splits,
    of_set: Sequence[int],
    most: int,
) -> MaskedTrees | None:
    per_word = 64 // bits
    lanes = -(-len(values) // per_word)
    keys = 2 * splits.column + np.array([one is not None for one in splits.member], np.int64)
    parts = [splits.take(np.flatnonzero(keys == key)) for key in np.unique(keys).tolist()]
    cuts = [_cut(part) for part in parts]
    if sum(cut.count for cut in cuts) * lanes * 8 > most:
        return None
    if max((cut.count for cut in cuts if cut.thresholds is None), default=0) > MOST_CATEGORIES:
        return None
    tables = [_table(bits, lanes, cut, part) for cut, part in zip(cuts, parts, strict=True)]
    if not tables:  # no tree has a split: any row of any column will do
        cuts = [Cut(0, np.zeros(0, np.float32), 1)]
        tables = [np.full((1, lanes), np.uint64(2**64 - 1))]
    levels = [
        [place for place, cut in enumerate(cuts) if (cut.column in of_set) == shared]
        for shared in (False, True)
    ]
    own, of_sets = (_merged([one.count for one in cuts], tables, places) for places in levels)
    grids = tuple(Grid.of(cuts, places) for places in levels)
    found = _values(bits, lanes, values)
    begins = np.arange(len(found)) * found.shape[1]
    return MaskedTrees(bits, tuple(cuts), grids, own, of_sets, begins, found.reshape(-1))


def _cut(splits: Splits) -> Cut:
    column = int(splits.column[0])
    members = [one for one in splits.member if one is not None]
    if members:
        return Cut(column, None, 1 + max(len(one) for one in members))
    thresholds = np.unique(splits.threshold)
    return Cut(column, thresholds, len(thresholds) + 1)


def _table(bits: int, lanes: int, cut: Cut, splits: Splits) -> Words:
    """The bits that each interval or category leaves, of all trees."""
    kind = np.dtype(f"u{bits // 8}")
    table = np.full((cut.count, lanes * 64 // bits), ~kind.type(0))
    ones = ((1 << n) - 1 for n in (splits.end - splits.first).tolist())
    gone = [one << first for one, first in zip(ones, splits.first.tolist(), strict=True)]
    left = ~np.array(gone, kind)
    if cut.thresholds is not None:
        beyond = np.searchsorted(cut.thresholds, splits.threshold) + 1
        np.bitwise_and.at(table, (beyond, splits.tree), left)
        table = np.bitwise_and.accumulate(table)
    else:
        for tree, mask, member in zip(splits.tree.tolist(), left, splits.member, strict=True):
            assert member is not None
            other = np.ones(cut.count, bool)
            other[: len(member)] = ~member
            table[other, tree] &= mask
    return table.view(np.uint64)


def _merged(counts: list[int], tables: list[Words], places: list[int]) -> Tables:
    """Tables of few rows, joined: one lookup then does for several columns."""
    found: list[tuple[tuple[int, ...], Words]] = []
    for place in sorted(places, key=lambda place: counts[place]):
        table = tables[place]
        if found and found[-1][1].nbytes * counts[place] <= MERGED:
            before, rows = found[-1]
            joined = (rows[:, None] & table).reshape(-1, table.shape[1])
            found[-1] = ((*before, place), joined)
        else:
            found.append(((place,), table))
    return tuple(found)


def _values(
    bits: int, lanes: int, values: list[Float[np.ndarray, " _"]]
) -> Float64[np.ndarray, "pairs places"]:
    """Values by the numbers that :meth:`MaskedTrees._look_up` makes of leaves."""
    code = bits.bit_length() - 1
    by_code = np.zeros((lanes * 64 // bits, bits))
    numbers = [((CODES[bits] << leaf) & ((1 << bits) - 1)) >> (bits - code) for leaf in range(bits)]
    for tree, own in enumerate(values):
        by_code[tree, numbers[: len(own)]] = own
    if bits == 64:
        return by_code
    low, high = by_code[0::2], by_code[1::2]
    return (high[:, :, None] + low[:, None, :]).reshape(len(low), -1)
