"""Choices as the numbers that models see: standardised columns, of all sets or of some."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from setwise._errors import InputError
from setwise._segments import offsets_of, spread
from setwise._shapes import Bool, Float, Float64, Int
from setwise.choices.choices import Choices, Column, rows_of
from setwise.choices.encoders import (
    LARGEST,
    BadValue,
    FeatureEncoder,
    Part,
    Vector,
    merged_moments,
)
from setwise.choices.terms import TermEncoder, row_columns


def available_bytes() -> int | None:
    """Memory that can be used, in bytes; None where the system does not say (not on Linux)."""
    told = Path("/proc/meminfo")
    if not told.exists():
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", told.read_text(), re.MULTILINE)
    return None if found is None else 1024 * int(found[1])


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
    offset: Float[np.ndarray, " rows"] | None = None
    """What is added to the utility of each row: terms whose coefficients are given."""
    worst: Bool[np.ndarray, " sets"] | None = None
    """Which sets chose the worst item; None: each chose the best."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Int[np.ndarray, " sets"]:
        """The number of items of each set, the outside option included."""
        return np.diff(self.offsets)

    def take(self, sets: Int[np.ndarray, " some"]) -> "Encoded":
        """These sets alone, in this order."""
        sizes = self.sizes[sets]
        rows = rows_of(self.offsets[sets], sizes)
        return Encoded(
            self.items[rows], self.context[sets], offsets_of(sizes),
            None if self.chosen is None else self.chosen[sets],
            None if self.weight is None else self.weight[sets],
            None if self.offset is None else self.offset[rows],
            None if self.worst is None else self.worst[sets],
        )  # fmt: skip

    def mirrored(self) -> "Encoded":
        """The same for logits that are linear in the items, with no set that chose the worst.

        Who chooses the worst item has the utility -V, which is V of the mirrored items: each is
        reflected at the mean of all such rows, so that columns keep their mean and variance.

        >>> data = Encoded(np.array([[1.0], [2.0], [4.0]]), np.empty((1, 0)), np.array([0, 3]),
        ...                np.array([2]), None, worst=np.array([True]))
        >>> data.mirrored().items[:, 0].round(3).tolist()
        [3.667, 2.667, 0.667]
        """
        if self.worst is None:
            return self
        rows = spread(self.worst, self.offsets)
        items = self.items.copy()
        if rows.any():
            items[rows] = 2 * items[rows].mean(0) - items[rows]
        offset = None if self.offset is None else np.where(rows, -self.offset, self.offset)
        return replace(self, items=items, offset=offset, worst=None)

    def without_each(self, rows: Int[np.ndarray, " copies"]) -> "Encoded":
        """For each of these rows, a copy of its set without it; choices and weights are left out.

        Each of the sets must have another row.

        >>> items = np.array([[1.0], [2.0], [3.0], [8.0], [9.0]])
        >>> two = Encoded(items, np.empty((2, 0)), np.array([0, 3, 5]), None, None)
        >>> left = two.without_each(np.array([1, 3]))
        >>> left.items[:, 0].tolist(), left.offsets.tolist()
        ([1.0, 3.0, 9.0], [0, 2, 3])
        """
        sets = np.searchsorted(self.offsets, rows, "right") - 1
        sizes = self.sizes[sets] - 1
        left = rows_of(self.offsets[sets], sizes)
        left += left >= np.repeat(rows, sizes)
        return Encoded(self.items[left], self.context[sets], offsets_of(sizes), None, None)


