"""Outside tables: files, data frames and arrays, seen as named columns.

Frames of any library that narwhals reads come through narwhals, files through Polars; each is
imported only when it is needed.
"""

import difflib
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from setwise._errors import InputError
from setwise._shapes import Shaped
from setwise.choices.choices import Column
from setwise.choices.column_types import identifiers, typed, unmasked
from setwise.choices.table_files import CsvFormat, read_file


class Table:
    """Named columns of equal length."""

    def __init__(self, columns: Mapping[str, Any], rows: int, native: Any = None):
        self._columns = columns
        self.rows = rows
        self.native = native

    @property
    def names(self) -> list[str]:
        """The columns' names, in order."""
        return list(self._columns)

    def series(self, name: str, role: str) -> Any:
        """A raw column, or an error that names its role."""
        require_column(name, role, self._columns, self.native)
        return self._columns[name]

    def ids(self, name: str, role: str) -> Shaped[np.ndarray, " rows"]:
        """A column of identifiers: any type, nothing missing."""
        return identifiers(name, self.series(name, role), role)

    def column(
        self, name: str, role: str, as_category: bool = False, names: bool = False
    ) -> Column:
        """A column in one of the types the library understands (:func:`typed`)."""
        return typed(name, self.series(name, role), role, as_category, names)

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
        except (TypeError, NotImplementedError):  # lists and dictionaries; their text can be
            frame = frame.with_columns(selectors.by_dtype(nw.Object).cast(nw.String))
            nested = [name for name in frame.columns if frame[name].dtype.is_nested()]
            texts = {name: [str(one) for one in frame[name].to_list()] for name in nested}
            space = nw.get_native_namespace(frame)
            frame = frame.with_columns(
                *(
                    nw.new_series(name, text, nw.String, backend=space)
                    for name, text in texts.items()
                )
            )
            repeats = frame.is_duplicated().any()
        if not repeats:
            return np.zeros(self.rows, bool)
        seen = frame.with_row_index("__row__").unique(
            subset=self.names, keep="first", maintain_order=True
        )
        repeated = np.ones(self.rows, bool)
        repeated[seen["__row__"].to_numpy()] = False
        return repeated


def open_table(source: Any, csv: CsvFormat | None = None) -> Table:
    """A table from a path, a data frame or a mapping of arrays; ``csv`` is a file's format."""
    if isinstance(source, Table):
        return source
    if isinstance(source, (str, Path)):
        source = read_file(source, csv)
    elif csv is not None and csv != CsvFormat():
        raise InputError(
            f"sep, decimal and encoding are for CSV files, and the table is of type "
            f"{type(source).__name__}; leave them out"
        )
    if isinstance(source, np.ndarray) and source.dtype.names:  # a structured array
        source = {name: source[name] for name in source.dtype.names}
    if isinstance(source, Mapping):
        return _from_mapping(source)
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
        raise InputError(_no_table(source)) from None
    except nw.exceptions.DuplicateError:
        twice = next((name for name, n in Counter(source.columns).items() if n > 1), "")
        raise InputError(
            f"two columns of the frame have the same name, {twice!r}; rename one"
        ) from None
    for name in frame.columns:
        if not isinstance(name, str):
            remedy = "join the levels of its header" if isinstance(name, tuple) else "rename it"
            raise InputError(
                f"the frame has a column named {name!r}; names must be text: {remedy}, such as "
                "table.columns = [str(name) for name in table.columns]"
            )
    columns = {name: frame[name] for name in frame.columns}
    return Table(columns, len(frame), source)


def _from_mapping(source: Mapping[Any, Any]) -> Table:
    columns: dict[str, np.ndarray] = {}
    _refuse_unaligned(source)
    for key, values in source.items():
        name = str(key)
        if name in columns:
            raise InputError(
                f"two columns of the mapping are named '{name}'; rename one", column=name
            )
        columns[name] = _array(name, values)
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"the columns differ in length: {lengths}; each needs one value per row")
    return Table(columns, next(iter(lengths.values()), 0))


