"""Numbers for pairs: of the items of every set, and of named alternatives."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from setwise._page import notebook_html
from setwise._segments import offsets_of, owners, positions
from setwise._shapes import Bool, Float, Int
from setwise.metrics.set_means import Group, bootstrap, quotient


@dataclass(frozen=True, eq=False)
class Pairs:
    """One matrix per set, kept flat: row a is the item that changes, column b the cause.

    Both are the items of the set in their order. An outside option is one more row, the last, and
    no column: it has nothing to change and never leaves.

    >>> pairs = Pairs(np.arange(5.0), np.array([2, 1]), np.array([2, 1]))
    >>> pairs.of_set(0).tolist(), pairs.of_set(1).tolist()
    ([[0.0, 1.0], [2.0, 3.0]], [[4.0]])
    """

    values: Float[np.ndarray, " pairs"]
    rows: Int[np.ndarray, " sets"]
    columns: Int[np.ndarray, " sets"]

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def empty(cls, rows: Int[np.ndarray, " sets"], columns: Int[np.ndarray, " sets"]) -> "Pairs":
        """Matrices of these shapes, full of NaN: :meth:`fill` writes them."""
        return cls(np.full(int((rows * columns).sum()), np.nan), rows, columns)

    def fill(self, sets: Int[np.ndarray, " m"], tables: Float[np.ndarray, "m b a"]) -> None:
        """Write the matrices of these sets, from tables padded to a common width, cause first."""
        place = np.arange(tables.shape[2])
        changes = place < self.rows[sets][:, None]
        causes = place < self.columns[sets][:, None]
        real = causes[:, :, None] & changes[:, None, :]
        within = place * self.columns[sets][:, None, None] + place[:, None]
        flat = self._begins[sets][:, None, None] + within
        self.values[flat[real]] = tables[real]

    def put(
        self,
        sets: Int[np.ndarray, " some"],
        a: Int[np.ndarray, " some"],
        b: Int[np.ndarray, " some"],
        values: Float[np.ndarray, " some"],
    ) -> None:
        """Write the numbers of these pairs of items."""
        self.values[self._begins[sets] + a * self.columns[sets] + b] = values

    @cached_property
    def _begins(self) -> Int[np.ndarray, " sets"]:
        """Where each set's matrix begins."""
        return offsets_of(self.rows * self.columns)[:-1]

    def of_set(self, number: int) -> Float[np.ndarray, "a b"]:
        """The matrix of one set."""
        begin = int(self._begins[number])
        shape = int(self.rows[number]), int(self.columns[number])
        return self.values[begin : begin + shape[0] * shape[1]].reshape(shape)

    def places(
        self,
    ) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
        """The set of each pair, and the places of a and of b in that set."""
        offsets = offsets_of(self.rows * self.columns)
        sets = owners(offsets)
        a, b = np.divmod(positions(offsets), self.columns[sets])
        return sets, a, b

    def of_rows(self, values: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " pairs"]:
        """For each pair, the value of its row a; ``values`` has one per row of all sets."""
        sets, a, _ = self.places()
        return values[offsets_of(self.rows)[sets] + a]

    def own(self) -> Float[np.ndarray, " pairs"]:
        """For each pair, the number of b with itself."""
        sets, _, b = self.places()
        return self.values[self._begins[sets] + b * self.columns[sets] + b]

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
        """The sums over the pairs of each set, by the alternatives of a and b.

        ``codes`` has the alternative of every row, outside options included. ``apart`` leaves out
        the pairs of an item with itself. NaN counts as 0.

        >>> pairs = Pairs(np.arange(4.0), np.array([2]), np.array([2]))
        >>> pairs.between(np.array([0, 0]), 1, apart=False).item()
        6.0
        """
        sets, a, b = self.places()
        first = offsets_of(self.rows)[sets]
        place = (sets * levels + codes[first + a]) * levels + codes[first + b]
        counted = np.where((a == b) & apart, 0.0, np.nan_to_num(self.values.astype(np.float64)))
        sums = np.bincount(place, counted, len(self) * levels**2)
        return sums.reshape(len(self), levels, levels)


class Responses(NamedTuple):
    """For every pair, how the probability of a responds to b; and the probabilities themselves."""

    pairs: Pairs
    probability: Float[np.ndarray, " rows"]
    """P_s(a) of every row, set after set; the outside option, if any, is each set's last."""


@dataclass(frozen=True, eq=False)
class LevelMatrix:
    """A number for every pair of alternatives, with 95 % bootstrap intervals over sets.

    ``values[k, l]`` is what happens to alternative k because of l; NaN where no set has an l.
    """

    names: tuple[str, ...]
    values: Float[np.ndarray, "levels levels"]
    low: Float[np.ndarray, "levels levels"]
    high: Float[np.ndarray, "levels levels"]

    @classmethod
    def ratio(
        cls,
        names: Sequence[str],
        above: Float[np.ndarray, "sets k l"],
        below: Float[np.ndarray, "sets k_or_one l_or_one"],
        group: Group | None = None,
    ) -> "LevelMatrix":
        """The sums over sets of ``above``, divided by those of ``below``, entry by entry.

        With ``group``, one value per set, the bootstrap draws people instead of sets.

        >>> above, below = np.array([[[1.0]], [[2.0]]]), np.array([[[2.0]], [[4.0]]])
        >>> print(LevelMatrix.ratio(["car"], above, below))
                car
        car  0.5000
        """
        below = np.broadcast_to(below, above.shape)
        low, high = bootstrap(above, below, group=group)
        return cls(tuple(names), quotient(above.sum(0), below.sum(0)), low, high)

    def to_frame(self, of: str = "alternative", because_of: str = "because_of") -> Any:
        """A Polars frame, one row per pair: alternative, because_of, value, low, high.

        ``of`` and ``because_of`` are other names for the first two columns.
        """
        import polars as pl

        changed, cause = np.indices(self.values.shape)
        names = np.array(self.names, object)
        columns = {
            of: pl.Series(names[changed.ravel()].tolist(), dtype=pl.String),
            because_of: pl.Series(names[cause.ravel()].tolist(), dtype=pl.String),
            "value": self.values.ravel(), "low": self.low.ravel(), "high": self.high.ravel(),
        }  # fmt: skip
        return pl.DataFrame(columns, nan_to_null=True)

    def _repr_html_(self) -> str:
        return self.html()

    def html(self, title: str = "") -> str:
        """The matrix as a notebook shows it, with a line above."""
        rows = [
            [name, *("" if one != one else f"{one:.4f}" for one in row)]
            for name, row in zip(self.names, self.values, strict=True)
        ]
        note = "Rows: what changes. Columns: because of which alternative."
        return notebook_html(["", *self.names], rows, title=title, note=note)

    def __str__(self) -> str:
        width = max(len(name) for name in self.names)
        column = max(width, 7)
        lines = [" " * width + "".join(f" {name:>{column}}" for name in self.names)]
        for name, row in zip(self.names, self.values, strict=True):
            lines.append(f"{name:<{width}}" + "".join(f" {value:>{column}.4f}" for value in row))
        return "\n".join(lines)
