"""One feature under examination: its values in set order, and what several checks ask of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from setwise.choices import Choices, Feature
from setwise.choices.column_types import EXACT
from setwise.choices.columns import Column
from setwise.doctor.sets import Sets
from setwise.doctor.typed import Trouble

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
