"""Values of requests as the numbers that a model sees: many rows at once, without a data frame.

A request seen through a schema: its sets as the encoded rows that a model scores.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from msgspec import UNSET
from msgspec.structs import astuple

from setwise._errors import InputError
from setwise._shapes import Float32, Float64
from setwise.choices import Encoded, Schema
from setwise.choices.columns import Column
from setwise.choices.encoders import Encoder
from setwise.choices.encoding import FARTHEST, with_outside
from setwise.server.forms import Asked, Form, may_be_missing, read_as
from setwise.server.refusals import Refused, shown

_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_DOMAIN = {
    "log": (lambda x: x <= 0, "its logarithm is taken: give a positive number"),
    "log1p": (lambda x: x < 0, "give a number of at least 0"),
    "sqrt": (lambda x: x < 0, "its root is taken: give a number of at least 0"),
}


class BadCell(Exception):
    """A value that the model cannot take: its row, its column, and the end of a sentence on it."""

    def __init__(self, row: int, column: str, why: str):
        super().__init__(f"row {row}, '{column}' {why}")
        self.row, self.column, self.why = row, column, why


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows of values as standardised numbers.

    Plain numbers go through together; every other feature has a way of its own.

    >>> from setwise.choices import Feature
    >>> price, brand = Feature("price"), Feature("brand")
    >>> encoders = [Encoder(price, "number"), Encoder(brand, "category", ("Ibis", "Ritz"))]
    >>> cells = Cells.of(encoders, ["price", "brand"], [50.0, 0.0, 0.0], [25.0, 1.0, 1.0])
    >>> cells.encoded([(100.0, "Ritz"), (25.0, "Ibis")]).tolist()
    [[2.0, 0.0, 1.0], [-1.0, 1.0, 0.0]]
    """

    owners: tuple[str, ...]
    """The column of the table that each number comes from."""
    mean: Float64[np.ndarray, " m"]
    scale: Float64[np.ndarray, " m"]
    plain: tuple[int, ...]
    places: tuple[int, ...]
    """Where the plain ones stand among the numbers."""
    others: tuple[tuple[int, slice, "_Lookup | _Dates | _Numbers"], ...]

    @classmethod
    def of(
        cls,
        encoders: Sequence[Encoder],
        columns: Sequence[str],
        mean: Sequence[float],
        scale: Sequence[float],
    ) -> "Cells":
        """For features with the training mean and scale of their numbers; rows have ``columns``."""
        plain: list[int] = []
        places: list[int] = []
        others: list[tuple[int, slice, _Lookup | _Dates | _Numbers]] = []
        owners: list[str] = []
        for encoder in encoders:
            number, begin = columns.index(encoder.feature.column), len(owners)
            owners += [encoder.feature.column] * len(encoder.names)
            if encoder.looked_up:
                others.append((number, slice(begin, len(owners)), _Lookup.of(encoder)))
            elif encoder.kind == "date":
                others.append((number, slice(begin, len(owners)), _Dates(encoder)))
            elif encoder.feature.transform != "none" or encoder.median is not None:
                others.append((number, slice(begin, len(owners)), _Numbers(encoder)))
            else:
                plain.append(number)
                places.append(begin)
        return cls(
            tuple(owners), np.array(mean, np.float64), np.array(scale, np.float64),
            tuple(plain), tuple(places), tuple(others),
        )  # fmt: skip

    def encoded(self, rows: Sequence[tuple[Any, ...]]) -> Float32[np.ndarray, "n m"]:
        """The numbers of some rows."""
        if not self.owners:
            return np.zeros((len(rows), 0), np.float32)
        with np.errstate(over="ignore"):
            numbers = (self._numbers(rows) - self.mean) / self.scale
        near = np.abs(numbers) <= FARTHEST
        if not near.all():
            row, place = np.argwhere(~near)[0].tolist()
            raise BadCell(row, self.owners[place], "is too far from the training data; correct it")
        return numbers.astype(np.float32)

    def _numbers(self, rows: Sequence[tuple[Any, ...]]) -> Float64[np.ndarray, "n m"]:
        if self.plain == tuple(range(len(rows[0]))):
            return np.array(rows, np.float64)
        columns = list(zip(*rows, strict=True))
        numbers = np.empty((len(rows), len(self.mean)))
        if self.plain:
            numbers[:, self.places] = np.array([columns[one] for one in self.plain], np.float64).T
        for number, place, way in self.others:
            numbers[:, place] = way.numbers(columns[number])
        return numbers


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Numbers that are transformed, or may be missing (None)."""

    encoder: Encoder

    def numbers(self, values: Sequence[Any]) -> Float64[np.ndarray, "n m"]:
        column = np.array(values, np.float64)
        feature = self.encoder.feature
        if feature.transform != "none":
            outside, remedy = _DOMAIN[feature.transform]
            bad = outside(column)
            if bad.any():
                row = int(np.argmax(bad))
                raise BadCell(row, feature.column, f"is {values[row]}, and {remedy}")
        return self.encoder.numbers(Column(column))


@dataclass(frozen=True, eq=False)
class _Dates:
    """Dates as ISO 8601 writes them; of a time only the day counts, on its own calendar."""

    encoder: Encoder

    def numbers(self, values: Sequence[str]) -> Float64[np.ndarray, "n m"]:
        days = np.empty(len(values), "datetime64[s]")
        for row, value in enumerate(values):
            try:
                if _DATE.fullmatch(value) is None:
                    raise ValueError
                days[row] = np.datetime64(value[:10], "D")
            except ValueError:
                why = f"is {shown(value)}; give a date such as 2026-07-31"
                raise BadCell(row, self.encoder.feature.column, why) from None
        return self.encoder.numbers(Column(days))


@dataclass(frozen=True, eq=False)
class _Lookup:
    """Categories and names with a popularity: values to rows of a table.

    A level such as "3" is also found by the number 3, as a table of numbers would have it.
    """

    encoder: Encoder
    code: dict[Any, int]
    table: Float64[np.ndarray, "codes m"]
    """A row for each level, one for any other value and one for none."""

    @classmethod
    def of(cls, encoder: Encoder) -> "_Lookup":
        levels = encoder.levels
        code: dict[Any, int] = {level: place for place, level in enumerate(levels)}
        for place, level in enumerate(levels):
            for value in read_as(encoder, level):
                code.setdefault(value, place)
        code[None] = len(levels) + 1
        return cls(encoder, code, encoder.table([*levels, _UNSEEN]))

    def numbers(self, values: Sequence[Any]) -> Float64[np.ndarray, "n m"]:
        unseen, code = len(self.encoder.levels), self.code
        numbers = self.table[[code.get(value, unseen) for value in values]]
        bad = np.isnan(numbers).any(axis=1)
        if bad.any():
            row = int(np.argmax(bad))
            known = ", ".join(self.encoder.levels[:8])
            more = " and others" if len(self.encoder.levels) > 8 else ""
            why = f"is {shown(values[row])}, which training data did not have; it had: "
            raise BadCell(row, self.encoder.feature.column, why + known + more)
        return numbers


_UNSEEN = "\0"  # stands for every level that training data did not have


@dataclass(frozen=True, eq=False)
class Reading:
    """From a request to numbers, in the encoding of a schema."""

    columns: tuple[str, ...]
    context_columns: tuple[str, ...]
    optional: tuple[bool, ...]
    """Of context columns, whether they may be missing."""
    items: Cells
    context: Cells
    outside: bool

    @classmethod
    def of(cls, schema: Schema, form: Form, own: Schema | None = None) -> "Reading":
        """Read requests of this form; ``own`` is the form's schema, where that is another one."""
        if own is not None:
            _check_same_columns(schema, own)
        count = sum(len(encoder.names) for encoder in schema.items)
        rows = form.columns + form.context
        return cls(
            form.columns, form.context,
            tuple(may_be_missing(one) for one in (own or schema).context),
            Cells.of(schema.items, rows, schema.mean[:count], schema.scale[:count]),
            Cells.of(schema.context, form.context, schema.mean[count:], schema.scale[count:]),
            schema.outside,
        )  # fmt: skip

    def encoded(self, asked: Asked) -> Encoded:
        """The sets as numbers, outside options included."""
        sizes = [len(one.items) for one in asked.sets]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = [astuple(item) for item in chain.from_iterable(one.items for one in asked.sets)]
        try:
            items = self.items.encoded(rows)
        except BadCell as bad:
            number = int(np.searchsorted(offsets, bad.row, "right")) - 1
            place = bad.row - int(offsets[number])
            raise asked.refused(number, place, bad.column, bad.why) from None
        encoded = Encoded(items, self._context(asked, rows, offsets), offsets, None, None)
        return with_outside(encoded) if self.outside else encoded

    def _context(self, asked: Asked, rows: Sequence[Any], offsets: Any) -> Any:
        if not self.context_columns:
            return np.zeros((len(asked.sets), 0), np.float32)
        found = [
            self._context_of_set(asked, number, rows[offsets[number] : offsets[number + 1]])
            for number in range(len(asked.sets))
        ]
        try:
            return self.context.encoded(found)
        except BadCell as bad:
            raise asked.refused(bad.row, None, bad.column, bad.why) from None

    def _context_of_set(self, asked: Asked, number: int, rows: Sequence[Any]) -> tuple[Any, ...]:
        """The values of a set's context: they stand in its context, or in its items, or in both."""
        given = asked.sets[number].context
        values = list(astuple(given)) if given is not UNSET else [UNSET] * len(self.context_columns)
        first = len(self.columns)
        for place, name in enumerate(self.context_columns):
            for item, row in enumerate(rows):
                value = row[first + place]
                if value is UNSET:
                    continue
                if values[place] is UNSET:
                    values[place] = value
                elif values[place] != value:
                    why = "differs within the set; a context column has one value a set"
                    raise asked.refused(number, item, name, why)
            if values[place] is UNSET:
                if not self.optional[place]:
                    raise Refused(
                        422, f"'{name}' of the context of {asked.which(number)} is missing; "
                        "the model needs it", asked.where(number, "context", name),
                    )  # fmt: skip
                values[place] = None
        return tuple(values)


def _check_same_columns(beside: Schema, own: Schema) -> None:
    """Refuse a model beside that cannot read what the model reads."""
    for role in ("items", "context"):
        known: dict[str, Encoder] = {one.feature.column: one for one in getattr(own, role)}
        for one in getattr(beside, role):
            name = one.feature.column
            if name not in known:
                why = f"is not a column of the model's {role}"
            elif (one.kind == "number", one.kind == "date") != (
                known[name].kind == "number", known[name].kind == "date"
            ):  # fmt: skip
                why = f"is a {one.kind} there, and a {known[name].kind} to the model"
            elif may_be_missing(known[name]) and not may_be_missing(one):
                why = "must not be missing there, but may be to the model"
            else:
                continue
            raise InputError(
                f"the model beside cannot be asked the same: its column '{name}' {why}; "
                "fit both on the same columns"
            )
    if beside.outside != own.outside:
        raise InputError(
            "of the model and the model beside only one has an outside option; fit both alike"
        )
