"""Rows that repeat an earlier row in every column, found without having all columns at once."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from setwise.doctor.examination import Finding, counted
from setwise.doctor.sets import EXAMPLES

if TYPE_CHECKING:
    import polars as pl

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: spreads the bits


class RowHashes:
    """A 64-bit hash of each row, made column by column.

    Two different rows of ten million share a hash with a chance of 3 in a million.
    """

    def __init__(self, rows: int, wanted: bool = True):
        self._hashes = np.zeros(rows, np.uint64) if wanted else None

    def add(self, series: "pl.Series") -> None:
        """Take a column in."""
        if self._hashes is not None:
            self._hashes *= MULTIPLIER
            self._hashes ^= series.hash(0).to_numpy()

    def repeated(self, ids: "pl.Series") -> Iterator[Finding]:
        """The rows that repeat an earlier one; ``ids`` name the set of each row."""
        import polars as pl

        if self._hashes is None:
            return
        rows = (~pl.Series(self._hashes).is_first_distinct()).arg_true()
        if len(rows) == 0:
            return
        first = rows.head(EXAMPLES)
        sets = dict.fromkeys(str(one) for one in ids.gather(first) if one is not None)
        yield Finding(
            "error", "duplicate-rows",
            f"{counted(len(rows), 'row', len(self._hashes))} equal to an earlier row in every "
            "column",
            'use on_duplicate="drop" (--on-duplicate drop) to keep the first of each, or "keep" if '
            "they are different items",
            rows=tuple(first.to_list()), sets=tuple(sets), count=len(rows),
        )  # fmt: skip
