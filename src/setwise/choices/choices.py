"""Choices: many choice sets, kept flat, and their columns, in memory or in a file."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from setwise import _arguments, _tensorfile
from setwise._arrayfile import ArrayFile, CheckedArray
from setwise._errors import InputError
from setwise._page import notebook_html
from setwise._shapes import Bool, Float, Int, Num, Shaped
from setwise.choices.features import Roles
from setwise.choices.utility import Utility

ROWS_PER_BLOCK = 1_000_000
PER_SET = ("set_ids", "chosen", "weight", "group", "time", "fold", "ranking", "worst")
SETS_SHOWN, ROWS_SHOWN, COLUMNS_SHOWN = 3, 12, 20  # in a notebook


@dataclass(frozen=True, eq=False)
class Column:
    """Values of one column: a number, a category or a date in each place.

    Numbers are floats (missing: NaN), or integers where nothing is missing. Categories are codes
    into ``levels`` (missing: -1). Dates are ``datetime64`` (missing: NaT).

    >>> Column(np.array([1, 0, -1]), levels=("blue", "red")).text().tolist()
    ['red', 'blue', None]
    """

    values: Shaped[np.ndarray, " n"]
    levels: Sequence[str] | None = None

    @property
    def kind(self) -> str:
        """ "number", "category" or "date"."""
        if self.levels is not None:
            return "category"
        return "date" if self.values.dtype.kind == "M" else "number"

    @property
    def missing(self) -> Num[np.ndarray, " n"] | Shaped[np.ndarray, " n"]:
        """True where the value is absent."""
        if self.levels is not None:
            return self.values < 0
        return np.isnat(self.values) if self.kind == "date" else np.isnan(self.values)

    def take(self, index: Shaped[np.ndarray, " m"]) -> "Column":
        """The values at these places."""
        return Column(self.values[index], self.levels)

    def text(self) -> Shaped[np.ndarray, " n"]:
        """The levels themselves, for tables shown to people; numbers and dates as they are."""
        if self.levels is None:
            return self.values
        return np.array([*self.levels, None], dtype=object)[self.values]


def rows_of(
    firsts: Int[np.ndarray, " sets"], sizes: Int[np.ndarray, " sets"]
) -> Int[np.ndarray, " rows"]:
    """The rows of sets that begin at ``firsts``, one set after the other.

    >>> rows_of(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(sizes)
    shift = np.repeat(firsts - (ends - sizes), sizes)
    return shift + np.arange(len(shift))


ROWS_TO_REMEMBER = 4_000_000


class Levels(Sequence[str]):
    """Names of categories, decoded from the file when the first of them is needed."""

    def __init__(self, text: Shaped[np.ndarray, " bytes"], count: int, where: str):
        self._text, self._count, self._where = text, count, where
        self._names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: Any) -> Any:
        if self._names is None:
            with _tensorfile.made_elsewhere(self._where, "levels"):
                names = json.loads(self._text.tobytes())
                plain = isinstance(names, list) and all(isinstance(one, str) for one in names)
                if not plain or len(names) != self._count:
                    raise ValueError(f"it is not a list of {self._count} names")
            self._names = tuple(names)
        return self._names[place]


@dataclass(frozen=True, eq=False)
class StoredColumn:
    """A column of a file, and its levels if it holds categories."""

    values: CheckedArray
    levels: Sequence[Any] | None = None

    def column(self, values: Shaped[np.ndarray, " n"], file: ArrayFile) -> Column:
        """These values of the column; codes are refused that no level has."""
        if self.levels is not None and len(values):
            low, high = int(values.min()), int(values.max())
            if low < -1 or high >= len(self.levels):
                raise InputError(
                    f"{file.path} cannot be used: its array '{self.values.name}' has the code "
                    f"{low if low < -1 else high}, and there are {len(self.levels)} levels; "
                    "build it again or restore a copy"
                )
        return Column(values, self.levels)


