"""Predictions kept on disk by row number, for files whose sets are scattered."""

from pathlib import Path
from typing import Any

import numpy as np

from setwise._shapes import Int
from setwise.prediction.rows import Predictions

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
