"""Predictions for files of any size: bounded memory, the file's order, all or nothing.

Where the rows of every set lie side by side, a Parquet file flows through once, after a look at its
set column that tells where sets begin: each chunk is read, scored and written while its neighbours
are. Where sets are scattered, predictions are kept on disk by row number until all are there, and
the file is read again next to them.
"""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from setwise import _segments
from setwise._arguments import path as check_path
from setwise._errors import InputError
from setwise._executor import in_threads
from setwise._files import cannot_write, check_writable, is_of_disk, scratch_folder, whole_file
from setwise._shapes import Int
from setwise.choices import Choices, Schema, open_choices, read_like
from setwise.choices.reading import is_wide
from setwise.choices.stored import SUFFIX
from setwise.scoring.scorer import ADDED, Predictions, RowModel, warn_of_replaced
from setwise.scoring.wide_tables import predict_wide

ROWS_PER_CHUNK = 250_000
"""If the rows of a set are adjacent. Several chunks are in memory, one per thread."""
ROWS_PER_PASS = 2_000_000
"""If the rows of a set are scattered. Each part takes a pass over the file."""
ROWS_PER_PART = 2_000_000
"""When predictions are kept on disk."""
PARQUET = {"compression": "zstd", "compression_level": 1}
"""Half the work of Polars's own choice for files of the same size."""

OnRows = Callable[[int, int], None]
"""Called with the number of rows done and the number in all."""


def predictions(
    model: RowModel, source: Path, rows: Int[np.ndarray, " rows"], frame: Any
) -> Predictions:
    """Predictions for a frame with these rows of the file, in the frame's order."""
    with naming_rows_of(source, rows):
        return Predictions.of_choices(model, read_like(model.schema, frame))


@contextmanager
def naming_rows_of(source: Path, rows: Int[np.ndarray, " rows"]) -> Iterator[None]:
    """Errors about a row of a chunk become errors about that row of the file."""
    try:
        yield
    except InputError as error:
        raise error.within(source, rows) from error


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
        for begin in range(0, self.rows, ROWS_PER_CHUNK):
            hashes = self._collect(ids.slice(begin, ROWS_PER_CHUNK)).to_series().to_numpy()
            starts = np.flatnonzero(hashes[1:] != hashes[:-1]) + 1
            if hashes[0] != last:
                starts = np.concatenate([[0], starts])
            last = hashes[-1]
            runs.append(hashes[starts])
            count += len(starts)
            final = begin + ROWS_PER_CHUNK >= self.rows
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
        parts = -(-self.rows // ROWS_PER_PASS)
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


class PredictionStore:
    """Keeps the predictions of a file's rows on disk; they may come in any order."""

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
        for begin in range(0, self._rows, ROWS_PER_PART):
            part = slice(begin, begin + ROWS_PER_PART)
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
            for begin in range(0, self._rows, ROWS_PER_PART):
                file.write(np.zeros(min(ROWS_PER_PART, self._rows - begin), dtype).tobytes())


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

    with whole_file(out) as part:
        try:
            if out.suffix.lower() == ".csv":
                table.sink_csv(part)
            else:
                table.sink_parquet(part, **PARQUET)
        except pl.exceptions.PolarsError as error:
            if is_of_disk(error):  # and not of the table
                raise
            reason = str(error).splitlines()[0]
            raise InputError(f"cannot write {out}: {reason}; change the table's columns") from error


def predict_file(
    model: Any, source: str | Path, out: str | Path, on_rows: OnRows | None = None
) -> int:
    """Write a file's rows with columns ``probability`` and ``predicted``; returns their number.

    The numbers are those of the estimator's ``predict_proba`` and ``predict`` for the whole table,
    up to the rounding of float32. A few hundred thousand rows per core are in memory at a time, or
    the largest set. Where the rows of sets are scattered over the file, two million rows are, and
    the model's columns are read once for every two million rows.

    Args:
        model: a fitted estimator, or a :class:`setwise.scoring.Scorer`, which is faster and needs
            no JAX; ``setwise predict`` uses a scorer where the model file has a graph.
        source: a Parquet file with the columns of the training table (of a wide one, the columns
            that :func:`predict_wide` adds are written); or a ``.setwise-data``
            file, for which each row has the set's id and the item's ``position`` in the set.
        out: the Parquet or CSV file to write, whole or not at all.
        on_rows: called after each chunk with the number of rows done and the number in all.

    >>> import tempfile, polars as pl, setwise as sw
    >>> drawn = sw.datasets.generate("mnl", sets=100, seed=0)
    >>> model = sw.MNL().fit(drawn.choices)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     drawn.table.write_parquet(f"{folder}/trips.parquet")
    ...     rows = predict_file(model, f"{folder}/trips.parquet", f"{folder}/predictions.parquet")
    ...     written = pl.read_parquet(f"{folder}/predictions.parquet")
    >>> rows == len(drawn.table), written.columns[-2:], written["predicted"].sum()
    (True, ['probability', 'predicted'], 100)
    """
    _check_model(model)
    check_path("source", source)
    check_path("out", out)
    source, out = Path(source), Path(out)
    _check_paths(source, out)
    write = _choices if source.suffix.lower() == SUFFIX else _parquet
    try:
        return write(model, source, out, on_rows or _ignore_progress)
    except Exception as error:
        if isinstance(error, InputError) or not (isinstance(error, OSError) or is_of_disk(error)):
            raise
        raise cannot_write(out, error) from error


def _ignore_progress(done: int, total: int) -> None:
    """Report progress to no one."""


def _check_model(model: Any) -> None:
    if not hasattr(type(model), "row_log_probabilities"):
        raise InputError(
            f"model must be a fitted estimator or a Scorer, not {type(model).__name__}; read a "
            "model file with setwise.scoring.load_scorer(path)"
        )
    _ = model.schema  # an estimator that is not fitted is refused here


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
    if is_wide(model.schema.roles, table.names):
        write_frames(_row_by_row(model, table, tell), out)
        return table.rows
    with naming_rows_of(source, np.zeros(1, np.int64)):
        read_like(model.schema, table.first_row())  # says which columns the file lacks
    warn_of_replaced(table.names)
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
        return predictions(model, table.path, rows, table.used(frame)).joined_to(frame)

    frames = in_threads(finished, pairwise(cuts), threads=min(8, os.cpu_count() or 1))
    for frame, end in zip(frames, cuts[1:], strict=True):
        tell(end, table.rows)
        yield frame


def _row_by_row(model: RowModel, table: ParquetTable, tell: OnRows) -> Generator[Any, None, None]:
    """Frames of a wide table and its predictions: each row is a set."""
    begins = range(0, max(table.rows, 1), ROWS_PER_CHUNK)
    for begin in begins:
        end = min(begin + ROWS_PER_CHUNK, table.rows)
        with naming_rows_of(table.path, np.arange(begin, end)):
            frame = predict_wide(model, table.between(begin, end))
        tell(end, table.rows)
        yield frame


def _scattered(model: RowModel, table: ParquetTable, out: Path, tell: OnRows) -> None:
    import polars as pl

    with scratch_folder(out) as scratch:
        kept, done = PredictionStore(scratch, table.rows), 0
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
