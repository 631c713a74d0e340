"""How much memory there is.

Choices as the numbers that models see: standardised columns, of all sets or of some.
"""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from setwise._errors import DataWarning, InputError
from setwise._shapes import Float, Float64, Int
from setwise.choices.choices import Choices
from setwise.choices.columns import Column
from setwise.choices.encoders import Encoder


def available_bytes() -> int | None:
    """What can be used before the system runs out; None where it does not say (not on Linux)."""
    told = Path("/proc/meminfo")
    if not told.exists():
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", told.read_text(), re.MULTILINE)
    return None if found is None else 1024 * int(found[1])


Vector = Float64[np.ndarray, " m"]
Part = tuple[int, Vector, Vector, Vector, Vector] | Int[np.ndarray, " codes"]
"""Of some rows: their number, mean, variance, least and largest values; or, of categories, how
often each code is in."""

LARGEST = 1e30
SMALLEST = 1e-30
"""Training columns lie between: their squares, and what is computed from these, stay numbers."""

FARTHEST = 1e7
"""Standard deviations from the training mean. Beyond, products of a few values exceed float32."""

ROUNDING = 1e-12
"""A spread of this share of a column's size is rounding error."""

SINGLE = 1e-5  # scaled values that differ by less are hardly told apart in single precision
LOOKED_AT = 1000  # values per column, to see whether they stay apart

COPIES = 3  # of the encoded rows: here, on their way to the device, and there


@dataclass(frozen=True, eq=False)
class Encoded:
    """Choices as models see them: flat numeric rows, standardised.

    With an outside option every set has one more row, its last: zero in every feature (the mean)
    and one in the indicator column that is added at the end.
    """

    items: Float[np.ndarray, "rows d"]
    context: Float[np.ndarray, "sets c"]
    offsets: Int[np.ndarray, " sets_and_one"]
    chosen: Int[np.ndarray, " sets"] | None
    weight: Float[np.ndarray, " sets"] | None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Int[np.ndarray, " sets"]:
        """The number of items of each set, the outside option included."""
        return np.diff(self.offsets)


@dataclass(frozen=True, eq=False)
class Standardised:
    """An encoder with the training mean and scale of its columns."""

    encoder: Encoder
    mean: Vector
    scale: Vector
    table: Float64[np.ndarray, "codes m"] | None = None
    """Of categories, bound to the levels of some choices: what each code becomes, standardised."""

    @property
    def width(self) -> int:
        """How many numeric columns the feature becomes."""
        return len(self.mean)

    def column(self, columns: Mapping[str, Column]) -> Column:
        """The feature's column, checked to be of its kind."""
        return self.encoder.check(columns[self.encoder.feature.column])

    def bound(self, table: Float64[np.ndarray, "codes m"]) -> "Standardised":
        """With this table of levels (:meth:`Encoder.table`)."""
        return replace(self, table=(table - self.mean) / self.scale)

    def columns(
        self, column: Column, fold: Int[np.ndarray, " n"] | None
    ) -> Float64[np.ndarray, "n m"]:
        """The standardised columns; ``fold`` is that of each row."""
        if self.table is None:
            with np.errstate(over="ignore"):  # what is too far is refused by who asks
                return (self.encoder.numbers(column) - self.mean) / self.scale
        return self.table[self._places(column, fold)]

    def summed(self, column: Column, fold: Int[np.ndarray, " n"] | None) -> Part:
        """What :meth:`moments` needs to know of some rows."""
        if self.table is None:
            values = self.columns(column, None)
            with np.errstate(over="ignore", invalid="ignore"):
                mean, variance = values.mean(0), values.var(0)
            return len(values), mean, variance, values.min(0), values.max(0)
        return np.bincount(self._places(column, fold), minlength=len(self.table))

    def moments(self, parts: Sequence[Part]) -> tuple[Vector, Vector]:
        """Mean and scale of the columns, from those of consecutive parts."""
        if self.table is None:
            return self._of_numbers(*_merged(parts))
        counts: Any = parts[0]  # added up already, see _join
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
        name = self.encoder.feature.column
        size = np.maximum(np.abs(low), np.abs(high))
        varies = high > low
        if (varies & (size < SMALLEST)).any():
            raise InputError(
                f"column '{name}' has no value above {size.max():.3g}, which is too small to "
                "compute with; use other units",
                column=name,
            )
        rounding = varies & (scale <= ROUNDING * size)
        if rounding.any():
            warnings.warn(
                f"column '{name}' varies by less than {ROUNDING:g} of its size, as rounding errors "
                "do, and is not scaled; subtract its mean, or leave it out",
                DataWarning,
                stacklevel=2,
            )
        return mean, np.where(varies & ~rounding, scale, 1.0)

    def _places(self, column: Column, fold: Int[np.ndarray, " n"] | None) -> Int[np.ndarray, " n"]:
        """The row of the table for each code: the last for missing ones, with a table a fold."""
        codes = len(column.levels or ()) + 1
        assert self.table is not None
        if len(self.table) == codes:
            return column.values % codes
        assert fold is not None
        return fold * np.int64(codes) + column.values % codes