@dataclass(frozen=True, eq=False)
class StoredColumns(Mapping[str, Column]):
    """The item columns of some sets of a file; looking one up reads it."""

    file: ArrayFile
    stored: Mapping[str, StoredColumn]
    firsts: Int[np.ndarray, " sets"]
    offsets: Int[np.ndarray, " sets_and_one"]  # those of the choices, shared with them

    def __getitem__(self, name: str) -> Column:
        stored = self.stored[name]
        return stored.column(self._read(stored.values), self.file)

    def __contains__(self, name: object) -> bool:
        return name in self.stored  # a mapping's own way is to look it up, which would read it

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)

    def take(
        self, sets: Int[np.ndarray, " m"], offsets: Int[np.ndarray, " m_and_one"]
    ) -> "StoredColumns":
        """The columns of these sets, whose offsets will be these; nothing is read."""
        return replace(self, firsts=self.firsts[sets], offsets=offsets)

    def row_numbers(self) -> Int[np.ndarray, " rows"]:
        """The rows' places in the table that the file was made from."""
        kept = self.file.arrays.get("rows")
        rows = rows_of(self.firsts, np.diff(self.offsets))
        return rows if kept is None else kept.at(rows)

    @cached_property
    def _rows(self) -> Int[np.ndarray, " rows"]:
        # For all columns of a block at once; of a whole file it would fill the memory.
        return rows_of(self.firsts, np.diff(self.offsets))

    def _read(self, values: CheckedArray) -> Shaped[np.ndarray, " rows"]:
        firsts, sizes = self.firsts, np.diff(self.offsets)
        if (np.diff(firsts) == sizes[:-1]).all():  # one after the other, as they lie in the file
            first = int(firsts[0]) if len(firsts) else 0
            end = first + int(self.offsets[-1])
            if end - first == len(values):  # all of it: mapped, not copied
                return values.whole()
            part = values.between(first, end)
        else:
            block = self.offsets[-1] <= ROWS_TO_REMEMBER
            part = values.at(self._rows if block else rows_of(firsts, sizes))
        self.file.release()
        return part


@dataclass(frozen=True)
class Dropped:
    """How many sets (or, for duplicates, rows) were left out while reading, and why."""

    without_choice: int = 0
    several_choices: int = 0
    duplicate_rows: int = 0


def generator(seed: int) -> np.random.Generator:
    """The source of randomness of samples and splits."""
    _arguments.seed("seed", seed)
    return np.random.default_rng(seed)


