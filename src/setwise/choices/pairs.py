"""Numbers for pairs of items: of every set a matrix, kept flat as the sets themselves are."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise._shapes import Bool, Float, Int


@dataclass(frozen=True, eq=False)
class Pairs:
    """Of every set a matrix, whose row is what changes (a) and whose column what causes it (b).

    Both are the items of the set in their order. With an outside option there is one more row, the
    last, and no column: it has nothing to change and never leaves.

    >>> pairs = Pairs(np.arange(5.0), np.array([2, 1]), np.array([2, 1]))
    >>> pairs.of_set(0).tolist(), pairs.of_set(1).tolist()
    ([[0.0, 1.0], [2.0, 3.0]], [[4.0]])
    """

    values: Float[np.ndarray, " pairs"]
    rows: Int[np.ndarray, " sets"]
    columns: Int[np.ndarray, " sets"]

    def __len__(self) -> int:
        return len(self.rows)

    def of_set(self, number: int) -> Float[np.ndarray, "a b"]:
        """The matrix of one set."""
        begin = int((self.rows * self.columns)[:number].sum())
        shape = int(self.rows[number]), int(self.columns[number])
        return self.values[begin : begin + shape[0] * shape[1]].reshape(shape)

    def places(
        self,
    ) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
        """Of each pair: its set, and the places of a and of b in that set."""
        sizes = self.rows * self.columns
        sets = np.repeat(np.arange(len(self)), sizes)
        within = np.arange(len(sets)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        a, b = np.divmod(within, self.columns[sets])
        return sets, a, b

    def same(self) -> Bool[np.ndarray, " pairs"]:
        """Where a and b are one item."""
        _, a, b = self.places()
        return a == b

    def to_frame(self, item: str, value: str, because_of: str = "because_of") -> Any:
        """A Polars frame, one row per pair: set_number, a, b and the value, by these names."""
        import polars as pl

        sets, a, b = self.places()
        columns = {"set_number": sets, item: a, because_of: b, value: self.values}
        return pl.DataFrame(columns, nan_to_null=True)

    def between(
        self, codes: Int[np.ndarray, " rows"], levels: int, apart: bool
    ) -> Float[np.ndarray, "sets levels levels"]:
        """Sums over the pairs of each set, by the alternatives of a and b.

        ``codes`` are those of all rows, outside options included. ``apart`` leaves out the pairs
        of an item with itself. Values that are not numbers count as 0.

        >>> pairs = Pairs(np.arange(4.0), np.array([2]), np.array([2]))
        >>> pairs.between(np.array([0, 0]), 1, apart=False).item()
        6.0
        """
        sets, a, b = self.places()
        first = np.concatenate([[0], np.cumsum(self.rows)[:-1]])[sets]
        place = (sets * levels + codes[first + a]) * levels + codes[first + b]
        counted = np.where((a == b) & apart, 0.0, np.nan_to_num(self.values.astype(np.float64)))
        sums = np.bincount(place, counted, len(self) * levels**2)
        return sums.reshape(len(self), levels, levels)
