"""Where the columns of a table come from: files of any size, a few columns at a time.

Polars needs minutes to find the types of all columns of a large CSV file. Here a CSV is read as
text, and a column's type is found from its distinct values, which are fewer.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from setwise.choices import Table, open_table
from setwise.choices.column_types import is_none
from setwise.choices.table_files import check_csv, ends_empty, is_csv, is_there, read_file, readable

if TYPE_CHECKING:
    import polars as pl

BYTES_AT_ONCE = 400_000_000
HEAD = 1000


class Frame:
    """A data frame or a mapping of arrays in memory."""

    def __init__(self, table: Table, label: str = "a table"):
        self._table = table
        self.label, self.names, self.rows = label, table.names, table.rows
        # Rows of a plain mapping carry no item's name, so equal ones may be different items.
        self.compares_rows = table.native is not None

    def each(self, names: list[str]) -> Iterator[tuple[str, Any]]:
        """These columns, one after the other."""
        for name in names:
            yield name, self._table.series(name, "feature")

    def head(self) -> "dict[str, pl.Series]":
        """The first rows."""
        return {name: as_polars(series).head(HEAD) for name, series in self.each(self.names)}


class ParquetFile:
    """A Parquet file, read column by column."""

    compares_rows = True

    def __init__(self, path: Path):
        import polars as pl

        self._path, self.label = path, str(path)
        with readable(path):
            lazy = pl.scan_parquet(path, glob=False)
            self.names = lazy.collect_schema().names()
            self.rows = int(lazy.select(pl.len()).collect().item())

    def each(self, names: list[str]) -> "Iterator[tuple[str, pl.Series]]":
        """These columns, one after the other."""
        import polars as pl

        for name in names:
            with readable(self._path):
                series = pl.read_parquet(self._path, columns=[name], glob=False)[name]
            yield name, series

    def head(self) -> "dict[str, pl.Series]":
        """The first rows."""
        import polars as pl

        with readable(self._path):
            frame = pl.scan_parquet(self._path, glob=False).head(HEAD).collect()
        return {name: as_polars(frame[name]) for name in self.names}


class CsvFile:
    """A CSV file, read in passes of as many columns as take little memory."""

    compares_rows = True

    def __init__(self, path: Path):
        import polars as pl

        self._path, self.label = path, str(path)
        check_csv(path)
        # Polars parses some rows beyond n_rows, whose values may not fit the types of the head.
        options: dict[str, Any] = {"try_parse_dates": True, "ignore_errors": True, "glob": False}
        with readable(path):
            self._head = pl.read_csv(path, n_rows=HEAD, infer_schema_length=HEAD, **options)
            self.names = self._head.columns
            lines = pl.scan_csv(path, glob=False, infer_schema=False)
            count = pl.len()
            if ends_empty(path):  # which reading leaves out
                full = pl.any_horizontal(pl.all().is_not_null())
                count = (pl.int_range(pl.len()).filter(full).max() + 1).fill_null(0)
            self.rows = int(lines.select(count).collect().item())

    def each(self, names: list[str]) -> "Iterator[tuple[str, pl.Series]]":
        """These columns, one after the other."""
        size = max(1, self._path.stat().st_size)
        together = max(1, int(len(self.names) * BYTES_AT_ONCE / size))
        for start in range(0, len(names), together):
            block = self._text(names[start : start + together])
            for name in block.columns:
                yield name, _typed(block.drop_in_place(name), self._head[name])

    def head(self) -> "dict[str, pl.Series]":
        """The first rows."""
        return {name: self._head[name] for name in self.names}

    def _text(self, names: list[str]) -> "pl.DataFrame":
        import polars as pl

        with readable(self._path):
            frame = pl.read_csv(self._path, columns=names, infer_schema=False, glob=False)
        return frame.select(names).head(self.rows)


Source = Frame | ParquetFile | CsvFile
"""Named columns of equal length, read when asked for."""


def open_source(table: Any) -> Source:
    """A source for a path, a data frame or a mapping of arrays."""
    if not isinstance(table, (str, Path)):
        return Frame(open_table(table))
    path = Path(table)
    kind = path.suffix.lower() if is_there(path) and path.is_file() else ""
    if kind == ".parquet":
        return ParquetFile(path)
    if kind in (".csv", ".gz") and is_csv(path):
        return CsvFile(path)
    return Frame(open_table(read_file(path)), str(path))  # which says what is wrong with the path


def _typed(text: "pl.Series", head: "pl.Series") -> "pl.Series":
    """A column of a CSV file in the type that reading would give it."""
    import polars as pl

    if head.dtype == pl.String and head.null_count() < len(head):
        return text  # numbers in quotes too
    # A cast takes "+5" and "Infinity" for numbers, which in a file are text.
    if head.dtype.is_numeric() and not text.str.contains("+", literal=True).any():
        for dtype in (pl.Int64, pl.Float64) if head.dtype.is_integer() else (pl.Float64,):
            numbers = text.cast(dtype, strict=False)
            if numbers.null_count() == text.null_count() and numbers.is_finite().all():
                return numbers
    levels = text.drop_nulls().unique()
    if len(levels) == 0:
        return text
    written = io.BytesIO()
    levels.to_frame().write_csv(written)
    written.seek(0)
    found = pl.read_csv(written, try_parse_dates=True, infer_schema_length=None).to_series()
    if found.dtype == pl.String:
        return text
    places = text.cast(pl.Enum(levels)).to_physical()
    return found.gather(places.cast(pl.UInt32)).alias(text.name)


def as_polars(values: Any) -> "pl.Series":
    """A column in any form as a Polars series, to group and compare rows by; objects are text."""
    import polars as pl

    if isinstance(values, nw.Series):
        native = values.to_native()
        if isinstance(native, pl.Series):
            values = native
        else:
            if getattr(values.dtype, "time_zone", None):
                values = values.dt.replace_time_zone(None)
            values = values.to_numpy()
    if isinstance(values, pl.Series):
        if values.dtype != pl.Object:
            return values
        values = np.array(values.to_list(), object)
    if values.dtype.kind == "M":
        return pl.Series(values.astype("datetime64[us]"))
    if values.dtype.kind in "biufU":
        return pl.Series(values)
    absent = is_none(values)
    text = [None if gone else str(one) for one, gone in zip(values, absent, strict=True)]
    return pl.Series(text, dtype=pl.String)
