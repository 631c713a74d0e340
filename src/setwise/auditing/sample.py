"""The sets that an audit looks at, and what its checks share."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from setwise import _segments
from setwise.auditing.findings import AuditExample, AuditLimits
from setwise.choices import Choices, Encoded
from setwise.estimators import Estimator

EXAMPLES = 3
LEVELS = 12
"""A column with at most so many different values has levels: a step leads to the next one."""
MIDDLE = (0.05, 0.95)
"""Quantiles between which most of a column lies: the distance between them is its spread."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A fitted model and some choices, in memory."""

    estimator: Estimator
    choices: Choices
    limits: AuditLimits
    seed: int

    @cached_property
    def encoded(self) -> Encoded:
        """The sets as the model sees them."""
        return self.estimator.schema_.encode(self.choices)

    @cached_property
    def real(self) -> Int[np.ndarray, " rows"]:
        """Of each row of the choices, its row among the encoded ones."""
        return np.flatnonzero(self.estimator.schema_.real_rows(self.encoded))

    @cached_property
    def log_p(self) -> Float[np.ndarray, " rows"]:
        """log P of every item, without outside options."""
        logs = self.estimator.row_log_probabilities(self.encoded)
        return logs[self.real].astype(np.float64)

    @cached_property
    def owners(self) -> Int[np.ndarray, " rows"]:
        """The number of each row's set."""
        return _segments.owners(self.choices.offsets)

    def values(self, column: str) -> Float[np.ndarray, " rows"]:
        """A number column of the items; NaN where it is missing."""
        return self.choices.columns[column].values.astype(np.float64)

    def share_of_sets(
        self, found: Bool[np.ndarray, " rows"], of: Bool[np.ndarray, " rows"]
    ) -> float:
        """The share of sets with such a row, by their weights, of those that have rows in ``of``.

        NaN if no set has.
        """
        count = len(self.choices)
        asked = np.bincount(self.owners[of], minlength=count) > 0
        hit = np.bincount(self.owners[of & found], minlength=count) > 0
        weight = self.choices.weight
        weight = np.ones(count) if weight is None else weight
        total = weight[asked].sum()
        return float(weight[hit].sum() / total) if total > 0 else float("nan")

    def example(self, row: int, what: str, before: Any, after: Any) -> AuditExample:
        """An item as an example."""
        which = self.choices.set_ids[self.owners[row]]
        place = int(self.choices.rows[row])
        return AuditExample(str(which), place, what, float(before), float(after))

    def one_per_set(self) -> Int[np.ndarray, " sets"]:
        """One item of each set, drawn at random: its row."""
        drawn = np.random.default_rng(self.seed).random(len(self.choices))
        return self.choices.offsets[:-1] + (drawn * self.choices.sizes).astype(np.int64)


def spread_of(x: Float[np.ndarray, " rows"]) -> float:
    """The distance between the quantiles of :data:`MIDDLE`; the range, if that is 0."""
    known = x[np.isfinite(x)]
    if not len(known):
        return 0.0
    low, high = np.quantile(known, MIDDLE)
    return float(high - low) or float(known.max() - known.min())


def levels_of(x: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " levels"] | None:
    """The different values of a column with few of them; None for other columns."""
    known = np.unique(x[np.isfinite(x)])
    return known if len(known) <= LEVELS else None


def raised(x: Float[np.ndarray, " rows"]) -> dict[str, Float[np.ndarray, " rows"]]:
    """Each value one step up, by the name of the step; NaN where that leaves the observed range.

    Columns with few values have one step, to the next level. Others have two, of 1 % and of 10 %
    of their spread.

    >>> {name: one.tolist() for name, one in raised(np.array([3.0, 5.0, 3.0])).items()}
    {'one level': [5.0, nan, 5.0]}
    """
    levels = levels_of(x)
    if levels is not None:
        known = np.isfinite(x)
        place = np.searchsorted(levels, np.where(known, x, levels[0] if len(levels) else 0.0)) + 1
        above = np.append(levels, np.nan)[np.minimum(place, len(levels))]
        return {"one level": np.where(known, above, np.nan)}
    spread, top = spread_of(x), np.nanmax(x)
    found = {}
    for name, share in (("1 % of the spread", 0.01), ("10 % of the spread", 0.1)):
        with np.errstate(invalid="ignore"):
            up = x + share * spread
            found[name] = np.where(up <= top, up, np.nan)
    return found
