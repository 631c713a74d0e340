"""The candidate items of each context, as a model sees them, and what each is worth."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from setwise import _segments
from setwise._arguments import shown
from setwise._errors import InputError
from setwise._shapes import Bool, Float, Int
from setwise.choices import Choices, Encoded, Schema, read_like
from setwise.choices.alternatives import column_of
from setwise.scoring.scorer import RowModel

Value = Any
"""A column's name, one number per row of the table, or columns with the values of a group."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Items that may be shown, context after context: encoded once, shown in many sets."""

    data: Any
    """The table, which may have more columns than the model reads."""
    choices: Choices
    encoded: Encoded
    """The candidates alone, without the outside option."""
    outside: Float[np.ndarray, " d"] | None
    """The outside option as the model sees it; None where the model has none."""
    values: Float[np.ndarray, " rows"]

    @classmethod
    def read(cls, model: RowModel, items: Any, value: Value = 1.0) -> "Candidates":
        """The candidates of a table, read as the model's training table was."""
        choices = choices_of(model.schema, items)
        encoded, outside = without_outside(model.schema, choices)
        return cls(items, choices, encoded, outside, values_of(items, choices, value))

    def __len__(self) -> int:
        return len(self.choices)

    @property
    def sizes(self) -> Int[np.ndarray, " contexts"]:
        """How many candidates each context has."""
        return self.choices.sizes

    @cached_property
    def present(self) -> Bool[np.ndarray, "contexts n"]:
        """Contexts padded to a common number of places: which places hold a candidate."""
        return np.arange(int(self.sizes.max())) < self.sizes[:, None]

    @cached_property
    def rows(self) -> Int[np.ndarray, "contexts n"]:
        """The row of each place; 0 where there is no candidate."""
        places = self.choices.offsets[:-1, None] + np.arange(self.present.shape[1])
        return np.where(self.present, places, 0)

    def padded(self, values: Float[np.ndarray, " rows"]) -> Float[np.ndarray, "contexts n"]:
        """One value per candidate, in places; 0 where there is no candidate."""
        return np.where(self.present, values[self.rows], 0.0)

    def flags(self, name: str, given: Any) -> Bool[np.ndarray, " rows"]:
        """Rows that a 0/1 column, a vector of flags or values of columns mark."""
        if isinstance(given, Mapping):
            return rows_where(self.data, self.choices, given)
        numbers = numbers_of(self.data, self.choices, name, given)
        if not np.isin(numbers, (0, 1)).all():
            raise InputError(f"{name}= must hold 0 or 1 in every row; give 1 for the rows it marks")
        return numbers > 0


def choices_of(schema: Schema, items: Any) -> Choices:
    """Choices as they are, in memory; any other table, read as the model's was."""
    choices = items if isinstance(items, Choices) else read_like(schema, items)
    if choices.ranking is not None:
        raise InputError(
            "these choices are the stages of rankings, in which an item is there several times; "
            "give the table that they were read from"
        )
    return choices.in_memory()


def without_outside(
    schema: Schema, choices: Choices
) -> tuple[Encoded, Float[np.ndarray, " d"] | None]:
    """The encoded candidates, and the outside option, which is the same in all sets."""
    encoded = schema.encode(choices)
    if not schema.outside:
        return encoded, None
    real = schema.real_rows(encoded)
    offsets = choices.offsets.astype(np.int64)
    return Encoded(encoded.items[real], encoded.context, offsets, None, None), encoded.items[-1]


def values_of(data: Any, choices: Choices, value: Value) -> Float[np.ndarray, " rows"]:
    """What each row is worth to those who decide, in the order of the choices."""
    if isinstance(value, Mapping):
        return rows_where(data, choices, value).astype(np.float64)
    return numbers_of(data, choices, "value", value)


def numbers_of(data: Any, choices: Choices, name: str, given: Any) -> Float[np.ndarray, " rows"]:
    """A number per row, from a column, a vector in the table's order, or one number for all."""
    rows = int(choices.offsets[-1])
    if isinstance(given, str):
        column = column_of(data, choices, given)
        if column.kind != "number":
            raise InputError(
                f"{name}='{given}' is a {column.kind}; name a column of numbers, or give "
                f'{name}={{"{given}": "..."}} to count the items of a group as 1',
                column=given,
            )
        numbers = column.values.astype(np.float64)
    else:
        try:
            numbers = np.asarray(given, np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"{name}={shown(given)} must be a column's name, one number per row, or columns "
                "with the values of a group"
            ) from None
        if numbers.ndim == 0:
            numbers = np.full(rows, float(numbers))
        elif numbers.shape != (rows,):
            raise InputError(
                f"{name}= has shape {numbers.shape}, and the table has {rows:,} rows; give one "
                "number per row, in the table's order"
            )
        else:
            numbers = numbers[np.argsort(np.argsort(choices.cells))]
    if not np.isfinite(numbers).all():
        row = int(choices.rows[np.argmin(np.isfinite(numbers))])
        raise InputError(f"{name}= is missing or infinite at row {row}; fill it in", row=row)
    return numbers


def rows_where(data: Any, choices: Choices, where: Mapping[str, Any]) -> Bool[np.ndarray, " rows"]:
    """The rows that have one of the values wanted in each column; there is at least one."""
    found = np.ones(int(choices.offsets[-1]), bool)
    for name, wanted in where.items():
        several = list(wanted) if isinstance(wanted, (list, tuple, set)) else [wanted]
        column = column_of(data, choices, name)
        if column.kind == "number":
            several = [_as_number(name, one) for one in several]
        found &= np.isin(column.text(), several)
    if not found.any():
        said = " and ".join(f"{name}={value!r}" for name, value in where.items())
        raise InputError(f"no item is one where {said}; look at the values of these columns")
    return found


def _as_number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(
            f"column '{name}' holds numbers, and {value!r} is none; give a number", column=name
        ) from None


def best_possible(
    values: Float[np.ndarray, " rows"], choices: Choices, outside: bool
) -> Float[np.ndarray, " contexts"]:
    """What no set can exceed, whatever the model: the value of the most valuable candidate."""
    best = _segments.maxima(values, choices.offsets)
    return np.maximum(best, 0.0) if outside else best
