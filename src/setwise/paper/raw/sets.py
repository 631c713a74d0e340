"""From raw rows to choice sets with exactly one choice, and columns over their rows.

Also positions among known ids (:class:`Ids`), and category columns from numbers and from text.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Num, Shaped

from setwise._errors import InputError
from setwise.choices.choices import Choices, Column, Dropped
from setwise.choices.features import Feature, Roles
from setwise.paper.raw.files import RawFile

DENSE = 16  # a table may have this many places for each id that is known
ALWAYS_DENSE = 2**20


@dataclass(frozen=True, eq=False)
class Ids:
    """Known ids in ascending order, each once.

    >>> ids = Ids.of(np.array([30, 10]), np.array([10, 20]))
    >>> ids.ids.tolist(), ids.find(np.array([20, 15, 99, -4])).tolist()
    ([10, 20, 30], [1, -1, -1, -1])
    """

    ids: Int[np.ndarray, " n"]
    table: Int[np.ndarray, " places"] | None  # the position of each id, -1 where there is none

    @classmethod
    def of(cls, *values: Int[np.ndarray, " _"]) -> "Ids":
        """All ids that occur in any of the arrays."""
        top = max((int(array.max()) for array in values if len(array)), default=0)
        low = min((int(array.min()) for array in values if len(array)), default=0)
        if low < 0 or top > max(ALWAYS_DENSE, DENSE * sum(map(len, values))):
            return cls(np.unique(np.concatenate(values)), None)
        known = np.zeros(top + 1, bool)
        for array in values:
            for part in parts_of(len(array)):
                known[array[part]] = True
        ids = np.flatnonzero(known)
        table = np.full(top + 1, -1, np.int32)
        table[ids] = np.arange(len(ids), dtype=np.int32)
        return cls(ids, table)

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, wanted: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
        """The position of each wanted id, -1 where it is not known."""
        if not len(wanted) or not len(self.ids):
            return np.full(len(wanted), -1, np.int32)
        if self.table is None:
            place = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
            return np.where(self.ids[place] == wanted, place, -1).astype(np.int32)
        if wanted.min() >= 0 and wanted.max() < len(self.table):
            return self.table.take(wanted)
        inside = (wanted >= 0) & (wanted < len(self.table))
        return np.where(inside, self.table[np.where(inside, wanted, 0)], -1).astype(np.int32)


def parts_of(rows: int, size: int = 2**20) -> Iterable[slice]:
    """Rows in parts small enough that what is computed of one stays near the processor."""
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


UNKNOWN = "unknown"


def category(values: Int[np.ndarray, " n"], names: Mapping[int, str] | None = None) -> Column:
    """Numbers as levels in their order; ``names`` gives other words for some.

    >>> category(np.array([9, -1, 10]), {-1: "unknown"}).levels
    ('unknown', '9', '10')
    """
    ids = Ids.of(values)
    return Column(ids.find(values), levels_of(ids, names))


def levels_of(ids: Ids, names: Mapping[int, str] | None = None) -> tuple[str, ...]:
    """Ids as the levels of a category."""
    return tuple((names or {}).get(one, str(one)) for one in ids.ids.tolist())


def named(codes: Int[np.ndarray, " n"], names: Sequence[str]) -> Column:
    """Codes into names as a category: equal names are one level, and every level occurs.

    >>> column = named(np.array([2, 0, 2]), ["US", "DE", "CA"])
    >>> column.levels, column.values.tolist()
    (('CA', 'US'), [0, 1, 0])
    """
    used = np.zeros(len(names), bool)
    used[codes] = True
    levels = sorted({name for name, occurs in zip(names, used, strict=True) if occurs})
    place = {level: i for i, level in enumerate(levels)}
    table = np.array([place.get(name, -1) for name in names], np.int32)
    return Column(table[codes], tuple(levels))


ROWS_PER_PART = 2**19


@dataclass(frozen=True, eq=False)
class RawChoices:
    """Choices without item columns, and the item columns one at a time, in the rows' order.

    The columns are made while they are taken, so that only one is in memory: take them once.
    """

    frame: Choices
    columns: Iterator[tuple[str, Column]]


@dataclass(frozen=True, eq=False)
class RawSets:
    """The sets of a raw table that have one choice among at least two items, ordered by id.

    ``order`` brings the table's rows in the order of set ids (None: they are so already);
    ``kept`` then marks the rows of these sets (None: all rows).
    """

    ids: Int[np.ndarray, " sets"]
    offsets: Int[np.ndarray, " sets_and_one"]
    chosen: Int[np.ndarray, " sets"]
    dropped: Dropped
    alone: int  # sets left out because they have one item
    order: Int[np.ndarray, " table_rows"] | None
    kept: Bool[np.ndarray, " table_rows"] | None

    @classmethod
    def of(
        cls, file: RawFile, ids: Int[np.ndarray, " n"], marks: Int[np.ndarray, " n"], name: str
    ) -> "RawSets":
        """Group rows by set id; ``marks`` is the column ``name`` of 0 and 1."""
        wrong = (marks != 0) & (marks != 1)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise file.fault(row, name, f"{marks[row]} is neither 0 nor 1", "correct the value")
        order = None if (ids[1:] >= ids[:-1]).all() else np.argsort(ids, kind="stable")
        if order is not None:
            ids, marks = ids[order], marks[order]
        starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        sizes = np.diff(np.append(starts, len(ids)))
        choices = np.add.reduceat(marks, starts, dtype=np.int32)
        keep = (choices == 1) & (sizes > 1)
        if not keep.any():
            raise InputError(
                f"{file}: no set has exactly one {name} among at least two items "
                f"({len(keep)} sets); check the column '{name}'"
            )
        kept = None if keep.all() else np.repeat(keep, sizes)
        offsets = np.concatenate([[0], np.cumsum(sizes[keep])])
        chosen = np.flatnonzero(marks if kept is None else marks[kept]) - offsets[:-1]
        dropped = Dropped(int((choices == 0).sum()), int((choices > 1).sum()))
        alone = int(((choices == 1) & (sizes == 1)).sum())
        return cls(ids[starts[keep]], offsets, chosen.astype(np.int32), dropped, alone, order, kept)

    @property
    def summary(self) -> str:
        """How many sets there are, and how many were left out and why."""
        return (
            f"{len(self.ids):,} sets with one choice, {self.offsets[-1]:,} rows; left out: "
            f"{self.dropped.without_choice:,} sets without a choice, "
            f"{self.dropped.several_choices:,} with several, {self.alone:,} of one item"
        )

    def rows(self, values: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, " rows"]:
        """A column of the table, in the order of the sets' rows."""
        if self.order is not None:
            values = values[self.order]
        return values if self.kept is None else values[self.kept]

    def table_row(self, row: int) -> int:
        """Where the table has this row of the sets."""
        if self.kept is not None:
            row = int(np.flatnonzero(self.kept)[row])
        return row if self.order is None else int(self.order[row])

    def spread(self, values: Shaped[np.ndarray, " run"], sets: slice) -> Any:
        """The values of a run of sets, one per set, repeated for their rows."""
        return np.repeat(values, np.diff(self.offsets[sets.start : sets.stop + 1]))

    def computed(
        self, dtype: Any, function: Callable[[slice, slice], Num[np.ndarray, " _"]]
    ) -> Shaped[np.ndarray, " rows"]:
        """A column over all rows: ``function(sets, rows)`` gives the values of a run of sets."""
        result: np.ndarray = np.empty(self.offsets[-1], dtype)

        def fill(sets: slice) -> None:
            rows = slice(int(self.offsets[sets.start]), int(self.offsets[sets.stop]))
            result[rows] = function(sets, rows)

        sets_per_part = max(1, ROWS_PER_PART * (len(self.offsets) - 1) // len(result))
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as threads:
            list(threads.map(fill, parts_of(len(self.offsets) - 1, sets_per_part)))
        return result

    def once_per_set(
        self, file: RawFile, name: str, values: Shaped[np.ndarray, " n"]
    ) -> Shaped[np.ndarray, " sets"]:
        """A column of the table that is constant within sets, one value per set."""
        values = self.rows(values)
        firsts = values[self.offsets[:-1]]
        spread = np.repeat(firsts, np.diff(self.offsets))
        differs = (values != spread) & ~((values != values) & (spread != spread))
        if differs.any():
            row = int(np.argmax(differs))
            raise file.fault(
                self.table_row(row), name, "the value differs from others of its set",
                "a set has one value in this column; correct it",
            )  # fmt: skip
        return firsts

    def choices(
        self,
        roles: Roles,
        context: dict[str, Column],
        time: Shaped[np.ndarray, " sets"] | None = None,
    ) -> Choices:
        """The sets as choices that have no item columns yet."""
        return Choices(
            roles, {}, context, self.offsets, np.empty(0, np.int64), self.ids, self.chosen,
            time=time, dropped=self.dropped,
        )  # fmt: skip


def roles_of(
    set: str, chosen: str, items: tuple[str, ...], context: tuple[str, ...], time: str | None
) -> Roles:
    """Roles from feature expressions."""
    features, of_sets = (tuple(Feature.parse(text) for text in texts) for texts in (items, context))
    return Roles(set, chosen, features, of_sets, time=time)


def check_view(view: str) -> None:
    """Refuse a view that there is not."""
    if view not in ("paper", "full"):
        raise InputError(f"view={view!r} is not one of: paper, full")
