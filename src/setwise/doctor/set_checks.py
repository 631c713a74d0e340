"""Checks of the sets and their choices, of repeated rows, and of collinear features."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from setwise import _segments
from setwise._errors import InputError
from setwise._shapes import Bool, Int
from setwise.choices.column_types import EXACT, identifiers
from setwise.doctor.columns import EXAMPLES, ExaminedSets, comparable, understood
from setwise.doctor.report import Finding, TableSummary, counted

if TYPE_CHECKING:
    import polars as pl

from dataclasses import dataclass, field

from setwise._shapes import Float
from setwise.doctor.columns import ExaminedFeature

BARS = 12


def missing_ids(name: str, ids: "pl.Series") -> Iterator[Finding]:
    """Rows that belong to no set."""
    rows = comparable(ids).is_null().arg_true()
    if len(rows):
        yield Finding(
            "error", "set-missing",
            f"set column '{name}' is missing in {counted(len(rows), 'row', len(ids))}, which were "
            "left out of this examination",
            "give every row the id of its set, or delete the row", name,
            tuple(rows.head(EXAMPLES).to_list()), count=len(rows),
        )  # fmt: skip
    if ids.dtype.is_float():
        rounded = (ids.abs() >= EXACT).fill_null(False) & ids.is_not_nan()
        rows = rounded.arg_true()
        if len(rows):
            yield Finding(
                "error", "set-rounded",
                f"set column '{name}' is infinite or beyond 2**53 in "
                f"{counted(len(rows), 'row', len(ids))}, and floats cannot tell such ids apart",
                "give it as whole numbers or text", name, tuple(rows.head(EXAMPLES).to_list()),
                count=len(rows),
            )  # fmt: skip


def refused_ids(name: str, series: Any) -> Iterator[Finding]:
    """Ids that reading refuses for another reason: their type, or blanks."""
    import narwhals as nw

    if not isinstance(series, np.ndarray):
        series = nw.from_native(series, series_only=True)
    try:
        identifiers(name, series, "set")
    except InputError as error:
        problem, _, remedy = str(error).rpartition("; ")
        rows = () if error.row is None else (error.row,)
        yield Finding("error", "set-ids", problem, remedy, name, rows, count=1)


def marks(
    name: str, series: Any, sets: ExaminedSets
) -> tuple[Bool[np.ndarray, " rows"] | None, list[Finding]]:
    """The chosen column as booleans, and what is wrong with it.

    Missing values count as not chosen; with other values than 0 and 1 nothing is known.
    """
    column, trouble = understood(name, series)
    if trouble is not None or column.kind != "number":
        what = trouble.message if trouble else f"column '{name}' is a {column.kind}"
        return None, [
            Finding(
                "error", "chosen-values", f"{what}; it is the chosen column, so that choices and "
                "leaks were not examined",
                "write 1 for the chosen item and 0 for the others, as numbers", name,
            )
        ]  # fmt: skip
    values = sets.arranged(column.values)
    wrong = ~np.isin(values, (0, 1))
    if not wrong.any():
        return values == 1, []
    gone = np.isnan(values)
    only_gaps = bool((wrong == gone).all())
    shown = "missing" if only_gaps else f"{values[np.argmax(wrong & ~gone)]:g}"
    after = "counted as not chosen here" if only_gaps else "choices and leaks were not examined"
    finding = Finding(
        "error", "chosen-values",
        f"chosen column '{name}' is neither 0 nor 1 in "
        f"{counted(int(wrong.sum()), 'row', len(wrong))}, such as {shown}; {after}",
        "write 1 for the chosen item and 0 for the others", name, **sets.rows_where(wrong),
    )  # fmt: skip
    return (values == 1 if only_gaps else None), [finding]


def without_choice(sets: ExaminedSets) -> Iterator[Finding]:
    """Sets in which nothing is marked as chosen."""
    if sets.marks is not None and (none := sets.choices == 0).any():
        yield Finding(
            "error", "no-choice",
            f"{counted(int(none.sum()), 'set', len(sets))} without a chosen item; each set needs "
            "exactly one",
            'use on_none="drop" (--on-none drop) to skip them, or "outside" if choosing nothing '
            "was possible",
            **sets.sets_where(none),
        )  # fmt: skip


def several_choices(sets: ExaminedSets) -> Iterator[Finding]:
    """Sets in which more than one item is marked."""
    if sets.marks is not None and (several := sets.choices > 1).any():
        chosen = sets.rows_where(sets.marks & _segments.spread(several, sets.offsets))
        yield Finding(
            "error", "several-choices",
            f"{counted(int(several.sum()), 'set', len(sets))} with several chosen items; each set "
            "needs exactly one",
            'use on_multiple="drop" (--on-multiple drop) to skip them',
            rows=chosen["rows"], sets=sets.sets_where(several)["sets"], count=int(several.sum()),
        )  # fmt: skip


def single_items(sets: ExaminedSets) -> Iterator[Finding]:
    """Sets of one item, where there is nothing to choose."""
    if (single := sets.sizes == 1).any():
        yield Finding(
            "warning", "one-item-sets",
            f"{counted(int(single.sum()), 'set', len(sets))} of one item only, which teach nothing "
            "and flatter every measure",
            "leave them out: choices.limit(min_items=2) (--min-items 2)",
            **sets.sets_where(single),
        )  # fmt: skip


def rows_apart(sets: ExaminedSets) -> Iterator[Finding]:
    """Rows of one set that do not follow each other."""
    if sets.order is None:
        return
    jumps = np.diff(sets.order, prepend=sets.order[0] - 1) > 1
    jumps[sets.offsets[:-1]] = False
    if jumps.any():
        number = int((_segments.sums(jumps, sets.offsets) > 0).sum())
        yield Finding(
            "note", "rows-apart",
            f"the rows of {counted(number, 'set', len(sets))} do not follow each other",
            "nothing to do for reading; sort large tables by set to read them faster",
            **(sets.rows_where(jumps) | {"count": number}),
        )  # fmt: skip


SET_CHECKS = (without_choice, several_choices, single_items, rows_apart)


def summary(
    sizes: Int[np.ndarray, " sets"], choices: int | None, rows: int, columns: int
) -> TableSummary:
    """The table in numbers."""
    low, high = int(sizes.min()), int(sizes.max())
    edges = np.unique(np.linspace(low, high + 1, min(BARS, high + 1 - low) + 1).round().astype(int))
    counts, _ = np.histogram(sizes, edges)
    bars = zip(edges[:-1].tolist(), (edges[1:] - 1).tolist(), counts.tolist(), strict=True)
    return TableSummary(
        rows, columns, len(sizes), choices,
        low, float(np.median(sizes)), float(sizes.mean()), high, tuple(bars),
    )  # fmt: skip


MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: spreads the bits


class RowHashes:
    """A 64-bit hash of each row, made column by column.

    Two different rows of ten million share a hash with a chance of 3 in a million.
    """

    def __init__(self, rows: int, wanted: bool = True):
        self._hashes = np.zeros(rows, np.uint64) if wanted else None

    def add(self, series: "pl.Series") -> None:
        """Take a column in."""
        if self._hashes is not None:
            self._hashes *= MULTIPLIER
            self._hashes ^= series.hash(0).to_numpy()

    def repeated(self, ids: "pl.Series") -> Iterator[Finding]:
        """The rows that repeat an earlier one; ``ids`` name the set of each row."""
        import polars as pl

        if self._hashes is None:
            return
        rows = (~pl.Series(self._hashes).is_first_distinct()).arg_true()
        if len(rows) == 0:
            return
        first = rows.head(EXAMPLES)
        sets = dict.fromkeys(str(one) for one in ids.gather(first) if one is not None)
        yield Finding(
            "error", "duplicate-rows",
            f"{counted(len(rows), 'row', len(self._hashes))} equal to an earlier row in every "
            "column",
            'use on_duplicate="drop" (--on-duplicate drop) to keep the first of each, or "keep" if '
            "they are different items",
            rows=tuple(first.to_list()), sets=tuple(sets), count=len(rows),
        )  # fmt: skip


ROWS = 100_000
SAME = 0.9999
FEWEST_ROWS = 10


@dataclass
class Deviations:
    """Deviations from set means, of all numbers, in sets at even distances (all, if few)."""

    sets: ExaminedSets
    names: list[str] = field(default_factory=list)
    columns: list[Float[np.ndarray, " rows"]] = field(default_factory=list)

    def __post_init__(self) -> None:
        step = -(-self.sets.rows // ROWS)
        taken = np.arange(len(self.sets)) % step == 0
        self._rows: Int[np.ndarray, " rows"] = np.flatnonzero(
            _segments.spread(taken, self.sets.offsets)
        )
        sizes = self.sets.sizes[taken]
        self._owner = np.repeat(np.arange(len(sizes)), sizes)
        self._number = len(sizes)

    def add(self, one: ExaminedFeature) -> None:
        """Take a feature in, if its numbers can be compared."""
        if one.role != "item" or one.kind != "number" or one.feature.transform != "none":
            return
        values = one.values[self._rows]
        there = np.isfinite(values)
        if not there.any():
            return
        values = values / (np.abs(values[there]).max() or 1.0)  # large numbers overflow in squares
        filled = np.where(there, values, 0.0)
        present = np.bincount(self._owner, there, self._number)
        means = np.bincount(self._owner, filled, self._number) / np.maximum(present, 1)
        self.names.append(one.name)
        self.columns.append(np.where(there, values - means[self._owner], np.nan))

    def pairs(self) -> Iterator[Finding]:
        """A finding for each feature that an earlier one makes superfluous."""
        if len(self.names) < 2:
            return
        matrix = np.stack(self.columns)
        alike = np.triu(_alike(np.nan_to_num(matrix), ~np.isnan(matrix)), k=1)
        for later in range(1, len(self.names)):
            if alike[:, later].any():
                first, second = self.names[int(np.argmax(alike[:, later]))], self.names[later]
                yield Finding(
                    "warning", "collinear",
                    f"columns '{first}' and '{second}' are the same up to a factor within sets (in "
                    f"{self._number:,} sets compared), so that their coefficients cannot be told "
                    "apart",
                    "leave one of them out", second,
                )  # fmt: skip


def _alike(
    deviations: Float[np.ndarray, "columns rows"], there: Bool[np.ndarray, "columns rows"]
) -> Bool[np.ndarray, "columns columns"]:
    """Whether |correlation| > 0.9999 over the rows in which both have a value."""
    weights = there.astype(np.float64)
    products = deviations @ deviations.T
    squares = deviations**2 @ weights.T
    norms = np.sqrt(squares * squares.T)
    rounding = 1e-20 * weights.sum(1)[:, None]
    enough = (weights @ weights.T >= FEWEST_ROWS) & (squares > rounding) & (squares.T > rounding.T)
    return enough & (np.abs(products) > SAME * norms)
