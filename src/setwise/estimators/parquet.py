"""A Parquet file in chunks of whole sets, in bounded memory, wherever the rows of a set lie."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from setwise._errors import InputError
from setwise.choices import Schema

ROWS_A_CHUNK = 2_000_000


class ParquetTable:
    """The columns of a Parquet file that a model reads, a chunk of whole sets at a time.

    Each chunk reads as it would within the whole table: whether a column is text, and how numbers
    are written as levels, are matters of the file and not of the chunk.

    >>> import tempfile, setwise as sw
    >>> drawn = sw.datasets.generate("mnl", sets=100, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "trips.parquet"
    ...     drawn.table.write_parquet(path)
    ...     table = ParquetTable(path, sw.Schema.fit(drawn.choices))
    ...     [len(frame) == table.rows for rows, frame in table.chunks()]
    [True]
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

    def first_row(self) -> Any:
        """A frame of the first row in all its columns, or of no row."""
        return self._collect(self.scan.head(1)).with_columns(self._texts())

    def chunks(self) -> Iterator[tuple[Int[np.ndarray, " rows"], Any]]:
        """Row numbers in the file, and a frame of these rows; each set whole in one chunk."""
        used = [self._set, *(encoder.feature.column for encoder in self._encoders)]
        columns = self.scan.select(list(dict.fromkeys(used)))
        texts, fractions = self._texts(), self._with_fractions()
        cuts = self._cuts()
        parts = self._gathered(columns) if cuts is None else self._between(cuts, columns)
        for rows, frame in parts:
            levels = [_as_levels(frame[name]) for name in fractions]
            yield rows, frame.with_columns(*texts, *levels)

    def _cuts(self) -> list[int] | None:
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

    def _between(
        self, cuts: list[int], columns: Any
    ) -> Iterator[tuple[Int[np.ndarray, " rows"], Any]]:
        """Sets that lie side by side, in the file's order."""
        for begin, end in pairwise(cuts):
            yield np.arange(begin, end), self._collect(columns.slice(begin, end - begin))

    def _gathered(self, columns: Any) -> Iterator[tuple[Int[np.ndarray, " rows"], Any]]:
        """Scattered sets, divided by their hashes into parts; each takes one pass over the file."""
        number = "row"
        while number in self.names:
            number += "_"
        parts = -(-self.rows // ROWS_A_CHUNK)
        for part in range(parts):
            inside = self._hash() % parts == part
            frame = self._collect(columns.with_row_index(number).filter(inside))
            if len(frame):
                yield frame[number].to_numpy().astype(np.int64), frame.drop(number)

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