@dataclass(frozen=True, eq=False)
class Encoding:
    """Choices seen through a schema: any part of them becomes numbers when it is asked for."""

    choices: Choices
    items: tuple[FeatureEncoder, ...]
    context: tuple[FeatureEncoder, ...]
    outside: bool
    terms: TermEncoder | None = None
    """What makes numbers of the columns, where the features are the terms of a utility."""

    @classmethod
    def of(
        cls,
        choices: Choices,
        items: Sequence[FeatureEncoder],
        context: Sequence[FeatureEncoder],
        outside: bool,
        tables: Mapping[str, Float64[np.ndarray, "codes m"]] | None = None,
        terms: TermEncoder | None = None,
    ) -> "Encoding":
        """Look up every level once, so that parts are cheap; ``tables`` are known already."""
        if terms is not None:
            return cls(choices, tuple(items), tuple(context), outside, terms)
        known = tables or {}

        def bind(one: FeatureEncoder, where: Mapping[str, Column]) -> FeatureEncoder:
            name = one.name
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
    def weight(self) -> Float[np.ndarray, " sets"] | None:
        """The weight of each set."""
        return self.choices.weight

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
        if self.terms is not None:
            return self._term_moments(self.terms)
        parts = [[counts[one.name]] if one.name in counts else [] for one in self.items]
        for block in self.blocks():
            fold = block._row_folds()
            for one, summed in zip(self.items, parts, strict=True):
                if one.name not in counts:
                    _join(summed, block._summed(one, block.choices.columns, fold))
        each = [one.moments(summed) for one, summed in zip(self.items, parts, strict=True)]
        for one in self.context:
            each.append(one.moments([self._summed(one, self.choices.context, None)]))
        means, scales = zip(*each, strict=True)
        return np.concatenate(means), np.concatenate(scales)

    def _term_moments(self, terms: TermEncoder) -> tuple[Vector, Vector]:
        """Mean and scale of the terms of a utility; a constant term keeps its unit."""
        parts = []
        for block in self.blocks():
            try:
                values = terms.training_values(block._row_columns())
            except BadValue as bad:
                raise block._in_table(bad, block.choices.columns) from None
            parts.append((len(values), values.mean(0), values.var(0), values.min(0), values.max(0)))
        mean, scale, low, high = merged_moments(parts)
        rounding = 1e-12 * np.maximum(np.abs(low), np.abs(high))
        return mean, np.where(scale > rounding, scale, 1.0)

    def _row_columns(self) -> dict[str, Column]:
        """The columns that terms are computed from, each with one value per row."""
        features = [one.encoder.feature for one in (*self.items, *self.context)]
        return row_columns(features, self.choices)

    def _summed(
        self, one: FeatureEncoder, columns: Mapping[str, Column], fold: Int[np.ndarray, " n"] | None
    ) -> Part:
        """What the moments of a training column need, if its values are not too large."""
        column = one.encoder.column(columns)
        part = one.summed(column, fold)
        if isinstance(part, tuple) and max(-part[3].min(), part[4].max()) > LARGEST:
            at = int(np.argmax(np.abs(one.encoder.numbers(column)[:, 0])))
            why = "which is too large to compute with"
            bad = one.bad_value(
                column, at, why, f"correct it, or use other units{_or_log(one, column)}"
            )
            raise self._in_table(bad, columns)
        return part

    def refuse_collapsed(self) -> None:
        """Refuse training columns in which one value is so far out that the others become equal.

        Models compute in single precision, which has seven digits.
        """
        if self.terms is not None:
            return  # terms are computed and checked in double precision
        block = next(self.blocks())
        choices = block.choices
        rooms = ((self.items, choices.columns), (self.context, choices.context))
        for one, columns in [(one, where) for features, where in rooms for one in features]:
            if one.table is not None or one.encoder.kind != "number":
                continue
            column = one.encoder.column(columns)
            places = np.arange(0, len(column.values), max(1, len(column.values) // LOOKED_AT))
            looked_at = column.take(places)
            values = one.encoder.numbers(looked_at)[:, 0]
            if _collapse(values, one.columns(looked_at, None)[:, 0]):
                at = int(np.argmax(np.abs(one.columns(column, None)[:, 0])))
                why = "so far from the rest that other values become equal"
                remedy = f"correct it, or leave its set out{_or_log(one, column)}"
                raise block._in_table(one.bad_value(column, at, why, remedy), columns)

    def encoded(self, dtype: type = np.float32) -> Encoded:
        """The numbers of all sets."""
        choices = self.choices
        rows, sets = int(choices.offsets[-1]), len(choices)
        if choices.on_disk:
            self._check_memory(np.dtype(dtype).itemsize)
        items: np.ndarray = np.empty((rows, self._width), dtype)
        context: np.ndarray = np.empty((sets, 0), dtype)
        if self.terms is not None:
            try:
                items[:] = self.terms.encoded(self._row_columns())
            except BadValue as bad:
                raise self._in_table(bad, choices.columns) from None
        else:
            context = np.empty((sets, sum(one.width for one in self.context)), dtype)
            self._fill(items, self.items, choices.columns, self._row_folds())
            self._fill(context, self.context, choices.context, None)
        encoded = Encoded(
            items, context, choices.offsets, choices.chosen, choices.weight, worst=choices.worst
        )
        return with_outside(encoded) if self.outside else encoded

    def _check_memory(self, itemsize: int) -> None:
        """Say that data on disk are too large for memory before the system kills the process."""
        columns = self._width + int(self.outside)
        needed, available = COPIES * self.rows * columns * itemsize, available_bytes()
        if available is not None and needed > available:
            raise InputError(
                f"{self.rows:,} rows of {columns} columns need about {needed / 1e9:.1f} GB in "
                f"memory, and {available / 1e9:.1f} GB are available; take a sample of the sets "
                "(choices.sample(100_000), on the command line --max-sets), or a model that "
                "trains by gradients, as sda, without tuning: it reads the file as it trains"
            )

    @property
    def _width(self) -> int:
        """How many numeric columns an item has, the outside option's not counted."""
        if self.terms is not None:
            return len(self.terms.mean)
        return sum(one.width for one in self.items)

    def _row_folds(self) -> Int[np.ndarray, " rows"] | None:
        choices = self.choices
        return None if choices.fold is None else np.repeat(choices.fold, choices.sizes)

    def _fill(
        self,
        block: Float[np.ndarray, "n m"],
        features: tuple[FeatureEncoder, ...],
        columns: Mapping[str, Column],
        fold: Int[np.ndarray, " n"] | None,
    ) -> None:
        end = 0
        for one in features:
            begin, end = end, end + one.width
            try:
                block[:, begin:end] = one.encoded(one.encoder.column(columns), fold)
            except BadValue as bad:
                raise self._in_table(bad, columns) from None

    def _in_table(self, bad: BadValue, columns: Mapping[str, Column]) -> InputError:
        """The error with the row of the table: of the item, or of the first item of the set."""
        choices, at = self.choices, bad.row
        place = at if columns is choices.columns else choices.offsets[at]
        error = bad.in_table(int(choices.rows[place]))
        wide = choices.roles.wide
        return error if wide is None else wide.about(error, int(choices.cells[place]))


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


def _or_log(one: FeatureEncoder, column: Column) -> str:
    feature = one.encoder.feature
    helps = feature.transform == "none" and bool((column.values > 0).all())
    return f", or use log({feature.column})" if helps else ""


def _join(parts: list[Part], part: Part) -> None:
    """One more part; counts are added up at once, since they may be long."""
    if parts and isinstance(part, np.ndarray):
        parts[0] += part
    else:
        parts.append(part)


def with_outside(encoded: Encoded) -> Encoded:
    """Add the outside option as the last row of every set, and its indicator column."""
    rows, features = encoded.items.shape
    offsets = encoded.offsets + np.arange(len(encoded.offsets))
    items = np.zeros((rows + len(encoded), features + 1), encoded.items.dtype)
    real = np.ones(len(items), bool)
    real[offsets[1:] - 1] = False
    items[real, :features] = encoded.items
    items[~real, features] = 1
    return replace(encoded, items=items, offsets=offsets)
