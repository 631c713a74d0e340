"""From the values of a feature to the numbers that a model sees: the only encoder.

Tables, requests to a service and checks use it. An :class:`Encoder` is what is learned from
training data; a :class:`FeatureEncoder` also standardises; a :class:`RowEncoder` takes whole rows.
"""

import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from setwise._arguments import check_all, number, one_of, optional, shown
from setwise._errors import DataWarning, InputError
from setwise._shapes import Float, Float32, Float64, Int, Shaped
from setwise.choices.choices import Column
from setwise.choices.features import TRANSFORMS, Feature

OTHER = "other"
MISSING = "missing"
KINDS = ("number", "category", "date", "popularity")

Vector = Float64[np.ndarray, " m"]
Part = tuple[int, Vector, Vector, Vector, Vector] | Int[np.ndarray, " codes"]
"""Sums over some rows: their number, mean, variance, least and largest values. For categories:
how often each code occurs."""

SMALLEST, LARGEST = 1e-30, 1e30
"""Training columns lie between: their squares, and what is computed from these, stay finite."""
FARTHEST = 1e7
"""Standard deviations from the training mean. Beyond, products of a few values exceed float32."""
ROUNDING = 1e-12
"""A spread of this share of a column's size is rounding error."""

_UNSEEN = "\0"  # stands for every level that training data did not have
_MOMENTS = ("mean", "scale")
_ISO_DATE = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
)


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
        transform = TRANSFORMS[feature.transform]
        known = [transform(part.values) for part in (first, *parts)]
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
        values = TRANSFORMS[self.feature.transform](column.values)
        if self.median is None:
            return values[:, None]
        gone = np.isnan(values)
        return np.stack([np.where(gone, self.median, values), gone.astype(values.dtype)], 1)

    def column(self, columns: Mapping[str, Column]) -> Column:
        """The feature's column, if it is of the kind that the encoder knows."""
        name = self.feature.column
        column = columns[name]
        if self.looked_up and column.kind == "number" and column.missing.all():
            return Column(np.full(len(column.values), -1, np.int32), ())
        if column.kind != ("category" if self.looked_up else self.kind):
            also = f", or train with category({name})" if self.looked_up else ""
            raise InputError(
                f"column '{name}' is a {column.kind} here but was a {self.kind} when the model "
                f"was trained; convert it{also}",
                column=name,
            )
        return column

    @property
    def may_be_missing(self) -> bool:
        """Whether the model was trained to take missing values of the column."""
        return self.feature.impute and self.kind != "date"

    def same_as(self, level: str) -> list[Any]:
        """The numbers and truth values that a table of such values would have as this level.

        >>> Encoder(Feature("code", category=True), "category", ("3",)).same_as("3")
        [3]
        """
        if not self.feature.category:
            return []
        if level in ("True", "False"):
            return [level == "True"]
        try:
            number = float(level)
        except ValueError:
            return []
        if number.is_integer() and level == str(int(number)):
            return [int(number)]
        return [number] if level == str(number) and math.isfinite(number) else []

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
            raise InputError(f"the levels or values of column '{feature.column}' are not valid")
        return cls(feature, kind, levels, plain["median"], values)


class BadValue(Exception):
    """A value that a model cannot take.

    Errors about tables and about requests are made of the same parts. ``row`` is the place among
    the values that were encoded; ``said`` ends a sentence that begins with the value's place.
    """

    def __init__(self, row: int, column: str, value: str, why: str, remedy: str = ""):
        self.row, self.column, self.said = row, column, f"is {value}{why}"
        self._parts = value, f"{why}{remedy}"
        super().__init__(str(self.in_table(row)))

    def in_table(self, row: int) -> InputError:
        """The error about this row of a table."""
        value, why = self._parts
        return InputError(
            f"column '{self.column}' is {value} at row {row}{why}", row=row, column=self.column
        )


