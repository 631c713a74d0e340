"""The way from a table's values to the numbers that a model sees, as operations of a graph.

A number stands for itself, a category for the place of its level among those of the metadata, a
date for the days since 1 January 1970. What follows (logarithms, medians for what is missing, one
column per level, weeks and months, standardisation) is in the graph. Values come in double
precision and stay in it until they are standardised, as in :mod:`setwise.choices.encoding`: times
and large amounts differ in digits that single precision does not have.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from setwise.choices import Schema
from setwise.choices.encoders import MISSING, OTHER, Encoder
from setwise.graph import Builder, Spec
from setwise.graph.folding import Folded
from setwise.graph.specs import Shape

DOUBLE = "float64"


def preprocessing(schema: Schema, which: str) -> Folded:
    """From ``items`` (sets x items x features) or ``context`` (sets x features) to numbers.

    >>> import setwise as sw
    >>> schema = sw.Schema.fit(sw.datasets.load("modecanada"))
    >>> preprocessing(schema, "items").graph.specs[-1].shape
    ('sets', 'items', 8)
    """
    encoders = schema.items if which == "items" else schema.context
    shape: Shape = ("sets", "items") if which == "items" else ("sets",)
    count = sum(len(encoder.names) for encoder in schema.items)
    place = slice(0, count) if which == "items" else slice(count, None)
    encoding = _Encoding(shape)
    raw = encoding.given("input", which, Spec((*shape, len(encoders)), DOUBLE))
    columns = [
        column
        for number, encoder in enumerate(encoders)
        for column in encoding.columns(encoder, encoding.part(raw, number))
    ]
    numbers = encoding.add("concatenate", *columns, settings=(len(shape),))
    mean = encoding.constant("mean", np.array(schema.mean[place], DOUBLE))
    scale = encoding.constant("scale", np.array(schema.scale[place], DOUBLE))
    standard = encoding.add("div", encoding.add("sub", numbers, mean), scale)
    graph = encoding.graph(encoding.add("cast", standard, settings=("float32",)))
    return Folded(graph, {name: encoding.arrays[name] for name in graph.weights})


class _Encoding(Builder):
    """Columns of a table as numeric columns, each with a last axis of its own."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.arrays: dict[str, np.ndarray] = {}

    def constant(self, name: str, array: np.ndarray) -> int:
        """An array of the schema."""
        self.arrays[name] = array
        return self.given("weight", name, Spec(array.shape, array.dtype.name))

    def part(self, x: int, number: int) -> int:
        """One column, its last axis kept."""
        return self.add("slice", x, settings=(len(self.shape), number, number + 1, 1))

    def columns(self, encoder: Encoder, x: int) -> list[int]:
        """The numeric columns of a feature."""
        if encoder.kind == "category":
            return [self._levels(encoder, x)]
        if encoder.kind == "popularity":
            return [self._looked_up(encoder, x)]
        if encoder.kind == "date":
            return [self._week(x), self._month(x)]
        return self._number(encoder, x)

    def _number(self, encoder: Encoder, x: int) -> list[int]:
        transform = encoder.feature.transform
        if transform != "none":
            x = self.add(transform, x)
        if encoder.median is None:
            return [x]
        gone = self.add("ne", x, x)
        known = self.add("where", gone, self._of(encoder.median), x)
        return [known, self.add("cast", gone, settings=(DOUBLE,))]

    def _levels(self, encoder: Encoder, x: int) -> int:
        """One where the level is; what is no place of a level is "missing" or "other".

        Where there is none of these it is not a number, and no probability comes of it.
        """
        levels, unknown = encoder.levels, self._of(float("nan"))
        if OTHER in levels:
            unknown = self._of(levels.index(OTHER))
        if MISSING in levels:
            gone = self.add("ne", x, x)
            x = self.add("where", gone, self._of(levels.index(MISSING)), x)
        x = self.add("where", self._among(x, len(levels)), x, unknown)
        name = f"{encoder.feature.column}/places"
        places = self.constant(name, np.arange(len(levels), dtype=DOUBLE))
        one_hot = self.add("cast", self.add("eq", x, places), settings=(DOUBLE,))
        return self.add("add", one_hot, self._times(x, 0.0))

    def _among(self, x: int, count: int) -> int:
        return self.add("and", self.add("ge", x, self._of(0)), self.add("lt", x, self._of(count)))

    def _looked_up(self, encoder: Encoder, x: int) -> int:
        """The value of the level; zero for what is no place of a level."""
        name = f"{encoder.feature.column}/values"
        values = self.constant(name, np.array([*encoder.values, 0.0], DOUBLE))
        known, none = self._among(x, len(encoder.values)), self._of(len(encoder.values))
        place = self.add("cast", self.add("where", known, x, none), settings=("int64",))
        return self.add("take", values, place)

    def _month(self, days: int) -> int:
        """Of the Gregorian calendar, counted in years that begin in March."""
        _, of_march = self._year_and_month(days)
        early = self.add("lt", of_march, self._of(10))
        return self.add("where", early, self._plus(of_march, 3), self._plus(of_march, -9))

    def _week(self, days: int) -> int:
        """ISO week: the week of the year in which this week's Thursday falls."""
        days = self.add("floor", days)
        weekday = self._modulo(self._plus(days, 3), 7)  # 1970-01-01 was a Thursday
        thursday = self._plus(self.add("sub", days, weekday), 3)
        in_week = self.add("sub", thursday, self._new_year(thursday))
        return self._plus(self._whole(in_week, 7), 1)

    def _new_year(self, days: int) -> int:
        """The days before 1 January of the year of this day."""
        year, of_march = self._year_and_month(days)
        late = self.add("ge", of_march, self._of(10))  # January and February
        before = self.add("where", late, year, self._plus(year, -1))  # its March, then 306 days
        leaps = self._sum(self._whole(before, 4), self._times(self._whole(before, 100), -1),
                          self._whole(before, 400))  # fmt: skip
        return self._plus(self._sum(self._times(before, 365), leaps), 306 - 719468)

    def _year_and_month(self, days: int) -> tuple[int, int]:
        """The year that begins in March, and the month in it from 0; of days since 1970."""
        z = self._plus(self.add("floor", days), 719468)  # days since 1 March of the year 0
        era = self._whole(z, 146097)  # 400 years
        day = self._modulo(z, 146097)
        leaps = self._sum(self._times(self._whole(day, 1460), -1), self._whole(day, 36524),
                          self._times(self._whole(day, 146096), -1))  # fmt: skip
        year = self._whole(self._sum(day, leaps), 365)
        before = self._sum(self._times(year, 365), self._whole(year, 4),
                           self._times(self._whole(year, 100), -1))  # fmt: skip
        of_year = self.add("sub", day, before)
        month = self._whole(self._plus(self._times(of_year, 5), 2), 153)
        return self._sum(year, self._times(era, 400)), month

    def _of(self, value: int | float) -> int:
        return self.literal(value, DOUBLE)

    def _plus(self, x: int, value: int | float) -> int:
        return self.add("add", x, self._of(value))

    def _times(self, x: int, value: int | float) -> int:
        return self.add("mul", x, self._of(value))

    def _sum(self, *terms: int) -> int:
        total = terms[0]
        for one in terms[1:]:
            total = self.add("add", total, one)
        return total

    def _whole(self, x: int, by: int | float) -> int:
        return self.add("floor", self.add("div", x, self._of(by)))

    def _modulo(self, x: int, by: int | float) -> int:
        return self.add("sub", x, self._times(self._whole(x, by), by))


def described(encoders: Sequence[Encoder]) -> list[dict[str, Any]]:
    """What each column of an input is, for the metadata."""
    return [_described(encoder) for encoder in encoders]


def _described(encoder: Encoder) -> dict[str, Any]:
    column: dict[str, Any] = {"column": encoder.feature.column}
    if encoder.looked_up:
        return column | {"give": "the place of the value in levels, from 0; NaN if it is missing",
                         "levels": list(encoder.levels)}  # fmt: skip
    if encoder.kind == "date":
        return column | {"give": "days since 1970-01-01"}
    missing = "" if encoder.median is None else "; NaN if it is missing"
    return column | {"give": f"the number, as in the table{missing}"}
