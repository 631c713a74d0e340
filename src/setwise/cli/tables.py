"""Read and write tables, for the commands."""

from pathlib import Path
from typing import Any

from setwise import datasets
from setwise._errors import InputError
from setwise._files import Reads, check_writable, whole_file
from setwise.choices.stored import SUFFIX
from setwise.choices.table_files import CsvFormat, is_csv, is_there, read_file


def csv_format(
    table: str | None, sep: str | None, decimal: str | None, encoding: str | None
) -> CsvFormat | None:
    """How a CSV file is written, as far as options say it; an error for anything else."""
    if (sep, decimal, encoding) == (None, None, None):
        return None
    form = CsvFormat(sep, decimal, encoding)
    if table is None or is_dataset(table) or not is_csv(Path(table)):
        raise InputError("--sep, --decimal and --encoding are for CSV files; leave them out")
    return form


def read_table(name: str, form: CsvFormat | None = None) -> Any:
    """A Polars frame from a file, or a data set by name."""
    path = Path(name)
    if is_dataset(name):
        return datasets.table(name)
    if not path.suffix and len(name) < 200 and not is_there(name):
        raise InputError(
            f"there is no file or data set {name}; the data sets are: {', '.join(datasets.names())}"
        )
    return read_file(name, form)


def is_data_file(name: str | Path) -> bool:
    """Whether this names a file of choices on disk."""
    return Path(name).suffix.lower() == SUFFIX


def is_dataset(name: str) -> bool:
    """A data set's name, unless a file of the same name is there."""
    return name in datasets.names() and not Path(name).exists()


def check_table(path: Path, reads: Reads = ()) -> None:
    """Refuse a path to which no table can be written, or that the command reads."""
    if path.suffix.lower() not in (".parquet", ".csv"):
        raise InputError(f"cannot write {path}: name a file that ends in .parquet or .csv")
    check_writable(path, reads)


def write_table(frame: Any, path: Path) -> None:
    """Write a frame as Parquet or CSV, whole or not at all."""
    suffix = path.suffix.lower()
    with whole_file(path) as part:
        frame.write_parquet(part) if suffix == ".parquet" else frame.write_csv(part)
