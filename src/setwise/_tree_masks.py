"""Trees scored by bit masks, many at once and without branches (QuickScorer, Lucchese 2015).

The leaves of a tree are numbered from left to right, and each has a bit. A split that sends a row
to the right excludes the leaves on its left, so that the lowest bit that no split excludes is the
row's leaf. All splits of one column are decided at once: they cut the column into intervals, and a
table has, for each interval, the bits that are left in every tree. What remains is one row of such
a table for every column, their conjunction, and the leaf's value for each tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
BLOCK = 1 << 11
"""Rows whose intervals are looked up at a time."""
IN_CACHE = 1 << 17
"""Bytes of masks that are at hand at a time."""

Words = Shaped[np.ndarray, "_ _"]


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
class MaskedTrees:
    """Trees whose masks lie side by side in the rows of the same tables."""

    bits: int
    tables: tuple[tuple[tuple[Cut, ...], Words], ...]
    """The columns of each table, the first the slowest to change, and its rows."""
    places: tuple[Int[np.ndarray, " lanes"], ...]
    """Where the values begin for the first, second and further pairs of trees in every word."""
    values: Float64[np.ndarray, " places"]

    def add_to(
        self, out: Float64[np.ndarray, " rows"], columns: Float[np.ndarray, "columns rows"]
    ) -> None:
        """Add the sum of the trees of each row."""
        lanes = len(self.places[0])
        at_once = max(16, IN_CACHE // (8 * lanes))
        for begin in range(0, columns.shape[1], BLOCK):
            block = columns[:, begin : begin + BLOCK]
            rows = [_places(cuts, block) for cuts, _ in self.tables]
            left, other = (np.empty((at_once, lanes), np.uint64) for _ in range(2))
            for first in range(0, block.shape[1], at_once):
                some = slice(first, first + at_once)
                count = len(rows[0][some])
                masks, spare = left[:count], other[:count]
                self.tables[0][1].take(rows[0][some], 0, masks, "clip")
                for place, (_, table) in zip(rows[1:], self.tables[1:], strict=True):
                    table.take(place[some], 0, spare, "clip")
                    np.bitwise_and(masks, spare, masks)
                self._values(masks, spare, out[begin + first : begin + first + count])

    def _values(self, masks: Words, spare: Words, out: Float64[np.ndarray, " rows"]) -> None:
        """Add the values of the leaves: those of the lowest bits."""
        bits, code = self.bits, self.bits.bit_length() - 1
        one, two = (words.view(f"u{bits // 8}") for words in (masks, spare))
        np.negative(one, two)
        np.bitwise_and(one, two, one)
        np.multiply(one, one.dtype.type(CODES[bits]), one)
        np.right_shift(one, one.dtype.type(bits - code), one)
        # Each word now has the number of a leaf per tree; two neighbours make one place.
        if bits < 64:
            np.right_shift(masks, np.uint64(bits - code), spare)
            np.bitwise_or(masks, spare, masks)
        pairs = np.uint64((1 << min(2 * code, bits)) - 1)
        total: Float64[np.ndarray, "rows lanes"] | None = None
        for number, begins in enumerate(self.places):
            np.right_shift(masks, np.uint64(2 * bits * number), spare)
            if bits < 64:
                np.bitwise_and(spare, pairs, spare)
            place = spare.view(np.int64)
            np.add(place, begins, place)
            found = self.values.take(place, mode="clip")
            total = found if total is None else np.add(total, found, total)
        assert total is not None
        out += total.sum(1)


def _places(
    cuts: tuple[Cut, ...], columns: Float[np.ndarray, "columns rows"]
) -> Int[np.ndarray, " rows"]:
    """The row of a table: the interval of every column."""
    found = cuts[0].places(columns[cuts[0].column])
    for cut in cuts[1:]:
        found = found * cut.count + cut.places(columns[cut.column])
    return found


def groups_of(
    leaves: Int[np.ndarray, " trees"],
    values: Sequence[Float[np.ndarray, " _"]],
    splits: Splits,
) -> list[MaskedTrees] | None:
    """Trees ready to be scored; None if they have too many leaves, or tables would be too large.

    ``values`` are those of each tree's leaves from left to right.
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
            group = _group(bits, [values[one] for one in some.tolist()], own, bytes_left)
            if group is None:
                return None
            found.append(group)
            bytes_left -= sum(table.nbytes for _, table in group.tables)
    return found


def _group(
    bits: int, values: list[Float[np.ndarray, " _"]], splits: Splits, most: int
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
    merged = _merged(list(zip(cuts, tables, strict=True)))
    return MaskedTrees(bits, merged, *_lookup(bits, lanes, values))


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


def _merged(tables: list[tuple[Cut, Words]]) -> tuple[tuple[tuple[Cut, ...], Words], ...]:
    """Tables of few rows, joined: one lookup then does for several columns."""
    found: list[tuple[tuple[Cut, ...], Words]] = []
    for cut, table in sorted(tables, key=lambda one: one[0].count):
        if found and found[-1][1].nbytes * cut.count <= MERGED:
            cuts, rows = found[-1]
            joined = (rows[:, None] & table).reshape(-1, table.shape[1])
            found[-1] = ((*cuts, cut), joined)
        else:
            found.append(((cut,), table))
    return tuple(found)


def _lookup(
    bits: int, lanes: int, values: list[Float[np.ndarray, " _"]]
) -> tuple[tuple[Int[np.ndarray, " lanes"], ...], Float64[np.ndarray, " places"]]:
    """Values by the numbers that :meth:`MaskedTrees._values` makes of leaves."""
    per_word, code = 64 // bits, bits.bit_length() - 1
    by_code = np.zeros((lanes * per_word, bits))
    numbers = [((CODES[bits] << leaf) & ((1 << bits) - 1)) >> (bits - code) for leaf in range(bits)]
    for tree, own in enumerate(values):
        by_code[tree, numbers[: len(own)]] = own
    if bits < 64:  # two neighbours
        low, high = by_code[0::2], by_code[1::2]
        by_code = (high[:, :, None] + low[:, None, :]).reshape(len(low), -1)
    size, each = by_code.shape[1], max(1, per_word // 2)
    begins = np.arange(len(by_code)).reshape(lanes, each) * size
    return tuple(np.ascontiguousarray(begins[:, n]) for n in range(each)), by_code.reshape(-1)