@dataclass(frozen=True, eq=False)
class Choices:
    """Choice sets of any sizes, immutable and never padded: rows of one set lie side by side.

    Set ``i`` owns the rows ``offsets[i]`` to ``offsets[i + 1]`` of every item column, one value
    of every context column, and, where known, ``chosen[i]``: the position of the chosen item
    within the set (equal to the set's size if the outside option was taken).

    Of rankings and best–worst choices, each set is a stage (:mod:`setwise.choices.rankings`).
    ``ranking`` says which stages belong together, and ``worst`` which of them chose the worst item.

    Choices opened from a file (:func:`setwise.open_choices`) are the same, but their item columns
    stay on disk until one is looked up; so do those of every part that is taken of them.

    >>> import setwise as sw
    >>> choices = sw.read({"trip": [7, 7, 9, 9, 9], "cost": [3., 1., 2., 5., 4.],
    ...                    "chosen": [0, 1, 1, 0, 0]}, set="trip", chosen="chosen")
    >>> choices
    Choices(2 sets of 2 to 3 items, 5 rows; items: cost)
    >>> choices.chosen.tolist()
    [1, 0]
    """

    roles: Roles
    columns: Mapping[str, Column]
    context: Mapping[str, Column]
    offsets: Int[np.ndarray, " sets_and_one"]
    table_rows: Int[np.ndarray, " rows"] | None  # None: kept with the columns, on disk
    set_ids: Shaped[np.ndarray, " sets"]
    chosen: Int[np.ndarray, " sets"] | None = None
    weight: Float[np.ndarray, " sets"] | None = None
    group: Shaped[np.ndarray, " sets"] | None = None
    time: Shaped[np.ndarray, " sets"] | None = None
    outside: bool = False
    rare: float = 0.01
    fold: Int[np.ndarray, " sets"] | None = None  # of training sets: see choices.popularity
    dropped: Dropped = field(default_factory=Dropped)
    ranking: Int[np.ndarray, " sets"] | None = None
    worst: Bool[np.ndarray, " sets"] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, sets: Any) -> "Choices":
        """Some of the sets, as of an array: by number, slice, list of numbers or mask."""
        if isinstance(sets, tuple) and len(sets) == 2 and sets[1] is Ellipsis:
            sets = sets[0]  # scikit-learn's way to index arrays
        return self.take(_places(sets, len(self)))

    def __iter__(self) -> Iterator["Choices"]:
        """One set after another, each as choices."""
        return (self[place] for place in range(len(self)))

    @property
    def shape(self) -> tuple[int]:
        """The number of sets: what scikit-learn splits and indexes."""
        return (len(self),)

    @property
    def sizes(self) -> Int[np.ndarray, " sets"]:
        """The number of items of each set (the outside option not counted)."""
        return np.diff(self.offsets)

    @property
    def units(self) -> Int[np.ndarray, " sets"]:
        """What must stay together, numbered from 0: the stages of a ranking, else each set."""
        if self.ranking is None:
            return np.arange(len(self))
        return np.unique(self.ranking, return_inverse=True)[1].reshape(-1)

    @property
    def on_disk(self) -> bool:
        """Whether the item columns are read from a file when they are needed."""
        return isinstance(self.columns, StoredColumns)

    @property
    def cells(self) -> Int[np.ndarray, " rows"]:
        """A number per row, which no other row has, in the order of the table.

        It is the place of the row in the table. In a wide table, where a row holds all
        alternatives, it is the place among all alternatives of all rows. A row of a ranked set
        is here once per stage, with the same number.
        """
        if self.table_rows is None:
            assert isinstance(self.columns, StoredColumns)
            return self.columns.row_numbers()
        return self.table_rows

    @property
    def rows(self) -> Int[np.ndarray, " rows"]:
        """The place of each row in the table; in a wide table, all rows of a set have the same."""
        return self.cells if self.roles.wide is None else self.cells // self.roles.wide.width

    def levels(self, name: str) -> Sequence[str]:
        """The level names of an item or context column; none if it is not a category."""
        if name in self.context:
            return self.context[name].levels or ()
        if name not in self.columns:
            known = ", ".join([*self.columns, *self.context])
            raise InputError(f"there is no item or context column {name!r}; there are: {known}")
        if isinstance(self.columns, StoredColumns):
            return self.columns.stored[name].levels or ()
        return self.columns[name].levels or ()

    def take(self, sets: Int[np.ndarray, " m"]) -> "Choices":
        """The sets of these numbers (from 0), in this order."""
        sets = np.asarray(sets)
        if sets.dtype.kind not in "iu" and sets.size:
            raise InputError(f"sets={_arguments.shown(sets)} must be whole numbers, counted from 0")
        sets = sets.astype(np.int64)
        outside = sets[(sets < 0) | (sets >= len(self))]
        if len(outside):
            raise InputError(f"there is no set {outside[0]}: there are sets 0 to {len(self) - 1}")
        firsts = self.offsets[sets]
        sizes = self.offsets[sets + 1] - firsts
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        parts: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[sets]
            for name in PER_SET
        }
        if isinstance(self.columns, StoredColumns):
            parts["columns"] = self.columns.take(sets, offsets)
        else:
            rows = rows_of(firsts, sizes)
            parts["columns"] = {name: column.take(rows) for name, column in self.columns.items()}
            parts["table_rows"] = self.cells[rows]
        return replace(
            self,
            context={name: column.take(sets) for name, column in self.context.items()},
            offsets=offsets,
            **parts,
        )

    def of_best(self) -> "Choices":
        """Only the sets that chose the best item, which are all but those of ``worst``."""
        if self.worst is None:
            return self
        return replace(self.take(np.flatnonzero(~self.worst)), worst=None)

    def with_utility(self, utility: str | Utility) -> "Choices":
        """The same choices, of which models see the terms of a formula instead of the columns.

        >>> import setwise as sw
        >>> choices = sw.datasets.load("modecanada").with_utility("cost + log1p(ivt) + cost:freq")
        >>> sw.Schema.fit(choices).item_names
        ['cost', 'log1p(ivt)', 'cost:freq']
        """
        given = Utility.of(utility)
        given.parsed()  # refuses what cannot be read
        return replace(self, roles=replace(self.roles, utility=given))

    def blocks(self) -> Iterator["Choices"]:
        """Consecutive parts of about a million rows, for work that goes through all of them."""
        rows = ROWS_PER_BLOCK
        cuts = np.searchsorted(self.offsets, np.arange(rows, self.offsets[-1], rows))
        borders = np.unique([0, *cuts, len(self)])
        if len(borders) <= 2:
            yield self
            return
        for begin, end in itertools.pairwise(borders):
            yield self.take(np.arange(begin, end))

    def in_memory(self) -> "Choices":
        """The same choices with every column in memory."""
        if not self.on_disk:
            return self
        columns = {
            name: Column(np.array(column.values), column.levels)
            for name, column in self.columns.items()
        }
        return replace(self, columns=columns, table_rows=self.cells)

    def limit(self, max_items: int | None = None, min_items: int = 1) -> "Choices":
        """Only the sets of ``min_items`` to ``max_items`` items; others are left out whole.

        A ranking counts as the largest of its sets.
        """
        _arguments.optional(_arguments.whole())("max_items", max_items)
        _arguments.whole(0)("min_items", min_items)
        units = self.units
        largest = np.zeros(units.max(initial=-1) + 1, np.int64)
        np.maximum.at(largest, units, self.sizes)
        sizes = largest[units]
        fits = sizes >= min_items
        if max_items is not None:
            fits &= sizes <= max_items
        if not fits.any():
            wanted = f"{min_items} to {max_items if max_items is not None else 'any number of'}"
            raise InputError(
                f"no set has {wanted} items; the sets have {sizes.min()} to {sizes.max()}"
            )
        return self if fits.all() else self.take(np.flatnonzero(fits))

    def sample(self, sets: int, seed: int = 0) -> "Choices":
        """A random sample of this many sets, in their order; all of them if there are fewer.

        Rankings stay whole: as many are drawn as have about this many sets.
        """
        _arguments.whole()("sets", sets)
        _arguments.seed("seed", seed)
        if sets >= len(self):
            return self
        if self.ranking is None:
            drawn = generator(seed).choice(len(self), sets, replace=False)
            return self.take(np.sort(drawn))
        units = self.units
        count = int(units.max()) + 1
        some = generator(seed).choice(count, max(1, round(count * sets / len(self))), replace=False)
        return self.take(np.flatnonzero(np.isin(units, some)))

    def in_table_order(self, values: Shaped[np.ndarray, " rows"]) -> Shaped[np.ndarray, " rows"]:
        """Values of the rows, put back in the order in which the table had them."""
        return values[np.argsort(self.cells, kind="stable")]

    def to_frame(self) -> Any:
        """The long table as a Polars frame: one row per item, in the order of the table read.

        Columns have their names in that table: the set, the item columns, the context, then the
        chosen column (0 and 1), weight, group and time, where there are such. Values are as they
        were read, before transforms and encoding; missing ones are null. ``to_pandas()`` of the
        frame makes it a pandas frame. Choices on disk are read whole.

        Rankings have a set per stage and a column "chosen". Best–worst choices have the chosen
        column for the best, which is 0 where the worst was asked for, and the worst column.

        >>> import setwise as sw
        >>> table = {"trip": [7, 9, 7, 9], "cost": [3.0, 1.0, 2.0, 5.0], "taken": [0, 1, 1, 0]}
        >>> sw.read(table, set="trip", chosen="taken").to_frame().to_dict(as_series=False)
        {'trip': [7, 9, 7, 9], 'cost': [3.0, 1.0, 2.0, 5.0], 'taken': [0, 1, 1, 0]}
        """
        import polars as pl

        roles, owner = self.roles, np.repeat(np.arange(len(self)), self.sizes)
        columns = {roles.set: Column(self.set_ids[owner]), **self.columns}
        columns |= {name: column.take(owner) for name, column in self.context.items()}
        if self.chosen is not None:
            place = np.arange(len(owner)) - self.offsets[owner]
            marked = (place == self.chosen[owner]).astype(np.int64)
            asked = np.zeros(len(self), bool) if self.worst is None else self.worst
            columns[roles.chosen or "chosen"] = Column(np.where(asked[owner], 0, marked))
            if roles.worst is not None:
                columns[roles.worst] = Column(np.where(asked[owner], marked, 0))
        for role in ("weight", "group", "time"):
            values, name = getattr(self, role), getattr(roles, role)
            if values is not None and name is not None:
                columns.setdefault(name, Column(values[owner]))
        order = np.argsort(self.cells, kind="stable")
        return pl.DataFrame([_series(name, one.take(order)) for name, one in columns.items()])

    def _repr_html_(self) -> str:
        named = {
            role: [str(one) for one in feature]
            for role, feature in (("items", self.roles.items), ("context", self.roles.context))
        }
        for role in ("set", "chosen", "rank", "worst", "alternative", "weight", "group", "time"):
            name = getattr(self.roles, role)
            named[role] = [] if name is None else [name]
        if self.roles.utility is not None:
            named["utility"] = [self.roles.utility.formula]
        parts = [[role, ", ".join(names)] for role, names in named.items() if names]
        if self.outside:
            parts.append(["outside option", "may be chosen from every set"])
        fits = int(np.searchsorted(self.offsets, ROWS_SHOWN, "right")) - 1
        shown = self.take(np.arange(min(len(self), SETS_SHOWN, max(fits, 1))))
        frame = shown.to_frame()
        first = frame.head(ROWS_SHOWN)[:, :COLUMNS_SHOWN]
        note = "" if len(shown) == len(self) else f"The first {len(shown)} of {len(self):,} sets."
        if first.shape != frame.shape:
            note += f" {first.width} of {frame.width} columns, {first.height} of {frame.height} "
            note += "rows of these sets; to_frame() has all."
        rows = [["" if one is None else _text(one) for one in row] for row in first.rows()]
        roles = notebook_html(["role", "columns"], parts, title=self._extent(), kind="")
        return roles + notebook_html(first.columns, rows, note=note.strip())

    def _extent(self) -> str:
        sizes = self.sizes
        low, high = (sizes.min(), sizes.max()) if len(sizes) else (0, 0)
        items = f"{low} items" if low == high else f"{low} to {high} items"
        return f"{len(self):,} sets of {items}, {self.offsets[-1]:,} rows"

    def __repr__(self) -> str:
        text = f"{self._extent()}; items: "
        text += ", ".join(map(str, self.roles.items))
        if self.roles.context:
            text += "; context: " + ", ".join(map(str, self.roles.context))
        if self.roles.alternative is not None:
            text += f"; alternatives: {self.roles.alternative}"
        if self.roles.utility is not None:
            text += f"; utility: {self.roles.utility.formula}"
        return f"Choices({text})"


