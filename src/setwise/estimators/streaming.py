"""Predictions for files of any size: bounded memory, the file's order, all or nothing.

A Parquet file is gone through three times, never as a whole: its set column, to learn where sets
begin; the model's columns, with the predictions kept on disk by row number; and all its columns
beside the predictions, on their way to the output.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from setwise._errors import InputError
from setwise._files import check_writable, whole_file
from setwise.choices import Encoded, open_choices
from setwise.choices.stored import SUFFIX
from setwise.estimators.base import Estimator
from setwise.estimators.parquet import ROWS_A_CHUNK, ParquetTable
from setwise.metrics import predicted

ADDED = ("probability", "predicted")
# How errors of reading and encoding name a row, and that others follow.
ROW = re.compile(r"(at |\(|; )row (\d+)( \(and )?")

OnRows = Callable[[int, int], None]


def predict_file(
    estimator: Estimator, source: str | Path, out: str | Path, on_rows: OnRows | None = None
) -> int:
    """Write a file's rows with columns ``probability`` and ``predicted``; returns their number.

    The numbers are those of ``estimator.predict_proba`` and ``estimator.predict`` for the whole
    table, up to the rounding of float32. Two million rows are in memory at a time, or the largest
    set. Where the rows of sets are scattered over the file, the model's columns are read once for
    every two million rows.

    Args:
        estimator: a fitted model.
        source: a Parquet file with the columns of the training table; or a ``.setwise-data``
            file, for which each row has the set's id and the item's ``position`` in the set.
        out: the Parquet or CSV file to write, whole or not at all.
        on_rows: called with the rows done and in all, after each chunk.

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
    source, out = Path(source), Path(out)
    _check_paths(source, out)
    estimator._check_fitted()
    stream = _from_choices if source.suffix.lower() == SUFFIX else _from_parquet
    try:
        with TemporaryDirectory(prefix=".setwise-predict-", dir=out.parent) as scratch:
            rows, table = stream(estimator, source, Path(scratch), on_rows or _tell_nobody)
            _write(table, out)
    except OSError as error:
        raise InputError(
            f"cannot write {out}: {error}; make room or choose another place"
        ) from error
    return rows


def _tell_nobody(done: int, total: int) -> None:
    """Progress that nobody watches."""


def _check_paths(source: Path, out: Path) -> None:
    if out.suffix.lower() not in (".parquet", ".csv"):
        raise InputError(f"cannot write {out}: name a file that ends in .parquet or .csv")
    check_writable(out)
    if source.suffix.lower() not in (".parquet", SUFFIX):
        raise InputError(f"{source} is neither .parquet nor {SUFFIX}; convert it to Parquet")
    if not source.exists():
        raise InputError(f"there is no file {source}; check the path")
    if source.is_dir():
        raise InputError(f"{source} is a folder; name a Parquet file in it")
    if out.exists() and out.samefile(source):
        raise InputError(f"{out} is the table itself; write the predictions to another file")


def _from_parquet(
    estimator: Estimator, source: Path, scratch: Path, tell: OnRows
) -> tuple[int, Any]:
    """The number of rows, and a lazy frame of the file's columns beside the predictions."""
    import polars as pl

    table = ParquetTable(source, estimator.schema_)
    with _naming_rows_of(source, np.zeros(1, np.int64)):
        estimator.read(table.first_row())  # says which columns the file lacks
    kept, done = _Kept(scratch, table.rows), 0
    for rows, frame in table.chunks():
        with _naming_rows_of(source, rows):
            choices = estimator.read(frame)
            probability, best = _predictions(estimator, estimator.schema_.encode(choices))
        kept.put(rows[choices.rows], {"probability": probability, "predicted": best})
        done += len(rows)
        tell(done, table.rows)
    own = [name for name in table.names if name not in ADDED]
    new = [name for name in ADDED if name not in table.names]
    joined = pl.concat([table.scan.select(own), kept.scan()], how="horizontal")
    return table.rows, joined.select([*table.names, *new])