def _refuse_unaligned(source: Mapping[Any, Any]) -> None:
    """Refuse pandas series whose indexes differ: their values are taken in order, not by index."""
    indexes: dict[str, Any] = {
        str(name): values.index
        for name, values in source.items()
        if hasattr(getattr(values, "index", None), "equals")
    }
    first = next(iter(indexes), "")
    for name, index in indexes.items():
        if len(index) == len(indexes[first]) and not index.equals(indexes[first]):
            raise InputError(
                f"columns '{first}' and '{name}' of the mapping have different indexes; make them "
                "a frame with pandas.DataFrame(table), or give their .to_numpy()",
                column=name,
            )


def _array(name: str, values: Any) -> Shaped[np.ndarray, " rows"]:
    """One column of a mapping; a list that mixes text and others keeps its objects."""
    try:
        array = unmasked(values)
    except ValueError:  # lists of several lengths
        raise InputError(
            f"column '{name}' has lists in its cells; each column needs one value per row",
            column=name,
        ) from None
    if array.ndim != 1:
        what = f"has shape {array.shape}" if array.ndim else f"is of type {type(values).__name__}"
        raise InputError(
            f"column '{name}' {what}; each column needs one value per row, as a list or an array",
            column=name,
        )
    plain = array.dtype.kind != "U" or not isinstance(values, (list, tuple))
    if plain or all(isinstance(value, str) for value in values):
        return array
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _no_table(source: Any) -> str:
    """Why this is not a table, and what to do."""
    kind = type(source).__name__
    if hasattr(source, "collect"):
        return f"cannot read choices from a {kind}, which is not computed yet; call its .collect()"
    if hasattr(source, "toarray"):
        return (
            f"cannot read choices from a sparse matrix ({kind}); give table.toarray(), or a frame "
            "with named columns"
        )
    if isinstance(source, (list, tuple)) and source and isinstance(source[0], (str, Path)):
        return (
            f"cannot read choices from a {kind} of paths; read each with polars.read_csv or "
            "read_parquet and give polars.concat of the frames"
        )
    if isinstance(source, (list, tuple)):
        records = source and isinstance(source[0], Mapping)
        remedy = "polars.DataFrame(table)" if records else "numpy.asarray(table)"
        return f"cannot read choices from a {kind}; make it a table with {remedy}"
    return (
        f"cannot read choices from {kind}; give a path to Parquet or CSV, a Polars or pandas "
        "frame, a mapping of arrays, or an array with set= and chosen= vectors"
    )


def require_column(name: str, role: str, names: Collection[str], native: Any = None) -> None:
    """Refuse a column that is not among the table's; ``native`` is its frame, if it is one.

    >>> require_column("Price", "item", ["trip", "price"])
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: item column 'Price' is not in the table; it has: trip, price; did \
you mean 'price'?
    """
    if name not in names:
        shown = name if len(name) <= 60 else f"{name[:57]}..."
        raise InputError(
            f"{role} column '{shown}' is not in the table; it has: {listed(list(names))}; "
            f"{meant(name, names, native)}",
            column=name,
        )


def meant(name: str, names: Collection[str], native: Any = None) -> str:
    """What may have been meant by the name of a column that is not there, and what to do."""
    if name in getattr(getattr(native, "index", None), "names", ()):
        return f"{name} is in the frame's index: call reset_index() first"
    plain = {one.strip().casefold(): one for one in reversed(list(names))}
    close = difflib.get_close_matches(name.strip().casefold(), plain, n=1, cutoff=0.75)
    if close:
        return f"did you mean {plain[close[0]]!r}?"
    parts = [one.strip() for one in re.split(r"[,;+]", name)]
    if len(parts) > 1 and all(one in names for one in parts):
        return f"give several columns as a list, {parts} (in a command, {','.join(parts)})"
    return "name one of them"


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names for people: in quotes where a space or comma could hide where one ends.

    >>> listed(["trip", "unit price"])
    "trip, 'unit price'"
    """
    shown = [name if re.fullmatch(r"[^\s,;'\"]+", name) else repr(name) for name in names[:most]]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(shown) + more