@dataclass(frozen=True, eq=False)
class Encoding:
    """Choices seen through a schema: any part of them becomes numbers when it is asked for."""

    choices: Choices
    items: tuple[Standardised, ...]
    context: tuple[Standardised, ...]
    outside: bool

    @classmethod
    def of(
        cls,
        choices: Choices,
        items: Sequence[Standardised],
        context: Sequence[Standardised],
        outside: bool,
        tables: Mapping[str, Float64[np.ndarray, "codes m"]] | None = None,
    ) -> "Encoding":
        """Look every level up once, so that parts are cheap; ``tables`` are those known already."""
        known = tables or {}

        def bind(one: Standardised, where: Mapping[str, Column]) -> Standardised:
            name = one.encoder.feature.column
            if name not in where:
                raise InputError(
                    f"feature column '{name}' is missing; the model was trained with it "
                    f"(columns here: {', '.join(where)})",
                    column=name,
                )
            if not one.encoder.looked_up:
                return one
            table = known.get(name)
            return one.bound(one.encoder.table(choices.levels(name)) if table is None else table)

        return cls(
            choices,
            tuple(bind(one, choices.columns) for one in items),
            tuple(bind(one, choices.context) for one in context),
            outside,
        )

    def __len__(self) -> int:
        return len(self.choices)

    @property
    def sizes(self) -> Int[np.ndarray, " sets"]:
        """The number of items of each set, the outside option included."""
        return self.choices.sizes + int(self.outside)

    @property
    def rows(self) -> int:
        """The number of rows, outside options included."""
        return int(self.choices.offsets[-1]) + (len(self) if self.outside else 0)

    def take(self, sets: Int[np.ndarray, " m"]) -> "Encoding":
        """These sets, in this order."""
        return replace(self, choices=self.choices.take(sets))

    def sample(self, sets: int, seed: int) -> "Encoding":
        """A random sample of this many sets, in their order; all of them if there are fewer."""
        return replace(self, choices=self.choices.sample(sets, seed))

    def blocks(self) -> Iterator["Encoding"]:
        """Consecutive parts that fit in memory."""
        return (replace(self, choices=block) for block in self.choices.blocks())

    def moments(self, counts: Mapping[str, Part]) -> tuple[Vector, Vector]:
        """Mean and scale of every column, items' first; of some, the codes are counted already."""
        parts = [list(_known(counts, one)) for one in self.items]
        for block in self.blocks():
            fold = block._row_folds()
            for one, summed in zip(self.items, parts, strict=True):
                if one.encoder.feature.column not in counts:
                    _join(summed, block._summed(one, block.choices.columns, fold))
        each = [one.moments(summed) for one, summed in zip(self.items, parts, strict=True)]
        for one in self.context:
            each.append(one.moments([self._summed(one, self.choices.context, None)]))
        means, scales = zip(*each, strict=True)
        return np.concatenate(means), np.concatenate(scales)

    def _summed(
        self, one: Standardised, columns: Mapping[str, Column], fold: Int[np.ndarray, " n"] | None
    ) -> Part:
        """What the moments of a training column need, if its values are not too large."""
        column = one.column(columns)
        part = one.summed(column, fold)
        if isinstance(part, tuple) and max(-part[3].min(), part[4].max()) > LARGEST:
            at = int(np.argmax(np.abs(one.encoder.numbers(column)[:, 0])))
            raise self._bad_value(
                one, column, at, columns,
                f"which is too large to compute with; correct it, or use other units"
                f"{_or_log(one, column)}",
            )  # fmt: skip
        return part

    def refuse_collapsed(self) -> None:
        """Refuse training columns in which one value is so far out that the others become equal.

        Models compute in single precision, which has seven digits.
        """
        block = next(self.blocks())
        choices = block.choices
        rooms = ((self.items, choices.columns), (self.context, choices.context))
        for one, columns in [(one, where) for features, where in rooms for one in features]:
            if one.table is not None or one.encoder.kind != "number":
                continue
            column = one.column(columns)
            places = np.arange(0, len(column.values), max(1, len(column.values) // LOOKED_AT))
            looked_at = column.take(places)
            values = one.encoder.numbers(looked_at)[:, 0]
            if _collapse(values, one.columns(looked_at, None)[:, 0]):
                at = int(np.argmax(np.abs(one.columns(column, None)[:, 0])))
                raise block._bad_value(
                    one, column, at, columns,
                    f"so far from the rest that other values become equal; correct it, or leave "
                    f"its set out{_or_log(one, column)}",
                )  # fmt: skip

    def encoded(self, dtype: type = np.float32) -> Encoded:
        """The numbers of all sets."""
        choices = self.choices
        rows, sets = int(choices.offsets[-1]), len(choices)
        self._check_memory(np.dtype(dtype).itemsize)
        items: np.ndarray = np.empty((rows, sum(one.width for one in self.items)), dtype)
        context: np.ndarray = np.empty((sets, sum(one.width for one in self.context)), dtype)
        self._fill(items, self.items, choices.columns, self._row_folds())
        self._fill(context, self.context, choices.context, None)
        encoded = Encoded(items, context, choices.offsets, choices.chosen, choices.weight)
        return with_outside(encoded) if self.outside else encoded

    def _check_memory(self, itemsize: int) -> None:
        """Say that data on disk are too large for memory before the system kills the process."""
        if not self.choices.on_disk:
            return
        columns = sum(one.width for one in self.items) + int(self.outside)
        needed, available = COPIES * self.rows * columns * itemsize, available_bytes()
        if available is not None and needed > available:
            raise InputError(
                f"{self.rows:,} rows of {columns} columns need about {needed / 1e9:.1f} GB in "
                f"memory, and {available / 1e9:.1f} GB are available; take a sample of the sets "
                "(choices.sample(100_000), on the command line --max-sets), or a model that "
                "trains by gradients, as sda, without tuning: it reads the file as it trains"
            )

    def _row_folds(self) -> Int[np.ndarray, " rows"] | None:
        choices = self.choices
        return None if choices.fold is None else np.repeat(choices.fold, choices.sizes)

    def _fill(
        self,
        block: Float[np.ndarray, "n m"],
        features: tuple[Standardised, ...],
        columns: Mapping[str, Column],
        fold: Int[np.ndarray, " n"] | None,
    ) -> None:
        end = 0
        for one in features:
            begin, end = end, end + one.width
            column = one.column(columns)
            values = one.columns(column, fold)
            if one.table is None and len(values):
                self._refuse_far(one, column, values, columns)
            block[:, begin:end] = values
            if one.table is not None and one.width:
                unknown = np.isnan(block[:, begin])
                if unknown.any():
                    at = int(np.argmax(unknown))
                    one.encoder.refuse_unknown(column, at, self._table_row(at, columns))

    def _refuse_far(
        self,
        one: Standardised,
        column: Column,
        values: Float[np.ndarray, "n m"],
        columns: Mapping[str, Column],
    ) -> None:
        """Refuse values so far from the training data that a model's products would overflow."""
        if max(-values.min(), values.max()) <= FARTHEST:
            return
        at = int(np.argmax(np.abs(values).max(1)))
        raise self._bad_value(
            one, column, at, columns,
            f"more than {FARTHEST:g} standard deviations from the training mean of "
            f"{one.mean[0]:g}; correct it",
        )  # fmt: skip

    def _bad_value(
        self, one: Standardised, column: Column, at: int, columns: Mapping[str, Column], why: str
    ) -> InputError:
        """The error for a number that cannot be taken: its column, its row, why and the remedy."""
        name, row = one.encoder.feature.column, self._table_row(at, columns)
        value = column.values[at]
        return InputError(f"column '{name}' is {value:g} at row {row}, {why}", row=row, column=name)

    def _table_row(self, at: int, columns: Mapping[str, Column]) -> int:
        """The row in the table of the item (or, of context, the set's first item) at this place."""
        choices = self.choices
        return int(choices.rows[at if columns is choices.columns else choices.offsets[at]])


def _collapse(values: Float[np.ndarray, " n"], scaled: Float[np.ndarray, " n"]) -> bool:
    """Whether most values differ, but no longer do in single precision once they are scaled.

    Differences that are rounding errors of the values themselves do not count.

    >>> cost = np.array([10.0, 12, 14, 11, 13, 15, 1e12])
    >>> _collapse(cost, (cost - cost.mean()) / cost.std())
    True
    >>> noisy = np.array([1.0, 2, 1 + 1e-15, 2 - 1e-15, 1, 2, 1])
    >>> _collapse(noisy, (noisy - noisy.mean()) / noisy.std())
    False
    """
    order = np.argsort(values)
    few = -(-len(values) // 20)
    most = order[few:-few]
    if len(most) < 2:
        return False
    low, high = values[most[0]], values[most[-1]]
    genuine = high - low > 1e-9 * max(abs(low), abs(high))
    return bool(genuine and abs(scaled[most[-1]] - scaled[most[0]]) < SINGLE)


def _or_log(one: Standardised, column: Column) -> str:
    feature = one.encoder.feature
    helps = feature.transform == "none" and bool((column.values > 0).all())
    return f", or use log({feature.column})" if helps else ""


def _known(counts: Mapping[str, Part], one: Standardised) -> Iterator[Part]:
    if one.encoder.feature.column in counts:
        yield counts[one.encoder.feature.column]


def _join(parts: list[Part], part: Part) -> None:
    """One more part; counts are added up at once, since they may be long."""
    if parts and isinstance(part, np.ndarray):
        parts[0] += part
    else:
        parts.append(part)


def _merged(parts: Sequence[Any]) -> tuple[Vector, Vector, Vector, Vector]:
    """Mean, standard deviation, least and largest values of all parts, from those of each."""
    if len(parts) == 1:
        _, mean, variance, low, high = parts[0]
        return mean, np.sqrt(variance), low, high
    counts, means, variances, lows, highs = (np.array(one) for one in zip(*parts, strict=True))
    share = counts / counts.sum()
    mean = share @ means
    scale = np.sqrt(share @ (variances + (means - mean) ** 2))
    return mean, scale, lows.min(0), highs.max(0)


def with_outside(encoded: Encoded) -> Encoded:
    """Add the outside option as the last row of every set, and its indicator column."""
    rows, features = encoded.items.shape
    offsets = encoded.offsets + np.arange(len(encoded.offsets))
    items = np.zeros((rows + len(encoded), features + 1), encoded.items.dtype)
    real = np.ones(len(items), bool)
    real[offsets[1:] - 1] = False
    items[real, :features] = encoded.items
    items[~real, features] = 1
    return Encoded(items, encoded.context, offsets, encoded.chosen, encoded.weight)
