"""Predictions kept on disk by row number, for files whose sets are scattered.

Frames on their way into a file, which appears whole or not at all.

Predictions for files of any size: bounded memory, the file's order, all or nothing.

Where the rows of every set lie side by side, a Parquet file flows through once, after a look at its
set column that tells where sets begin: each chunk is read, scored and written while its neighbours
are. Where sets are scattered, predictions are kept on disk by row number until all are there, and
the file is read again beside them.
"""

from collections.abc import Generator, Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from setwise import _segments
from setwise._errors import InputError
from setwise._files import cannot_write, check_writable, is_of_disk, scratch_beside, whole_file
from setwise._shapes import Int
from setwise.choices import Choices, open_choices, read_like
from setwise.choices.stored import SUFFIX
from setwise.scoring.parquet_parts import ParquetTable
from setwise.scoring.prediction_rows import (
    OnRows,
    Predictions,
    RowModel,
    in_threads,
    naming_rows_of,
    predictions,
)

ROWS_A_PART = 2_000_000


class Kept:
    """Predictions of a file's rows, kept on disk; they may come in any order."""

    def __init__(self, folder: Path, rows: int):
        self._folder = folder
        self._rows = rows
        self._types: dict[str, np.dtype] = {}

    def put(self, places: Int[np.ndarray, " n"], values: Predictions) -> None:
        """Keep these values for the rows at these places."""
        for name, array in values._asdict().items():
            path = self._folder / name
            if name not in self._types:
                self._types[name] = array.dtype
                self._reserve(path, array.dtype)
            # Opened anew each time: pages of a map that stays open count as this process's memory.
            np.memmap(path, array.dtype, "r+")[places] = array

    def scan(self) -> Any:
        """A lazy frame of what was kept, in the order of rows."""
        import polars as pl

        paths = []
        for begin in range(0, self._rows, ROWS_A_PART):
            part = slice(begin, begin + ROWS_A_PART)
            columns = {name: self._map(name)[part] for name in Predictions._fields}
            frame = pl.DataFrame(columns).with_columns(pl.col("predicted").cast(pl.Int64))
            paths.append(self._folder / f"{begin}.parquet")
            frame.write_parquet(paths[-1], compression="uncompressed")
        return pl.scan_parquet(paths)

    def _map(self, name: str) -> np.ndarray:
        return np.memmap(self._folder / name, self._types[name], "r")

    def _reserve(self, path: Path, dtype: np.dtype) -> None:
        """Fill the file first: a full disk is an error here, but ends the process in a map."""
        with open(path, "wb") as file:
            for begin in range(0, self._rows, ROWS_A_PART):
                file.write(np.zeros(min(ROWS_A_PART, self._rows - begin), dtype).tobytes())


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


ADDED = Predictions._fields


def predict_file(
    model: RowModel, source: str | Path, out: str | Path, on_rows: OnRows | None = None
) -> int:
    """Write a file's rows with columns ``probability`` and ``predicted``; returns their number.

    The numbers are those of the estimator's ``predict_proba`` and ``predict`` for the whole table,
    up to the rounding of float32. A few hundred thousand rows a core are in memory at a time, or
    the largest set. Where the rows of sets are scattered over the file, two million rows are, and
    the model's columns are read once for every two million rows.

    Args:
        model: a fitted model: :func:`setwise.scoring.load` reads one.
        source: a Parquet file with the columns of the training table; or a ``.setwise-data``
            file, for which each row has the set's id and the item's ``position`` in the set.
        out: the Parquet or CSV file to write, whole or not at all.
        on_rows: called with the rows done and in all, after each chunk.

    >>> import tempfile, polars as pl, setwise as sw
    >>> drawn = sw.datasets.generate("mnl", sets=100, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sw.MNL().fit(drawn.choices).save(f"{folder}/trips.setwise")
    ...     scorer = sw.scoring.load(f"{folder}/trips.setwise")
    ...     drawn.table.write_parquet(f"{folder}/trips.parquet")
    ...     rows = predict_file(scorer, f"{folder}/trips.parquet", f"{folder}/predictions.parquet")
    ...     written = pl.read_parquet(f"{folder}/predictions.parquet")
    >>> rows == len(drawn.table), written.columns[-2:], written["predicted"].sum()
    (True, ['probability', 'predicted'], 100)
    """
    source, out = Path(source), Path(out)
    _check_paths(source, out)
    write = _choices if source.suffix.lower() == SUFFIX else _parquet
    try:
        return write(model, source, out, on_rows or _tell_nobody)
    except Exception as error:
        if isinstance(error, InputError) or not (isinstance(error, OSError) or is_of_disk(error)):
            raise
        raise cannot_write(out, error) from error