def _series(name: str, column: Column) -> Any:
    """A column as a Polars series, null where it is missing."""
    import polars as pl

    values = column.values
    if column.levels is not None:
        codes = pl.Series(name, values.astype(np.int64))
        levels = pl.Series(name, list(column.levels), dtype=pl.String)
        return levels.gather(codes.set(codes < 0, None)).alias(name)
    if values.dtype.kind == "M":
        return _dates(name, values)
    return pl.Series(name, values, nan_to_null=True)


def _dates(name: str, values: Shaped[np.ndarray, " n"]) -> Any:
    """Days where no value has a time of day, else microseconds: what Polars knows."""
    import polars as pl

    days = values.astype("datetime64[D]")
    whole = bool(((days == values) | np.isnat(values)).all())
    return pl.Series(name, days if whole else values.astype("datetime64[us]"))


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _places(sets: Any, count: int) -> Int[np.ndarray, " m"]:
    """The numbers of the sets that an index names, of so many."""
    if isinstance(sets, slice):
        found = np.arange(count)[sets]
    else:
        asked = np.atleast_1d(np.asarray(sets))
        if asked.ndim > 1 or (asked.size and asked.dtype.kind not in "iub"):
            raise InputError(
                f"{_arguments.shown(sets)} does not index sets; give a number, a slice, a list of "
                "numbers or a mask"
            )
        if asked.dtype.kind == "b" and asked.shape != (count,):
            raise InputError(f"the mask has {asked.size:,} values, but there are {count:,} sets")
        found = np.flatnonzero(asked) if asked.dtype.kind == "b" else asked.astype(np.int64)
        beyond = (found >= count) | (found < -count)
        if beyond.any():
            raise InputError(f"there is no set {int(found[beyond][0])}: there are {count:,} sets")
    if not len(found):
        raise InputError("no set is selected; choices have at least one")
    return found % count