def _from_choices(
    estimator: Estimator, source: Path, scratch: Path, tell: OnRows
) -> tuple[int, Any]:
    """The number of rows, and a lazy frame of sets, positions within them and predictions."""
    import polars as pl

    choices = open_choices(source)
    if choices.roles.set in ("position", *ADDED):
        raise InputError(
            f"the set column of {source} is named '{choices.roles.set}', as a column of the "
            "predictions is; rename it in the table and make the file again"
        )
    total, done = int(choices.offsets[-1]), 0
    paths: list[Path] = []
    for part in estimator.schema_.over(choices).blocks():
        block = part.choices
        probability, best = _predictions(estimator, part.encoded())
        sets = np.repeat(np.arange(len(block)), block.sizes)
        columns = {
            choices.roles.set: block.set_ids[sets],
            "position": np.arange(len(sets)) - block.offsets[sets],
            "probability": probability,
            "predicted": best.astype(np.int64),
        }
        paths.append(scratch / f"{len(paths)}.parquet")
        pl.DataFrame(columns).write_parquet(paths[-1])
        done += len(sets)
        tell(done, total)
    return total, pl.scan_parquet(paths)


def _predictions(
    estimator: Estimator, encoded: Encoded
) -> tuple[Float[np.ndarray, " rows"], Bool[np.ndarray, " rows"]]:
    """P(x | s) and whether x is the predicted item, of every row but the outside options.

    Scores are computed once for both, which takes half the time of asking for each.
    """
    scores, real = estimator._log_probabilities(encoded), estimator._real_rows(encoded)
    return np.exp(scores[real]), predicted(scores, encoded.offsets)[real]


class _Kept:
    """Predictions of a file's rows, kept on disk; they may come in any order."""

    def __init__(self, folder: Path, rows: int):
        self._folder = folder
        self._rows = rows
        self._types: dict[str, np.dtype] = {}

    def put(self, places: Int[np.ndarray, " n"], values: Mapping[str, np.ndarray]) -> None:
        """Keep these values for the rows at these places."""
        for name, array in values.items():
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
        for begin in range(0, self._rows, ROWS_A_CHUNK):
            part = slice(begin, begin + ROWS_A_CHUNK)
            columns = {name: self._map(name)[part] for name in ADDED}
            frame = pl.DataFrame(columns).with_columns(pl.col("predicted").cast(pl.Int64))
            paths.append(self._folder / f"{begin}.parquet")
            frame.write_parquet(paths[-1])
        return pl.scan_parquet(paths)

    def _map(self, name: str) -> np.ndarray:
        return np.memmap(self._folder / name, self._types[name], "r")

    def _reserve(self, path: Path, dtype: np.dtype) -> None:
        """Fill the file first: a full disk is an error here, but ends the process in a map."""
        with open(path, "wb") as file:
            for begin in range(0, self._rows, ROWS_A_CHUNK):
                file.write(np.zeros(min(ROWS_A_CHUNK, self._rows - begin), dtype).tobytes())


def _write(table: Any, out: Path) -> None:
    """Let a lazy frame flow into a file, which appears whole or not at all."""
    import polars as pl

    with whole_file(out) as beside:
        try:
            table.sink_csv(beside) if out.suffix.lower() == ".csv" else table.sink_parquet(beside)
        except pl.exceptions.PolarsError as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"cannot write {out}: {reason}; change the table's columns") from error


@contextmanager
def _naming_rows_of(source: Path, rows: Int[np.ndarray, " rows"]) -> Iterator[None]:
    """Errors about a row of a chunk become errors about that row of the file."""

    def in_the_file(match: re.Match[str]) -> str:
        more = " (and at least " if match[3] else ""  # later chunks may have more of them
        return f"{match[1]}row {rows[int(match[2])]}{more}"

    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {ROW.sub(in_the_file, str(error))}") from error
