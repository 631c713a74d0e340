"""From a raw series to numbers, a category or dates, as reading would see it, at any size.

It never refuses: what reading would refuse is told as a :class:`Trouble`, and the column goes on
in the type that it should have had.

One feature under examination: its values in set order, and what several checks ask of them.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from setwise.choices.column_types import EXACT, collapsed
from setwise.choices.columns import Column
from setwise.choices.text_values import disguised

if TYPE_CHECKING:
    import polars as pl

from collections.abc import Iterator
from functools import cached_property
from typing import Literal

from jaxtyping import Bool, Float, Int

from setwise.choices import Choices, Feature
from setwise.doctor.sets import Sets


@dataclass(frozen=True)
class Trouble:
    """Why reading refuses the type of a column, or may take it for another than was meant."""

    code: str
    message: str
    remedy: str
    row: int | None = None
    count: int = 0


def understood(
    name: str, series: "pl.Series", as_category: bool = False
) -> tuple[Column, Trouble | None]:
    """The column in the type it has, or was meant to have.

    >>> import polars as pl
    >>> column, trouble = understood("price", pl.Series(["3", "NULL", "5", None]))
    >>> column.values.tolist(), trouble.code
    ([3.0, nan, 5.0, nan], 'numbers-as-text')
    """
    import polars as pl

    dtype = series.dtype
    if as_category:
        return _category(_as_text(series)), None
    if dtype.is_numeric() or dtype in (pl.Boolean, pl.Null):
        values = series.cast(pl.Float64).to_numpy()
        if dtype.is_integer() and (np.abs(values) > EXACT).any():
            whole = np.array(series.drop_nulls().to_list(), object)
            if collapsed(whole):
                return Column(values.astype(np.float64)), _too_exact(name, values, whole)
        return Column(values if values.dtype == np.float64 else values.astype(np.float64)), None
    if dtype in (pl.Date, pl.Datetime):
        if getattr(dtype, "time_zone", None):
            series = series.dt.replace_time_zone(None)
        return Column(series.cast(pl.Datetime("ms")).to_numpy().astype("datetime64[s]")), None
    if dtype in (pl.Categorical, pl.Enum):
        return _category(series.cast(pl.String)), None
    if dtype == pl.String:
        return _text(name, _category(series))
    trouble = Trouble(
        "type",
        f"column '{name}' has type {dtype}, which is neither a number, text nor a date",
        "convert it, or leave it out of items",
    )
    return Column(np.full(len(series), np.nan)), trouble


def _too_exact(name: str, values: np.ndarray, whole: np.ndarray) -> Trouble:
    return Trouble(
        "type",
        f"column '{name}' has whole numbers beyond 2**53, such as {np.abs(whole).max()}, of which "
        "some are equal when they become floats",
        f"subtract a constant from them, or use category({name}) if they are names",
        row=int(np.argmax(np.abs(values) > EXACT)),
    )


def _as_text(series: "pl.Series") -> "pl.Series":
    """Any values as text, whole floats as whole numbers: 3, not 3.0."""
    import polars as pl

    if series.dtype.is_float():
        series = series.fill_nan(None)
        if series.is_finite().all() and (series == series.floor()).all():
            series = series.cast(pl.Int64, strict=False)
    if series.dtype.is_nested():
        return pl.Series(
            [None if one is None else str(one) for one in series.to_list()], dtype=pl.String
        )
    return series.cast(pl.String)


def _category(text: "pl.Series") -> Column:
    import polars as pl

    levels = text.drop_nulls().unique().sort()
    codes = text.cast(pl.Enum(levels)).to_physical().cast(pl.Int32).fill_null(-1)
    return Column(codes.to_numpy(), tuple(levels.to_list()))


def _text(name: str, column: Column) -> tuple[Column, Trouble | None]:
    """Text as a category, unless it is numbers or dates that were written as text."""
    levels = column.levels or ()
    if not levels:  # a file's empty column looks like text
        return Column(np.full(len(column.values), np.nan)), None
    found = disguised(name, column)
    if found is None:
        return column, None
    if found.kind == "dates":
        return column, Trouble("dates-as-text", found.message, found.remedy, found.row)
    counts = np.bincount(column.values[column.values >= 0], minlength=len(levels))
    if max(found.readable.mean(), counts[found.readable].sum() / counts.sum()) <= 0.5:
        count = int(counts.sum())
        return column, Trouble("numbers-as-text", found.message, found.remedy, found.row, count)
    numbers = np.array([*map(_number, levels), None], np.float64)  # None is NaN; missing codes: -1
    return Column(numbers[column.values]), _spoiled(name, column, found.readable, counts)


def _spoiled(name: str, column: Column, readable: np.ndarray, counts: np.ndarray) -> Trouble:
    """Which values spoil a column of numbers: all, if they are text, or the most frequent ones."""
    levels = column.levels or ()
    if readable.all():
        return Trouble(
            "numbers-as-text",
            f"column '{name}' holds numbers written as text",
            f"convert it to numbers, or use category({name}) if they are names",
            count=int(counts.sum()),
        )
    wrong = np.flatnonzero(~readable)
    worst = wrong[np.argsort(-counts[wrong], kind="stable")][:3]
    shown = ", ".join(f"'{levels[code]}' ({counts[code]:,} times)" for code in worst)
    return Trouble(
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
class Examined:
    """A feature, its column in set order, and the sets that the rows belong to."""

    feature: Feature
    role: Literal["item", "context"]
    column: Column
    sets: Sets
    trouble: Trouble | None = None
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
        return self.sets.highest(self.filled(-np.inf))

    @cached_property
    def lowest(self) -> Float[np.ndarray, " sets"]:
        """The smallest value of each set, infinity where all are missing."""
        return self.sets.lowest(self.filled(np.inf))

    @cached_property
    def present(self) -> Int[np.ndarray, " sets"]:
        """How many items of each set have a value."""
        return self.sets.total(~self.missing) if self.any_missing else self.sets.sizes

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
        return transformed(values[np.isfinite(values)], self.feature.transform)

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


def features_of(choices: Choices, sets: Sets) -> Iterator[Examined]:
    """Every feature of choices that were read, one after the other: items', then context's."""
    for feature in choices.roles.items:
        column = choices.columns[feature.column]
        yield Examined(feature, "item", column, sets, rare=choices.rare)
    for feature in choices.roles.context:
        column = choices.context[feature.column].take(sets.spread(np.arange(len(sets))))
        yield Examined(feature, "context", column, sets, rare=choices.rare)


def transformed(values: Float[np.ndarray, " n"], transform: str) -> Float[np.ndarray, " seen"]:
    """Values in the form that a model sees; those that have none are left out.

    >>> transformed(np.array([0.0, 1.0, 4.0]), "sqrt").tolist()
    [0.0, 1.0, 2.0]
    """
    if transform == "none":
        return values
    if transform == "log":
        return np.log(values[values > 0])
    return (np.log1p if transform == "log1p" else np.sqrt)(values[values >= 0])


def _whole(values: Float[np.ndarray, " n"]) -> bool:
    return bool(np.isfinite(values).all() and (values == np.floor(values)).all())
