"""What is under examination: the sets of a table, and its features in set order.

A raw column becomes numbers, a category or dates as reading would have it. What reading refuses is
reported as a :class:`TypeProblem`, and the column goes on in the type that it should have had.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import narwhals as nw
import numpy as np

from setwise import _segments
from setwise._shapes import Bool, Float, Int, Shaped
from setwise.choices import Choices, Feature
from setwise.choices.choices import Column
from setwise.choices.column_types import EXACT, WrongType, typed
from setwise.choices.features import TRANSFORMS
from setwise.choices.text_values import MistypedText

if TYPE_CHECKING:
    import polars as pl

EXAMPLES = 5


@dataclass(frozen=True, eq=False)
class ExaminedSets:
    """Rows in set order: set ``i`` has the places ``offsets[i]`` to ``offsets[i + 1]``.

    ``order`` holds the table's row of each place (None if they are the same), ``marks`` whether
    it was chosen (None if that is not known).

    >>> import polars as pl
    >>> sets = ExaminedSets.of(pl.Series([7, 9, None, 7]))
    >>> sets.order.tolist(), sets.offsets.tolist(), sets.ids.to_list()
    ([0, 3, 1], [0, 2, 3], [7, 9])
    """

    ids: "pl.Series | np.ndarray"
    offsets: Int[np.ndarray, " sets_and_one"]
    order: Int[np.ndarray, " rows"] | None = None
    marks: Bool[np.ndarray, " rows"] | None = None

    @classmethod
    def of(cls, ids: "pl.Series") -> "ExaminedSets":
        """Group rows by the id of their set; rows without one are left out."""
        ids = comparable(ids)
        here = None
        if ids.null_count():
            here = ids.is_not_null().arg_true().to_numpy().astype(np.int64)
            ids = ids.drop_nulls()
        starts = (ids != ids.shift(1)).fill_null(True).arg_true().to_numpy().astype(np.int64)
        firsts = ids.gather(starts)
        order = here
        if firsts.n_unique() < len(firsts):
            codes = ids.rank("dense").to_numpy()
            within = np.argsort(codes, kind="stable")
            starts = np.flatnonzero(np.diff(codes[within], prepend=0))
            firsts = ids.gather(within[starts])
            order = within if here is None else here[within]
        return cls(firsts, np.append(starts, len(ids)), order)

    @classmethod
    def of_choices(cls, choices: Choices) -> "ExaminedSets":
        """Those of choices that were read; where the outside option was taken, no row is marked."""
        marked = None
        if choices.chosen is not None:
            inside = choices.chosen < choices.sizes
            marked = np.zeros(int(choices.offsets[-1]), bool)
            marked[(choices.offsets[:-1] + choices.chosen)[inside]] = True
        return cls(choices.set_ids, np.asarray(choices.offsets, np.int64), choices.rows, marked)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def rows(self) -> int:
        """How many rows belong to a set."""
        return int(self.offsets[-1])

    @cached_property
    def sizes(self) -> Int[np.ndarray, " sets"]:
        """Items of each set."""
        return np.diff(self.offsets)

    @cached_property
    def choices(self) -> Int[np.ndarray, " sets"]:
        """Chosen rows of each set."""
        return _segments.sums(self._marks, self.offsets)

    @cached_property
    def telling(self) -> Bool[np.ndarray, " sets"]:
        """Sets with information: exactly one choice, out of at least two items."""
        return (self.choices == 1) & (self.sizes > 1)

    @cached_property
    def chosen_at(self) -> Int[np.ndarray, " sets"]:
        """The place of the chosen row; of sets that are not telling, their first place."""
        places = self.offsets[:-1].copy()
        chosen = np.flatnonzero(self._marks)
        owner = self.owners(chosen)
        single = self.choices[owner] == 1
        places[owner[single]] = chosen[single]
        return places

    @property
    def _marks(self) -> Bool[np.ndarray, " rows"]:
        return np.zeros(self.rows, bool) if self.marks is None else self.marks

    def arranged(self, values: Shaped[np.ndarray, " table"]) -> Shaped[np.ndarray, " rows"]:
        """Values of the table's rows, in set order."""
        return values if self.order is None else values[self.order]

    def owners(self, places: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
        """The set of each of these places."""
        return np.searchsorted(self.offsets, places, side="right") - 1

    def rows_where(self, flags: Bool[np.ndarray, " rows"]) -> dict[str, Any]:
        """The place of a finding about rows: the first few in set order, their sets, how many."""
        places = np.flatnonzero(flags)
        first = places[:EXAMPLES]
        rows = first if self.order is None else self.order[first]
        sets = dict.fromkeys(self._names(self.owners(first)))
        return {"rows": tuple(rows.tolist()), "sets": tuple(sets), "count": len(places)}

    def sets_where(self, flags: Bool[np.ndarray, " sets"]) -> dict[str, Any]:
        """The place of a finding about sets: the first few with their first rows, how many."""
        which = np.flatnonzero(flags)
        first = self.offsets[which[:EXAMPLES]]
        rows = first if self.order is None else self.order[first]
        names = self._names(which[:EXAMPLES])
        return {"rows": tuple(rows.tolist()), "sets": tuple(names), "count": len(which)}

    def _names(self, sets: Int[np.ndarray, " m"]) -> list[str]:
        return [str(self.ids[int(one)]) for one in sets]


def comparable(ids: "pl.Series") -> "pl.Series":
    """Ids in a type that can be compared and ranked, null where missing."""
    import polars as pl

    if ids.dtype.is_float():
        return ids.fill_nan(None)
    if ids.dtype == pl.Null:
        return ids.cast(pl.String)
    if ids.dtype.is_numeric() or ids.dtype.is_temporal() or ids.dtype in (pl.String, pl.Boolean):
        return ids
    return pl.Series([None if one is None else str(one) for one in ids.to_list()], dtype=pl.String)


@dataclass(frozen=True)
class TypeProblem:
    """Why reading refuses the type of a column."""

    code: str
    message: str
    remedy: str
    row: int | None = None
    count: int = 0


def understood(
    name: str, series: Any, as_category: bool = False
) -> tuple[Column, TypeProblem | None]:
    """The column in the type it has, or was meant to have.

    ``series`` is what :func:`setwise.choices.column_types.typed` takes, or a Polars series.

    >>> column, trouble = understood("price", np.array(["3", "NULL", "5", None], object))
    >>> column.values.tolist(), trouble.code
    ([3.0, nan, 5.0, nan], 'numbers-as-text')
    """
    if not isinstance(series, np.ndarray):
        series = nw.from_native(series, series_only=True, pass_through=True)
    try:
        return typed(name, series, "item", as_category), None
    except WrongType as error:
        if error.disguise is not None and error.meant is not None:
            return _meant(name, error.meant, error.disguise)
        column = error.meant or Column(np.full(len(series), np.nan))
        return column, TypeProblem("type", error.problem, error.remedy, error.row)


def _meant(name: str, column: Column, found: MistypedText) -> tuple[Column, TypeProblem]:
    """Text that is numbers or dates: numbers if most of it can be read so, else a category."""
    if found.kind == "dates":
        return column, TypeProblem("dates-as-text", found.message, found.remedy, found.row)
    levels = column.levels or ()
    counts = np.bincount(column.values[column.values >= 0], minlength=len(levels))
    if max(found.readable.mean(), counts[found.readable].sum() / counts.sum()) <= 0.5:
        count = int(counts.sum())
        return column, TypeProblem("numbers-as-text", found.message, found.remedy, found.row, count)
    numbers = np.array([*map(_number, levels), None], np.float64)  # None is NaN; missing codes: -1
    return Column(numbers[column.values]), _spoiled(name, column, found.readable, counts)


def _spoiled(name: str, column: Column, readable: np.ndarray, counts: np.ndarray) -> TypeProblem:
    """Which values spoil a column of numbers: all, if they are text, or the most frequent ones."""
    levels = column.levels or ()
    if readable.all():
        return TypeProblem(
            "numbers-as-text",
            f"column '{name}' holds numbers written as text",
            f"convert it to numbers, or use category({name}) if they are names",
            count=int(counts.sum()),
        )
    wrong = np.flatnonzero(~readable)
    worst = wrong[np.argsort(-counts[wrong], kind="stable")][:3]
    shown = ", ".join(f"'{levels[code]}' ({counts[code]:,} times)" for code in worst)
    return TypeProblem(
        "numbers-as-text",
        f"column '{name}' is text, but most of its values are numbers; not so {shown}",
        "correct these values, leaving missing ones empty, "
        f"or use category({name}) if they are names",
        row=int(np.argmax(column.values == worst[0])),
        count=int(counts[wrong].sum()),
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


MOST_LEVELS = 1000
SAMPLE = 1_000_000


@dataclass(frozen=True, eq=False)
class ExaminedFeature:
    """A feature, its column in set order, and the sets that the rows belong to."""

    feature: Feature
    role: Literal["item", "context"]
    column: Column
    sets: ExaminedSets
    trouble: TypeProblem | None = None
    rare: float = 0.01

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.feature.column

    @property
    def kind(self) -> str:
        """ "number", "category" or "date"."""
        return self.column.kind

    @cached_property
    def values(self) -> Float[np.ndarray, " rows"]:
        """A number for each row, NaN where missing: dates as seconds, categories as codes."""
        values = self.column.values
        if values.dtype == np.float64:
            return values
        if self.kind == "date":
            values = values.astype("datetime64[s]").astype(np.int64)
        return np.where(self.column.missing, np.nan, values.astype(np.float64))

    @cached_property
    def missing(self) -> Bool[np.ndarray, " rows"]:
        """True where the value is absent."""
        return np.isnan(self.values)

    @cached_property
    def any_missing(self) -> bool:
        """Whether a value is absent."""
        return bool(self.missing.any())

    @property
    def empty(self) -> bool:
        """Whether every value is absent."""
        return self.any_missing and bool(self.missing.all())

    @cached_property
    def highest(self) -> Float[np.ndarray, " sets"]:
        """The largest value of each set, minus infinity where all are missing."""
        return _segments.maxima(self.filled(-np.inf), self.sets.offsets)

    @cached_property
    def lowest(self) -> Float[np.ndarray, " sets"]:
        """The smallest value of each set, infinity where all are missing."""
        return _segments.minima(self.filled(np.inf), self.sets.offsets)

    @cached_property
    def present(self) -> Int[np.ndarray, " sets"]:
        """How many items of each set have a value."""
        if not self.any_missing:
            return self.sets.sizes
        return _segments.sums(~self.missing, self.sets.offsets)

    @cached_property
    def differs(self) -> Bool[np.ndarray, " sets"]:
        """Sets in which items differ in this column, or in having a value at all."""
        partly = (self.present > 0) & (self.present < self.sets.sizes)
        return (self.highest > self.lowest) | partly

    def filled(self, value: float) -> Float[np.ndarray, " rows"]:
        """The values, with this one where they are missing."""
        return np.where(self.missing, value, self.values) if self.any_missing else self.values

    @cached_property
    def sample(self) -> Float[np.ndarray, " some"]:
        """Finite values as a model sees them; of many rows, a million at even distances."""
        values = self.values[:: -(-len(self.values) // SAMPLE)]
        return TRANSFORMS[self.feature.transform].defined(values[np.isfinite(values)])

    @cached_property
    def whole(self) -> bool:
        """Whether all values are whole numbers (and there is one)."""
        if self.kind != "number" or self.empty or not _whole(self.sample):
            return False
        finite = self.values[~self.missing] if self.any_missing else self.values
        return _whole(finite)

    @cached_property
    def codes(self) -> Int[np.ndarray, " rows"] | None:
        """Levels counted from 0 (-1: missing), for categories and whole numbers of a small range.

        None for other columns.
        """
        if self.kind == "category":
            return self.column.values.astype(np.int64)
        if not self.whole:
            return None
        least, most = float(self.lowest.min()), float(self.highest.max())
        if not most - least < MOST_LEVELS or max(-least, most) > EXACT:
            return None
        return self.filled(least - 1).astype(np.int64) - int(least)


def features_of(choices: Choices, sets: ExaminedSets) -> Iterator[ExaminedFeature]:
    """Every feature of choices that were read, one after the other: items', then context's."""
    for feature in choices.roles.items:
        column = choices.columns[feature.column]
        yield ExaminedFeature(feature, "item", column, sets, rare=choices.rare)
    for feature in choices.roles.context:
        column = choices.context[feature.column].take(_segments.owners(sets.offsets))
        yield ExaminedFeature(feature, "context", column, sets, rare=choices.rare)


def _whole(values: Float[np.ndarray, " n"]) -> bool:
    return bool(np.isfinite(values).all() and (values == np.floor(values)).all())
