"""Frames on their way into a file, which appears whole or not at all."""

from collections.abc import Generator, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from setwise._errors import InputError
from setwise._files import is_of_disk, whole_file

PARQUET = {"compression": "zstd", "compression_level": 1}
"""Half the work of Polars's own choice for files of the same size."""


def write_frames(frames: Generator[Any, None, None], out: Path) -> None:
    """Write frames one after another; one is written while the next is made.

    >>> import tempfile, polars as pl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = Path(folder) / "numbers.parquet"
    ...     write_frames((pl.DataFrame({"n": [n]}) for n in range(3)), out)
    ...     pl.read_parquet(out)["n"].to_list()
    [0, 1, 2]
    """
    from polars.io.plugins import register_io_source

    failures: list[Exception] = []
    first = next(frames)

    def batches(*_: Any) -> Iterator[Any]:
        try:
            yield from chain([first], frames)
        except Exception as error:
            failures.append(error)
            raise

    try:
        write_lazy(register_io_source(batches, schema=first.schema), out)
    except Exception:
        if failures:  # what Polars makes of an error is another error, in other words
            raise failures[0] from None
        raise
    finally:
        frames.close()


def write_lazy(table: Any, out: Path) -> None:
    """Let a lazy frame flow into a Parquet or CSV file."""
    import polars as pl

    with whole_file(out) as beside:
        try:
            if out.suffix.lower() == ".csv":
                table.sink_csv(beside)
            else:
                table.sink_parquet(beside, **PARQUET)
        except pl.exceptions.PolarsError as error:
            if is_of_disk(error):  # and not of the table
                raise
            reason = str(error).splitlines()[0]
            raise InputError(f"cannot write {out}: {reason}; change the table's columns") from error
