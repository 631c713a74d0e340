"""Tables in files: Parquet and CSV, read with Polars, which is imported when a file is read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from setwise._errors import InputError
from setwise.choices.stored import SUFFIX

ROWS_TO_LOOK_AT = 10_000


def read_file(path: Path) -> Any:
    """A Polars frame from a Parquet or CSV file."""
    try:
        import polars as pl
    except ImportError:
        raise InputError(
            f"reading {path} needs the package polars: pip install polars, or give a mapping of "
            "arrays"
        ) from None
    if not path.exists():
        raise InputError(f"there is no file {path}; check the path")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a Parquet or CSV file in it")
    suffix = path.suffix.lower()
    if suffix == SUFFIX:
        raise InputError(f"{path} is a data file, not a table; open it with setwise.open_choices")
    if suffix not in (".parquet", ".csv", ".gz"):
        raise InputError(f"{path} is neither .parquet nor .csv; convert it to one of them")
    with readable(path):
        return pl.read_parquet(path, glob=False) if suffix == ".parquet" else _read_csv(path)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Errors of reading a file as one sentence that names it."""
    import polars as pl

    try:
        yield
    except pl.exceptions.NoDataError:
        raise InputError(f"{path} is empty; a table needs a header and at least one set") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{path} cannot be read as a table: {reason}; write it again as Parquet or CSV"
        ) from error


def _read_csv(path: Path) -> Any:
    """A Polars frame of a CSV file, whose columns have the types that all of their rows allow.

    A column may be whole for long before its first 1.5. To look at all rows before reading takes
    minutes with millions of them, so the first are looked at, and all only if that was not enough.
    """
    import polars as pl

    def read(rows: int | None) -> Any:
        return pl.read_csv(path, glob=False, try_parse_dates=True, infer_schema_length=rows)

    try:
        frame = read(ROWS_TO_LOOK_AT)
    except pl.exceptions.ComputeError:
        return read(None)
    looked_at = frame.head(ROWS_TO_LOOK_AT)
    late = [  # what begins with gaps alone looks like text
        name
        for name in frame.columns
        if looked_at[name].null_count() == len(looked_at) and frame[name].null_count() < len(frame)
    ]
    return read(None) if late else frame
