"""From a raw series to numbers, a category or dates, as reading would see it, at any size.

It never refuses: what reading would refuse is told as a :class:`Trouble`, and the column goes on
in the type that it should have had.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from setwise.choices.column_types import EXACT, collapsed
from setwise.choices.columns import Column
from setwise.choices.text_values import disguised

if TYPE_CHECKING:
    import polars as pl


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
