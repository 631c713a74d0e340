"""Tables in and out of files, for the commands."""

from pathlib import Path
from typing import Any

from setwise import datasets
from setwise._errors import InputError
from setwise._files import check_writable, whole_file
from setwise.choices.tables import read_file


def read_table(name: str) -> Any:
    """A Polars frame from a file, or a shipped data set by name."""
    if name in datasets.names() and not Path(name).exists():
        return datasets.table(name)
    return read_file(Path(name))


def write_table(frame: Any, path: Path) -> None:
    """Write a frame as Parquet or CSV, whole or not at all; None only checks the path."""
    suffix = path.suffix.lower()
    if suffix not in (".parquet", ".csv"):
        raise InputError(f"cannot write {path}: name a file that ends in .parquet or .csv")
    check_writable(path)
    if frame is None:
        return
    with whole_file(path) as beside:
        frame.write_parquet(beside) if suffix == ".parquet" else frame.write_csv(beside)