@dataclass(frozen=True, eq=False)
class FeatureEncoder:
    """One feature's way to the numbers that a model sees, for tables, requests and checks.

    It is a fitted encoder with the training mean and scale of its numbers. Raw values of a request
    become a column (:meth:`read`), as those of a table do, and a column becomes standardised
    numbers (:meth:`encoded`) or a :class:`BadValue` that says which value cannot be taken and why.

    >>> stars = Encoder(Feature("stars"), "number")
    >>> one = FeatureEncoder(stars, np.array([3.0]), np.array([0.5]))
    >>> one.encoded(one.read([4, 3.5])).tolist()
    [[2.0], [1.0]]
    """

    encoder: Encoder
    mean: Vector
    scale: Vector
    table: Float64[np.ndarray, "codes m"] | None = None
    """For categories, bound to the levels of some choices: what each code becomes, standardised."""
    codes: Mapping[Any, int] | None = None
    """For categories of requests: the code of each value."""

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.encoder.feature.column

    @property
    def width(self) -> int:
        """How many numeric columns the feature becomes."""
        return len(self.mean)

    @property
    def plain(self) -> bool:
        """Whether numbers are only standardised: nothing is transformed or missing."""
        encoder = self.encoder
        as_is = encoder.feature.transform == "none" and encoder.median is None
        return encoder.kind == "number" and as_is

    def bound(self, table: Float64[np.ndarray, "codes m"]) -> "FeatureEncoder":
        """With this table of levels (:meth:`Encoder.table`)."""
        return replace(self, table=(table - self.mean) / self.scale)

    def for_requests(self) -> "FeatureEncoder":
        """Bound to the values that a request may have.

        A level such as "3" is also found by the number 3, as in a table of numbers.
        """
        if not self.encoder.looked_up:
            return self
        levels = self.encoder.levels
        codes: dict[Any, int] = {level: code for code, level in enumerate(levels)}
        for code, level in enumerate(levels):
            for value in self.encoder.same_as(level):
                codes.setdefault(value, code)
        codes[None] = -1
        return replace(self.bound(self.encoder.table([*levels, _UNSEEN])), codes=codes)

    def read(self, values: Sequence[Any]) -> Column:
        """Values of a request as a column: numbers, text, dates as ISO 8601 writes them, None."""
        if self.codes is not None:
            codes, unseen = self.codes, len(self.encoder.levels)
            found = np.array([codes.get(value, unseen) for value in values])
            return Column(found, (*self.encoder.levels, _UNSEEN))
        if self.encoder.kind == "date":
            return Column(self._dates(values))
        column = np.array(values, np.float64)
        transform = TRANSFORMS[self.encoder.feature.transform]
        if transform.domain != "all":
            bad = transform.undefined(column)
            if bad.any():
                row = int(np.argmax(bad))
                raise BadValue(row, self.name, shown(values[row]), f", and {transform.why}")
        return Column(column)

    def _dates(self, values: Sequence[str]) -> Shaped[np.ndarray, " n"]:
        """Days; of a time only the day counts, on its own calendar."""
        days = np.empty(len(values), "datetime64[s]")
        for row, value in enumerate(values):
            try:
                if _ISO_DATE.fullmatch(value) is None:
                    raise ValueError
                days[row] = np.datetime64(value[:10], "D")
            except ValueError:
                why = "; give a date such as 2026-07-31"
                raise BadValue(row, self.name, shown(value), why) from None
        return days

    def columns(
        self, column: Column, fold: Int[np.ndarray, " n"] | None = None
    ) -> Float64[np.ndarray, "n m"]:
        """The standardised numbers, not checked; ``fold`` is that of each row."""
        if self.table is None:
            return (self.encoder.numbers(column) - self.mean) / self.scale
        return self.table[self._places(column, fold)]

    def columns_of(self, values: Sequence[Any]) -> Float64[np.ndarray, "n m"]:
        """The standardised numbers of a request's values, not checked."""
        if self.codes is None or self.table is None:
            return self.columns(self.read(values))
        codes, unseen = self.codes, len(self.encoder.levels)
        return self.table[[codes.get(value, unseen) for value in values]]

    def encoded(
        self,
        column: Column,
        fold: Int[np.ndarray, " n"] | None = None,
        given: Sequence[Any] | None = None,
    ) -> Float64[np.ndarray, "n m"]:
        """The standardised numbers; a value that cannot be taken is an error.

        ``fold`` is that of each row. ``given`` are the values as they were sent, for the error.
        """
        with np.errstate(over="ignore"):
            values = self.columns(column, fold)
        if not values.size:
            return values
        if self.table is None:
            if not max(-values.min(), values.max()) <= FARTHEST:
                raise self.too_far(column, values, given)
        else:
            unknown = np.isnan(values[:, 0])
            if unknown.any():
                raise self._unknown(column, int(np.argmax(unknown)), given)
        return values

    def too_far(
        self, column: Column, values: Float64[np.ndarray, "n m"], given: Sequence[Any] | None = None
    ) -> BadValue:
        """The error for a value so far from the training data that products would overflow."""
        at = int(np.argmax(np.abs(values).max(1)))
        why = (
            f"too far from the training data: more than {FARTHEST:g} standard deviations from the "
            f"training mean of {self.mean[0]:g}"
        )
        return self.bad_value(column, at, why, "correct it", given)

    def refuse_unknown(self, column: Column, given: Sequence[Any] | None = None) -> None:
        """Refuse a level that training data did not have."""
        if self.encoder.kind != "category":
            return
        known = set(self.encoder.levels)
        levels = np.array([*(one in known for one in column.levels or ()), False])
        unknown = ~levels[column.values]
        if unknown.any():
            raise self._unknown(column, int(np.argmax(unknown)), given)

    def _unknown(self, column: Column, at: int, given: Sequence[Any] | None) -> BadValue:
        """The error for a level that training data did not have."""
        code, levels = column.values[at], self.encoder.levels
        level = (column.levels or ())[code] if code >= 0 else None
        more = " and others" if len(levels) > 8 else ""
        why = f", which training data did not have; it had: {', '.join(levels[:8])}{more}"
        remedy = f"; correct it, or train with other({self.name}) to take new levels as 'other'"
        value = level if given is None else given[at]
        return BadValue(at, self.name, shown(value), why, remedy)

    def bad_value(
        self,
        column: Column,
        at: int,
        why: str,
        remedy: str,
        given: Sequence[Any] | None = None,
    ) -> BadValue:
        """The error for the number at this place."""
        value = f"{column.values[at]:g}" if given is None else shown(given[at])
        return BadValue(at, self.name, value, f", {why}; {remedy}")

    def summed(self, column: Column, fold: Int[np.ndarray, " n"] | None) -> Part:
        """What :meth:`moments` needs to know of some rows."""
        if self.table is None:
            with np.errstate(over="ignore", invalid="ignore"):
                values = self.columns(column)
                mean, variance = values.mean(0), values.var(0)
            return len(values), mean, variance, values.min(0), values.max(0)
        return np.bincount(self._places(column, fold), minlength=len(self.table))

    def moments(self, parts: Sequence[Part]) -> tuple[Vector, Vector]:
        """Mean and scale of the columns, from those of consecutive parts."""
        if self.table is None:
            return self._of_numbers(*merged_moments(parts))
        counts: Any = parts[0]  # added up already
        # Names of test data alone have codes too: not even by rounding do they count.
        seen = np.flatnonzero(counts)
        share, table = counts[seen] / counts.sum(), self.table[seen]
        mean = share @ table
        scale = np.sqrt(share @ (table - mean) ** 2)
        # A constant column keeps its unit; so does one whose spread is rounding error.
        return mean, np.where(scale > ROUNDING * np.maximum(1, np.abs(mean)), scale, 1.0)

    def _of_numbers(
        self, mean: Vector, scale: Vector, low: Vector, high: Vector
    ) -> tuple[Vector, Vector]:
        """Mean and scale of numbers; a constant column keeps its unit."""
        size = np.maximum(np.abs(low), np.abs(high))
        varies = high > low
        if (varies & (size < SMALLEST)).any():
            raise InputError(
                f"column '{self.name}' has no value above {size.max():.3g}, which is too small to "
                "compute with; use other units",
                column=self.name,
            )
        rounding = varies & (scale <= ROUNDING * size)
        if rounding.any():
            warnings.warn(
                f"column '{self.name}' varies by less than {ROUNDING:g} of its size, as rounding "
                "errors do, and is not scaled; subtract its mean, or leave it out",
                DataWarning,
                stacklevel=2,
            )
        return mean, np.where(varies & ~rounding, scale, 1.0)

    def _places(self, column: Column, fold: Int[np.ndarray, " n"] | None) -> Int[np.ndarray, " n"]:
        """The table's row for each code: the last one for missing values; a table per fold."""
        codes = len(column.levels or ()) + 1
        assert self.table is not None
        if len(self.table) == codes:
            return column.values % codes
        assert fold is not None
        return fold * np.int64(codes) + column.values % codes


