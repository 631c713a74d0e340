"""Columns of raw files: their types, what may be missing, and reading a block of lines strictly."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from setwise._errors import InputError

Type = Literal["int8", "int16", "int32", "int64", "float32", "text", "date"]
NULLS = ("NULL", "\\N")
MOMENT = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True)
class Field:
    """A wanted column: its type, what a missing value becomes (None: none may be missing), and
    the least value that it may have.

    A date is a moment such as 2013-04-04 08:32:15 and becomes ``datetime64[s]``.
    """

    type: Type
    missing: int | float | str | None = None
    least: int | None = None

    @property
    def words(self) -> str:
        """What a value of the column must be, in words."""
        if self.type.startswith("int"):
            limits = np.iinfo(self.type)
            least = limits.min if self.least is None else self.least
            return f"a whole number from {least} to {limits.max}"
        number = "a finite number" + ("" if self.least is None else f" of at least {self.least}")
        other = {"float32": number, "text": "text"}
        return other.get(self.type, "a moment like 2013-04-04 08:32:15")


def polars_type(field: Field) -> Any:
    """The Polars type in which the column is read; dates are parsed afterwards."""
    import polars as pl

    types = {
        "int8": pl.Int8, "int16": pl.Int16, "int32": pl.Int32, "int64": pl.Int64,
        "float32": pl.Float32,
    }  # fmt: skip
    return types.get(field.type, pl.String)


def header_of(line: bytes, place: str) -> list[str]:
    """The names in a header line."""
    try:
        return next(csv.reader([line.decode("utf-8-sig").rstrip("\r\n")]), [])
    except (UnicodeDecodeError, csv.Error):
        raise InputError(
            f"{place}: the header is not text with commas; if the file is packed, its name must "
            "end in .zip or .gz"
        ) from None


def check_names(names: list[str], wanted: Iterable[str], place: str) -> None:
    """Refuse a table in which a wanted column is not there, or is there twice."""
    wanted = list(wanted)
    for name in wanted:
        if names.count(name) > 1:
            raise InputError(f"{place}, column '{name}': named twice; rename one of them")
    absent = [f"'{name}'" for name in wanted if name not in names]
    if absent:
        raise InputError(
            f"{place}: there is no column {', '.join(absent)}; the columns are: "
            f"{', '.join(names[:60])}; take the file as it was published"
        )


def parse_block(
    block: bytes, header: list[str], fields: Mapping[str, Field]
) -> dict[str, Any] | None:
    """The columns of a block of whole lines, or None if any line is not as it must be.

    Polars fills short rows with nulls, and lets quoted text run over lines: the separators and
    lines are counted as well.
    """
    import polars as pl

    places = {name: header.index(name) for name in fields}
    schema = {f"{i}": pl.String for i in range(len(header))}
    schema |= {f"{place}": polars_type(fields[name]) for name, place in places.items()}
    # With its last column read, Polars refuses rows that are too long.
    taken = sorted({*places.values(), len(header) - 1})
    try:
        frame = pl.read_csv(
            block, has_header=False, schema=schema, columns=taken, null_values=list(NULLS)
        )
    except pl.exceptions.PolarsError:
        return None
    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    if frame.height != lines or not _whole(block, lines, len(header)):
        return None
    columns = {}
    for name, field in fields.items():
        columns[name], bad = typed(frame[f"{places[name]}"], field)
        if bad is not None:
            return None
    return columns


def _whole(block: bytes, lines: int, columns: int) -> bool:
    """Whether the lines together have as many separators as they must."""
    if b'"' not in block:
        return block.count(b",") == lines * (columns - 1)
    text = block.decode("utf-8", errors="replace").removesuffix("\n").split("\n")
    if any(line.count('"') % 2 for line in text):  # which versions of Polars take differently
        return False
    try:
        return all(len(row) == columns for row in csv.reader(text))
    except csv.Error:  # a field of more than 128 KiB
        return False


def typed(series: Any, field: Field) -> tuple[Any, int | None]:
    """A column in the field's type, and the first row whose value does not fit (None: all fit)."""
    import polars as pl

    if field.type == "date" and not series.dtype.is_temporal():
        text = series.cast(pl.String)
        result = text.str.to_datetime(MOMENT, time_unit="ms", strict=False)
    else:
        wanted = pl.Datetime("ms") if field.type == "date" else polars_type(field)
        result = series.cast(wanted, strict=False)
    bad = None
    if result.null_count() > (0 if field.missing is None else series.null_count()):
        bad = result.is_null() if field.missing is None else result.is_null() & series.is_not_null()
    elif field.type == "float32" and not result.is_finite().all():
        bad = ~result.is_finite()
    elif field.type.startswith("int") and series.dtype.is_float():
        bad = result.cast(series.dtype) != series
    elif field.least is not None:
        bad = result < field.least
    rows = [] if bad is None else bad.arg_true().to_list()
    return result, rows[0] if rows else None


def filled(series: Any, field: Field) -> Any:
    """A typed column as an array, missing values filled; text stays a Polars series."""
    if field.type == "date":
        return series.to_numpy().astype("datetime64[s]")
    if field.missing is not None and series.null_count():
        series = series.fill_null(field.missing)
    return series.rechunk() if field.type == "text" else series.to_numpy()
