"""Pairs of features that are one another's multiples within sets."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int

from setwise.doctor.examination import Finding
from setwise.doctor.examined import Examined
from setwise.doctor.sets import Sets

ROWS = 100_000
SAME = 0.9999
FEWEST_ROWS = 10


@dataclass
class Deviations:
    """Deviations from set means, of all numbers, in sets at even distances (all, if few)."""

    sets: Sets
    names: list[str] = field(default_factory=list)
    columns: list[Float[np.ndarray, " rows"]] = field(default_factory=list)

    def __post_init__(self) -> None:
        step = -(-self.sets.rows // ROWS)
        taken = np.arange(len(self.sets)) % step == 0
        self._rows: Int[np.ndarray, " rows"] = np.flatnonzero(self.sets.spread(taken))
        sizes = self.sets.sizes[taken]
        self._owner = np.repeat(np.arange(len(sizes)), sizes)
        self._number = len(sizes)

    def add(self, one: Examined) -> None:
        """Take a feature in, if its numbers can be compared."""
        if one.role != "item" or one.kind != "number" or one.feature.transform != "none":
            return
        values = one.values[self._rows]
        there = np.isfinite(values)
        if not there.any():
            return
        values = values / (np.abs(values[there]).max() or 1.0)  # large numbers overflow in squares
        filled = np.where(there, values, 0.0)
        present = np.bincount(self._owner, there, self._number)
        means = np.bincount(self._owner, filled, self._number) / np.maximum(present, 1)
        self.names.append(one.name)
        self.columns.append(np.where(there, values - means[self._owner], np.nan))

    def pairs(self) -> Iterator[Finding]:
        """A finding for each feature that an earlier one makes superfluous."""
        if len(self.names) < 2:
            return
        matrix = np.stack(self.columns)
        alike = np.triu(_alike(np.nan_to_num(matrix), ~np.isnan(matrix)), k=1)
        for later in range(1, len(self.names)):
            if alike[:, later].any():
                first, second = self.names[int(np.argmax(alike[:, later]))], self.names[later]
                yield Finding(
                    "warning", "collinear",
                    f"columns '{first}' and '{second}' are the same up to a factor within sets (in "
                    f"{self._number:,} sets compared), so that their coefficients cannot be told "
                    "apart",
                    "leave one of them out", second,
                )  # fmt: skip


def _alike(
    deviations: Float[np.ndarray, "columns rows"], there: Bool[np.ndarray, "columns rows"]
) -> Bool[np.ndarray, "columns columns"]:
    """Whether |correlation| > 0.9999 over the rows in which both have a value."""
    weights = there.astype(np.float64)
    products = deviations @ deviations.T
    squares = deviations**2 @ weights.T
    norms = np.sqrt(squares * squares.T)
    rounding = 1e-20 * weights.sum(1)[:, None]
    enough = (weights @ weights.T >= FEWEST_ROWS) & (squares > rounding) & (squares.T > rounding.T)
    return enough & (np.abs(products) > SAME * norms)