@dataclass(frozen=True, eq=False)
class RowEncoder:
    """Rows of plain values, as requests have them, as standardised numbers.

    Plain numbers go through together, which is fast; every other feature goes by itself.

    >>> price, brand = Feature("price"), Feature("brand")
    >>> one, other = np.zeros(1), np.ones(2)
    >>> features = [
    ...     FeatureEncoder(Encoder(price, "number"), one + 50.0, one + 25.0),
    ...     FeatureEncoder(Encoder(brand, "category", ("Ibis", "Ritz")), other * 0.0, other),
    ... ]
    >>> rows = RowEncoder.of(features, ["price", "brand"])
    >>> rows.encoded([(100.0, "Ritz"), (25.0, "Ibis")]).tolist()
    [[2.0, 0.0, 1.0], [-1.0, 1.0, 0.0]]
    """

    features: tuple[FeatureEncoder, ...]
    values: tuple[int, ...]
    """The place of each feature's value in a row."""
    slices: tuple[slice, ...]
    """The places of each feature's numbers among all numbers."""
    plain: tuple[int, ...]
    """Which features are plain numbers."""
    others: tuple[int, ...]
    """Which are not."""
    plain_places: tuple[int, ...]
    """The places of the plain ones among all numbers."""
    mean: Vector
    scale: Vector
    """Those of the plain numbers."""

    @classmethod
    def of(cls, features: Sequence[FeatureEncoder], columns: Sequence[str]) -> "RowEncoder":
        """An encoder of rows that have a value for each of these columns."""
        ends = np.cumsum([one.width for one in features]).tolist()
        plain = tuple(place for place, one in enumerate(features) if one.plain)
        slices = [slice(end - one.width, end) for one, end in zip(features, ends, strict=True)]
        mean, scale = ([getattr(features[at], name)[0] for at in plain] for name in _MOMENTS)
        return cls(
            tuple(one.for_requests() for one in features),
            tuple(columns.index(one.name) for one in features),
            tuple(slices), plain, tuple(set(range(len(features))) - set(plain)),
            tuple(slices[at].start for at in plain),
            np.array(mean, np.float64), np.array(scale, np.float64),
        )  # fmt: skip

    def encoded(self, rows: Sequence[tuple[Any, ...]]) -> Float32[np.ndarray, "n m"]:
        """The numbers of some rows; a value that cannot be taken is a :class:`BadValue`."""
        if not self.features:
            return np.zeros((len(rows), 0), np.float32)
        with np.errstate(over="ignore"):
            numbers = self._numbers(rows)
        # One look at all numbers is fast; only when it finds something, each feature is asked.
        if not (np.abs(numbers) <= FARTHEST).all():
            columns = list(zip(*rows, strict=True))
            for one, value in zip(self.features, self.values, strict=True):
                one.encoded(one.read(columns[value]), given=columns[value])
        return numbers.astype(np.float32)

    def _numbers(self, rows: Sequence[tuple[Any, ...]]) -> Float64[np.ndarray, "n m"]:
        """The standardised numbers, not checked."""
        if self.plain == self.values == tuple(range(len(rows[0]))):  # the commonest case
            return (np.array(rows, np.float64) - self.mean) / self.scale
        columns = list(zip(*rows, strict=True))
        numbers = np.empty((len(rows), self.slices[-1].stop))
        if self.plain:
            together = np.array([columns[self.values[at]] for at in self.plain], np.float64).T
            numbers[:, self.plain_places] = (together - self.mean) / self.scale
        for place in self.others:
            one, given = self.features[place], columns[self.values[place]]
            numbers[:, self.slices[place]] = one.columns_of(given)
        return numbers


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


def _week(dates: np.ndarray) -> Float[np.ndarray, " n"]:
    """ISO week of the year: the week of the year in which this week's Thursday falls."""
    days = dates.astype("datetime64[D]")
    thursday = days - ((days.astype(np.int64) + 3) % 7) + 3  # 1970-01-01 was a Thursday
    new_year = thursday.astype("datetime64[Y]").astype("datetime64[D]")
    return ((thursday - new_year).astype(np.int64) // 7 + 1).astype(np.float64)


def _month(dates: np.ndarray) -> Float[np.ndarray, " n"]:
    return (dates.astype("datetime64[M]").astype(np.int64) % 12 + 1).astype(np.float64)


def merged_moments(parts: Sequence[Any]) -> tuple[Vector, Vector, Vector, Vector]:
    """Mean, standard deviation, least and largest values of all parts, from those of each."""
    if len(parts) == 1:
        _, mean, variance, low, high = parts[0]
        return mean, np.sqrt(variance), low, high
    counts, means, variances, lows, highs = (np.array(one) for one in zip(*parts, strict=True))
    share = counts / counts.sum()
    mean = share @ means
    scale = np.sqrt(share @ (variances + (means - mean) ** 2))
    return mean, scale, lows.min(0), highs.max(0)