def _tell_nobody(done: int, total: int) -> None:
    """Progress that nobody watches."""


def _check_paths(source: Path, out: Path) -> None:
    if out.suffix.lower() not in (".parquet", ".csv"):
        raise InputError(f"cannot write {out}: name a file that ends in .parquet or .csv")
    check_writable(out, reads=[source])
    if source.suffix.lower() not in (".parquet", SUFFIX):
        raise InputError(f"{source} is neither .parquet nor {SUFFIX}; convert it to Parquet")
    if not source.exists():
        raise InputError(f"there is no file {source}; check the path")
    if source.is_dir():
        raise InputError(f"{source} is a folder; name a Parquet file in it")


def _parquet(model: RowModel, source: Path, out: Path, tell: OnRows) -> int:
    table = ParquetTable(source, model.schema)
    with naming_rows_of(source, np.zeros(1, np.int64)):
        read_like(model.schema, table.first_row())  # says which columns the file lacks
    cuts = table.cuts()
    if cuts is None:
        _scattered(model, table, out, tell)
    else:
        write_frames(_side_by_side(model, table, cuts, tell), out)
    return table.rows


def _side_by_side(
    model: RowModel, table: ParquetTable, cuts: list[int], tell: OnRows
) -> Generator[Any, None, None]:
    """Frames of the file's columns and the predictions, in the file's order."""

    def finished(chunk: tuple[int, int]) -> Any:
        frame = table.between(*chunk)
        rows = np.arange(*chunk)
        return predictions(model, table.path, rows, table.used(frame)).beside(frame)

    for frame, end in zip(in_threads(finished, pairwise(cuts)), cuts[1:], strict=True):
        tell(end, table.rows)
        yield frame


def _scattered(model: RowModel, table: ParquetTable, out: Path, tell: OnRows) -> None:
    import polars as pl

    with scratch_beside(out) as scratch:
        kept, done = Kept(scratch, table.rows), 0
        for rows, frame in table.gathered():
            kept.put(rows, predictions(model, table.path, rows, frame))
            done += len(rows)
            tell(done, table.rows)
        own = [name for name in table.names if name not in ADDED]
        new = [name for name in ADDED if name not in table.names]
        joined = pl.concat([table.scan.select(own), kept.scan()], how="horizontal")
        write_lazy(joined.select([*table.names, *new]), out)


def _choices(model: RowModel, source: Path, out: Path, tell: OnRows) -> int:
    choices = open_choices(source)
    if choices.roles.set in ("position", *ADDED):
        raise InputError(
            f"the set column of {source} is named '{choices.roles.set}', as a column of the "
            "predictions is; rename it in the table and make the file again"
        )
    write_frames(_set_by_set(model, choices, tell), out)
    return int(choices.offsets[-1])


def _set_by_set(model: RowModel, choices: Choices, tell: OnRows) -> Generator[Any, None, None]:
    """Frames of sets, positions within them and predictions."""
    import polars as pl

    done = 0
    for part in model.schema.over(choices).blocks():
        block, found = part.choices, Predictions.of(model, part.encoded())
        sets = _segments.owners(block.offsets)
        columns = {
            choices.roles.set: block.set_ids[sets],
            "position": np.arange(len(sets)) - block.offsets[sets],
            "probability": found.probability,
            "predicted": found.predicted.astype(np.int64),
        }
        done += len(sets)
        tell(done, int(choices.offsets[-1]))
        yield pl.DataFrame(columns)
