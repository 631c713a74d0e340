"""Outside tables: files, data frames and arrays, seen as named columns.

Frames of any library that narwhals reads come through narwhals, files through Polars; each is
imported only when it is needed.
"""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from setwise._errors import InputError
from setwise._shapes import Shaped
from setwise.choices.columns import Column
from setwise.choices.table_files import read_file


class Table:
    """Named columns of equal length, with the name to use in errors."""

    def __init__(self, columns: Mapping[str, Any], rows: int, native: Any = None):
        self._columns = columns
        self.rows = rows
        self.native = native

    @property
    def names(self) -> list[str]:
        """The columns' names, in order."""
        return list(self._columns)

    def series(self, name: str, role: str) -> Any:
        """A raw column, or an error that says which part it was to play."""
        if name not in self._columns:
            raise InputError(
                f"{role} column '{name}' is not in the table; it has: {_listed(self.names)}"
            )
        return self._columns[name]

    def ids(self, name: str, role: str) -> Shaped[np.ndarray, " rows"]:
        """A column of identifiers: any type, nothing missing."""
        series = self.series(name, role)
        values = _to_numpy(series)
        if values.ndim != 1 or (values.dtype.kind == "O" and _is_nested(values)):
            raise InputError(
                f"{role} column '{name}' has type {series.dtype}; ids are numbers, text or dates"
            )
        absent = values != values if values.dtype.kind != "O" else _is_none(values)
        if absent.any():
            raise InputError(
                f"{role} column '{name}' is missing at row {int(np.argmax(absent))}; "
                f"every row needs a {role} value"
            )
        return values.astype(str) if values.dtype.kind == "O" else values

    def column(self, name: str, role: str, as_category: bool = False) -> Column:
        """A column in one of the types the library understands."""
        return _typed(name, self.series(name, role), role, as_category)

    def duplicates(self) -> Shaped[np.ndarray, " rows"]:
        """True for rows that repeat an earlier row in every column (frames only).

        Rows of a plain array carry no item's name, so equal ones may be different items.
        """
        if self.native is None:
            return np.zeros(self.rows, bool)
        import narwhals as nw
        from narwhals import selectors

        frame = nw.from_native(self.native, eager_only=True)
        try:
            repeats = frame.is_duplicated().any()
        except TypeError:  # pandas cannot compare lists and dictionaries; their text can be
            frame = frame.with_columns(selectors.by_dtype(nw.Object).cast(nw.String))
            repeats = frame.is_duplicated().any()
        if not repeats:
            return np.zeros(self.rows, bool)
        seen = frame.with_row_index("__row__").unique(
            subset=self.names, keep="first", maintain_order=True
        )
        repeated = np.ones(self.rows, bool)
        repeated[seen["__row__"].to_numpy()] = False
        return repeated


def open_table(source: Any) -> Table:
    """A table from a path, a data frame or a mapping of arrays."""
    if isinstance(source, (str, Path)):
        source = read_file(Path(source))
    if isinstance(source, Mapping):
        columns = {str(name): np.asarray(values) for name, values in source.items()}
        for name, values in columns.items():
            if values.ndim != 1:
                raise InputError(
                    f"column '{name}' has shape {values.shape}; each column needs one value a row"
                )
        lengths = {name: len(values) for name, values in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"the columns differ in length: {lengths}; each needs one value a row")
        return Table(columns, next(iter(lengths.values()), 0))
    try:
        import narwhals as nw
    except ImportError:
        raise InputError(
            f"reading a {type(source).__name__} needs the package narwhals: pip install narwhals, "
            "or give a mapping of arrays"
        ) from None
    try:
        frame = nw.from_native(source, eager_only=True)
    except TypeError:
        raise InputError(
            f"cannot read choices from {type(source).__name__}; give a path to Parquet or CSV, a "
            "Polars or pandas frame, a mapping of arrays, or an array with set= and chosen= vectors"
        ) from None
    except nw.exceptions.DuplicateError:
        raise InputError("two columns of the frame have the same name; rename one") from None
    for name in frame.columns:
        if not isinstance(name, str):
            raise InputError(f"the frame has a column named {name!r}; names must be text")
    columns = {name: frame[name] for name in frame.columns}
    return Table(columns, len(frame), source)


def _typed(name: str, series: Any, role: str, as_category: bool) -> Column:
    """Sort a raw column into numbers, categories and dates."""
    if _holds_objects(series):
        series = _from_objects(_to_numpy(series))
    dtype, declared = series.dtype, as_category
    if isinstance(series, np.ndarray):
        kind = _KINDS.get(dtype.kind, "")
    else:
        kind, named = _kind_of_series(dtype)
        declared = declared or named
    if not kind:
        raise InputError(
            f"column '{name}' has type {dtype}; features are numbers, booleans, text or dates: "
            "convert it or leave it out of items"
        )
    if kind == "date" and not as_category:
        if getattr(dtype, "time_zone", None):  # the day on the local calendar, not at Greenwich
            series = series.dt.replace_time_zone(None)
        return Column(_to_numpy(series).astype("datetime64[s]"))
    if kind == "number" and not as_category:
        return Column(_floats(series))
    column = _categories(_to_numpy(series))
    if declared:
        return column
    if column.missing.all():  # a file's empty column looks like text
        return Column(np.full(len(column.values), np.nan))
    _refuse_spoiled_numbers(name, column, role)
    return column


