"""A Parquet file in chunks of whole sets, in bounded memory, wherever the rows of a set lie."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from setwise._errors import InputError
from setwise._shapes import Int
from setwise.choices import Schema

ROWS_A_CHUNK = 250_000
"""Of sets that lie side by side; several such chunks are in memory, one for each thread."""
ROWS_A_PASS = 2_000_000
"""Of scattered sets, one such part at a time: each takes a pass over the file."""


class ParquetTable:
    """A Parquet file that a model reads, a chunk of whole sets at a time.

    Each chunk reads as it would within the whole table: whether a column is text, and how numbers
    are written as levels, are matters of the file and not of the chunk.

    >>> import tempfile, setwise as sw
    >>> drawn = sw.datasets.generate("mnl", sets=100, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "trips.parquet"
    ...     drawn.table.write_parquet(path)
    ...     table = ParquetTable(path, sw.Schema.fit(drawn.choices))
    ...     table.cuts() == [0, table.rows], table.used(table.between(0, 2)).columns
    (True, ['set_id', 'x0', 'x1', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7'])
    """

    def __init__(self, path: Path, schema: Schema):
        import polars as pl

        self.path = path
        self.scan = pl.scan_parquet(path, glob=False)
        try:
            self._types = self.scan.collect_schema()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise unreadable(path, error) from error
        self.names = self._types.names()
        self.rows = int(self._collect(self.scan.select(pl.len())).item())
        self._set = schema.roles.set
        self._encoders = schema.items + schema.context
        columns = (encoder.feature.column for encoder in self._encoders)
        self._used = list(dict.fromkeys([self._set, *columns]))

    def first_row(self) -> Any:
        """A frame of the first row in all its columns, or of no row."""
        return self._collect(self.scan.head(1)).with_columns(self._texts())

    def used(self, frame: Any) -> Any:
        """What the model reads of a frame with the file's columns, in the file's types."""
        levels = [_as_levels(frame[name]) for name in self._with_fractions]
        return frame.select(self._used).with_columns(*self._texts(), *levels)

    def between(self, begin: int, end: int) -> Any:
        """A frame of these rows in all their columns."""
        return self._collect(self.scan.slice(begin, end - begin))

    def cuts(self) -> list[int] | None:
        """Rows at which chunks begin, and the number of rows; None where sets are scattered.

        Equal ids have equal hashes. So if each hash has only one run of rows, each set lies side
        by side; and where two sets share a hash, they merely stay together.
        """
        ids = self.scan.select(self._hash())
        cuts, runs, count, checked, last = [0], [], 0, 0, None
        for begin in range(0, self.rows, ROWS_A_CHUNK):
            hashes = self._collect(ids.slice(begin, ROWS_A_CHUNK)).to_series().to_numpy()
            starts = np.flatnonzero(hashes[1:] != hashes[:-1]) + 1
            if hashes[0] != last:
                starts = np.concatenate([[0], starts])
            last = hashes[-1]
            runs.append(hashes[starts])
            count += len(starts)
            final = begin + ROWS_A_CHUNK >= self.rows
            # Looking again only after twice as many keeps the cost linear, and a scattered file
            # is found out before its runs, as many as rows, fill the memory.
            if final or count >= 2 * checked:
                runs, checked = [np.concatenate(runs)], count
                ordered = np.sort(runs[0])
                if (ordered[1:] == ordered[:-1]).any():
                    return None
            if len(starts) and not final:
                cuts.append(begin + int(starts[-1]))
        return [*dict.fromkeys(cuts), self.rows]

    def gathered(self) -> Iterator[tuple[Int[np.ndarray, " rows"], Any]]:
        """Scattered sets, divided by their hashes into parts: row numbers, and what is used."""
        number = "row"
        while number in self.names:
            number += "_"
        columns = self.scan.select(self._used)
        parts = -(-self.rows // ROWS_A_PASS)
        for part in range(parts):
            inside = self._hash() % parts == part
            frame = self._collect(columns.with_row_index(number).filter(inside))
            if len(frame):
                yield frame[number].to_numpy().astype(np.int64), self.used(frame)

    def _hash(self) -> Any:
        import polars as pl

        ids = pl.col(self._set)
        if self._types[self._set] in (pl.Categorical, pl.Enum):  # codes may differ between chunks
            ids = ids.cast(pl.String)
        return ids.hash()

    def _texts(self) -> list[Any]:
        """Text that the model takes as names, declared as such: a chunk may hold only digits."""
        import polars as pl

        names = [one.feature.column for one in self._encoders if one.looked_up]
        return [
            pl.col(name).cast(pl.Categorical)
            for name in names
            if self._types.get(name) == pl.String
        ]

    @cached_property
    def _with_fractions(self) -> list[str]:
        """Float columns taken as names, of which some value in the file is not whole.

        Their whole numbers are written "3.0" as well, and "3" in the other columns.
        """
        import polars as pl

        names = [one.feature.column for one in self._encoders if one.feature.category]
        floats = [name for name in names if self._types[name].is_float()]
        broken = [(pl.col(name) != pl.col(name).floor()).any() for name in floats]
        if not broken:
            return []
        found = self._collect(self.scan.select(broken))
        return [name for name in floats if found[name].item()]

    def _collect(self, lazy: Any) -> Any:
        import polars as pl

        try:
            return lazy.collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise unreadable(self.path, error) from error


def unreadable(path: Path, error: Exception) -> InputError:
    """What to say of a file that Polars cannot read."""
    reason = str(error).splitlines()[0]
    return InputError(f"{path} cannot be read as a table: {reason}; write it again as Parquet")


def _as_levels(numbers: Any) -> Any:
    """Floats as text, as reading them within the whole table writes them."""
    import polars as pl

    values = numbers.to_numpy()
    text = np.where(np.isnan(values), None, values.astype(str))
    return pl.Series(numbers.name, text, dtype=pl.String)
