"""One feature's way from a column to numbers, fitted on training data."""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise._arguments import check_all, number, one_of, optional
from setwise._errors import DataWarning, InputError
from setwise._shapes import Float, Float64, Int
from setwise.choices.columns import Column
from setwise.choices.features import Feature

OTHER = "other"
MISSING = "missing"
KINDS = ("number", "category", "date", "popularity")


@dataclass(frozen=True)
class Encoder:
    """One feature's fitted form: its kind, its category levels (with values) or its median.

    Numbers and dates are computed (:meth:`numbers`). Categories and popularity are looked up in a
    :meth:`table` with a row for each level.
    """

    feature: Feature
    kind: str
    levels: tuple[str, ...] = ()
    median: float | None = None
    values: tuple[float, ...] = ()

    @property
    def names(self) -> list[str]:
        """The numeric columns that the feature becomes."""
        name = str(self.feature.column)
        if self.kind == "popularity":
            return [f"popularity({name})"]
        if self.kind == "category":
            return [f"{name}={level}" for level in self.levels]
        if self.kind == "date":
            return [f"{name}:week", f"{name}:month"]
        plain = name if self.feature.transform == "none" else f"{self.feature.transform}({name})"
        return [plain, f"{name}:{MISSING}"] if self.median is not None else [plain]

    @property
    def looked_up(self) -> bool:
        """Whether the column's codes are looked up in a table."""
        return self.kind in ("category", "popularity")

    @classmethod
    def fit(cls, feature: Feature, parts: Iterator[Column], rare: float) -> "Encoder":
        """Learn levels or the median from the training column, given in consecutive parts."""
        first = next(parts)
        if first.kind == "category":
            counts, rows = _counts(first), len(first.values)
            for part in parts:
                counts, rows = counts + _counts(part), rows + len(part.values)
            return cls(
                feature, "category", _levels(feature, first.levels or (), counts, rare * rows)
            )
        if first.kind == "date" or not feature.impute:
            return cls(feature, first.kind)
        known = [_transformed(feature, part) for part in (first, *parts)]
        values = np.concatenate(known) if len(known) > 1 else known[0]
        if np.isnan(values).all():
            raise InputError(
                f"column '{feature.column}' has no value at all to impute from; drop it",
                column=feature.column,
            )
        return cls(feature, "number", median=float(np.nanmedian(values)))

    def warn_of_one_level(self, levels: Sequence[str], rare: float) -> None:
        """Warn if all levels of a category are so rare that they become one."""
        if self.kind != "category" or len(levels) < 2 or self.levels[:1] != (OTHER,):
            return
        name = self.feature.column
        warnings.warn(
            f"all {len(levels)} levels of column '{name}' are in fewer than {rare:.2%} of the rows "
            "and become the single level 'other', which tells nothing; read it with a smaller "
            f"rare=, use popularity({name}), or leave it out",
            DataWarning,
            stacklevel=3,
        )

    def table(self, levels: Sequence[str]) -> Float64[np.ndarray, "codes m"]:
        """What each code of a column with these levels becomes; the last row is for missing ones.

        A row of NaN is for a level that training data did not have and no other stands for.
        """
        if self.kind == "popularity":
            known = dict(zip(self.levels, self.values, strict=True))
            return np.array([*(known.get(level, 0.0) for level in levels), 0.0])[:, None]
        place = {level: i for i, level in enumerate(self.levels)}
        fallback = place.get(OTHER, -1)
        places = [place.get(level, fallback) for level in levels]
        rows = np.vstack([np.eye(len(self.levels)), np.full(len(self.levels), np.nan)])
        return rows[[*places, place.get(MISSING, fallback)]]

    def numbers(self, column: Column) -> Float[np.ndarray, "n m"]:
        """The numeric columns of a number or a date, before standardisation."""
        if self.kind == "date":
            return np.stack([_week(column.values), _month(column.values)], 1)
        values = _transformed(self.feature, column)
        if self.median is None:
            return values[:, None]
        gone = np.isnan(values)
        return np.stack([np.where(gone, self.median, values), gone.astype(values.dtype)], 1)

    def check(self, column: Column) -> Column:
        """The column, if it is of the kind that the encoder knows."""
        if self.looked_up and column.kind == "number" and column.missing.all():
            return Column(np.full(len(column.values), -1, np.int32), ())
        if column.kind != ("category" if self.looked_up else self.kind):
            name = self.feature.column
            also = f", or train with category({name})" if self.looked_up else ""
            raise InputError(
                f"column '{name}' is a {column.kind} here but was a {self.kind} when the model "
                f"was trained; convert it{also}",
                column=name,
            )
        return column

    def refuse_unknown(self, column: Column, at: int, row: int) -> None:
        """The error for a level that training data did not have."""
        code = column.values[at]
        level = (column.levels or ())[code] if code >= 0 else None
        raise InputError(
            f"column '{self.feature.column}' has the level {level!r} at row {row}, which "
            f"training data did not have (it had: {', '.join(self.levels[:8])}); correct it, "
            f"or train with other({self.feature.column}) to take new levels as 'other'",
            row=row,
            column=self.feature.column,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values for a model file."""
        return vars(self) | {"feature": vars(self.feature)}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Encoder":
        """The encoder that :meth:`to_json` wrote."""
        check_all({"kind": one_of(*KINDS), "median": optional(number())}, plain)
        levels, values = tuple(plain["levels"]), tuple(plain.get("values", ()))
        feature, kind = Feature.from_json(plain["feature"]), plain["kind"]
        names = all(type(level) is str for level in levels) and len(set(levels)) == len(levels)
        names = names and not isinstance(plain["levels"], str)
        numbers = all(type(value) is float and math.isfinite(value) for value in values)
        fits = len(values) == len(levels) * (kind == "popularity") and (
            kind in ("category", "popularity") or not levels
        )
        if not names or not numbers or not fits:
            raise InputError(f"the levels or values of column '{feature.column}' are not sound")
        return cls(feature, kind, levels, plain["median"], values)


def _counts(column: Column) -> Int[np.ndarray, " levels"]:
    return np.bincount(column.values[~column.missing], minlength=len(column.levels or ()))


def _levels(
    feature: Feature, names: Sequence[str], counts: Int[np.ndarray, " levels"], least: float
) -> tuple[str, ...]:
    """Frequent levels in alphabetical order, then "other" and "missing" where they are needed."""
    frequent = counts >= max(1, least)
    levels = [level for level, keep in zip(names, frequent, strict=True) if keep]
    levels = [level for level in levels if level not in (OTHER, MISSING)]
    grouped = (counts > 0).sum() > len(levels)
    if grouped or feature.other:
        levels.append(OTHER)
    return (*levels, MISSING) if feature.impute else tuple(levels)


def _transformed(feature: Feature, column: Column) -> Float[np.ndarray, " n"]:
    if feature.transform == "none" and column.values.dtype.kind == "f":
        return column.values  # standardisation, which follows, is in double precision
    functions: dict[str, Any] = {
        "none": np.asarray, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt,
    }  # fmt: skip
    # Logarithms of times or of large amounts differ in digits that single precision does not have.
    return functions[feature.transform](column.values.astype(np.float64, copy=False))


def _week(dates: np.ndarray) -> Float[np.ndarray, " n"]:
    """ISO week of the year: the week of the year in which this week's Thursday falls."""
    days = dates.astype("datetime64[D]")
    thursday = days - ((days.astype(np.int64) + 3) % 7) + 3  # 1970-01-01 was a Thursday
    new_year = thursday.astype("datetime64[Y]").astype("datetime64[D]")
    return ((thursday - new_year).astype(np.int64) // 7 + 1).astype(np.float64)


def _month(dates: np.ndarray) -> Float[np.ndarray, " n"]:
    return (dates.astype("datetime64[M]").astype(np.int64) % 12 + 1).astype(np.float64)