# NumPy's kinds of types.
_KINDS = {"b": "number", "i": "number", "u": "number", "f": "number", "M": "date", "U": "text",
          "O": "text"}  # fmt: skip


def _holds_objects(series: Any) -> bool:
    if isinstance(series, np.ndarray):
        return series.dtype.kind == "O"
    import narwhals as nw

    return series.dtype in (nw.Object, nw.Unknown)


def _kind_of_series(dtype: Any) -> tuple[str, bool]:
    """What a frame's column holds, and whether its type says that these are names."""
    import narwhals as nw

    if dtype.is_numeric() or dtype == nw.Boolean:
        return "number", False
    if dtype in (nw.Date, nw.Datetime):
        return "date", False
    named = dtype in (nw.Categorical, nw.Enum)
    return ("text" if named or dtype == nw.String else ""), named


def _from_objects(values: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, " n"]:
    """Python objects as numbers or dates where they all are, missing ones as NaN or NaT."""
    absent = _is_none(values)
    present = values[~absent]
    if all(isinstance(value, (Real, Decimal, np.bool_)) for value in present):
        return np.where(absent, np.nan, values).astype(np.float64)
    if all(isinstance(value, date) for value in present):
        dates = np.full(len(values), "NaT", "datetime64[s]")
        dates[~absent] = [
            value.replace(tzinfo=None) if isinstance(value, datetime) else value
            for value in present
        ]
        return dates
    return values


def _floats(series: Any) -> Shaped[np.ndarray, " n"]:
    """Floats, NaN where missing; float32 stays as it is, everything else becomes float64."""
    values = _to_numpy(series)
    if values.dtype.kind == "O":  # pandas' nullable booleans and integers
        values = np.where(_is_none(values), np.nan, values)
    return values if values.dtype == np.float32 else values.astype(np.float64)


def _categories(values: Shaped[np.ndarray, " n"]) -> Column:
    if values.dtype.kind == "O":
        absent = _is_none(values)
    elif values.dtype.kind == "M":
        absent, values = np.isnat(values), values.astype(str)
    elif values.dtype.kind == "f":
        absent = np.isnan(values)
        whole = values[~absent]
        # An integer column with gaps: 3, not "3.0".
        if (whole == np.floor(whole)).all() and (np.abs(whole) < 2**53).all():
            values = np.where(absent, 0, values).astype(np.int64)
    else:
        absent = np.zeros(len(values), bool)
    levels, codes = np.unique(np.where(absent, "", values).astype(str), return_inverse=True)
    codes = codes.reshape(-1).astype(np.int32)
    if absent.any():
        used, codes_present = np.unique(codes[~absent], return_inverse=True)
        codes = np.full(len(values), -1, np.int32)
        codes[~absent] = codes_present
        levels = levels[used]
    return Column(codes, tuple(levels.tolist()))


def _refuse_spoiled_numbers(name: str, column: Column, role: str) -> None:
    """Text that is mostly numbers is a number column with a bad value, not a category."""
    levels = column.levels or ()
    readable = np.array([_is_number(level) for level in levels], bool)
    of_rows = readable[column.values[column.values >= 0]]
    if max(readable.mean(), of_rows.mean()) <= 0.5:
        return
    names = f", or use category({name}) if they are names" if role in ("item", "context") else ""
    if readable.all():
        raise InputError(
            f"column '{name}' holds numbers written as text; convert it to numbers{names}"
        )
    code = int(np.argmin(readable))
    row = int(np.argmax(column.values == code))
    raise InputError(
        f"column '{name}' is text, but most of its values are numbers; row {row} has "
        f"'{levels[code]}'; correct it{names}"
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _to_numpy(series: Any) -> Shaped[np.ndarray, " n"]:
    return series if isinstance(series, np.ndarray) else series.to_numpy()


def _is_none(values: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, " n"]:
    """True for None, NaN and pandas' NA (the only values that are not equal to themselves)."""
    return np.array([value is None or not _same(value) for value in values], bool)


def _is_nested(values: Shaped[np.ndarray, " n"]) -> bool:
    return any(isinstance(value, (list, tuple, dict, np.ndarray)) for value in values)


def _same(value: Any) -> bool:
    try:
        return bool(value == value)
    except TypeError:  # pandas' NA refuses to be a boolean
        return False


def _listed(names: list[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
