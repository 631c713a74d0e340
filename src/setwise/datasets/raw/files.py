"""Raw files as they are downloaded: found in a folder, opened, and read with strict types.

A CSV may be plain, ``.gz`` or inside a ``.zip``, and is read as a stream of blocks of whole lines:
nothing is unpacked on disk, and only one block of text is in memory. A block is first read at full
speed; if anything in it is not as it must be, :mod:`setwise.datasets.raw.faults` finds the line.
"""

import gzip
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from setwise._errors import InputError
from setwise.datasets.raw.faults import explain, first_bad_line
from setwise.datasets.raw.fields import Field, check_names, filled, header_of, parse_block, typed

BLOCK = 16 * 2**20
OnStep = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows of a raw table, one array a column; text stays a Polars series."""

    columns: Mapping[str, Any]
    first: int  # the number of the first row among the table's rows, from 0

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


@dataclass(frozen=True)
class RawFile:
    """One raw table: a CSV (plain, ``.gz``, a member of a ``.zip``) or a Parquet file."""

    path: Path
    member: str | None = None

    @property
    def is_parquet(self) -> bool:
        """True for Parquet, whose rows have no lines."""
        return self.path.suffix.lower() == ".parquet"

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path} ({self.member})"

    def fault(self, row: int, column: str, reason: str, remedy: str) -> InputError:
        """The error for a row (from 0): its line as an editor shows it, its column, a remedy."""
        place = f"row {row} (from 0)" if self.is_parquet else f"line {row + 2}"
        return InputError(f"{self}, {place}, column '{column}': {reason}; {remedy}")

    def chunks(self, fields: Mapping[str, Field]) -> Iterator[Chunk]:
        """The wanted columns, some millions of rows at a time, with every value checked."""
        found = 0
        for chunk in self._parquet(fields) if self.is_parquet else self._csv(fields):
            found += 1
            yield chunk
        if not found:
            raise InputError(
                f"{self} has columns but no rows (it ends after line 1); download it again"
            )

    def read(self, fields: Mapping[str, Field]) -> dict[str, Shaped[np.ndarray, " rows"]]:
        """The wanted columns whole, as arrays."""
        parts: dict[str, list[Any]] = {name: [] for name in fields}
        for chunk in self.chunks(fields):
            for name, values in chunk.columns.items():
                parts[name].append(values)
        return {name: np.concatenate(parts.pop(name)) for name in fields}

    def _csv(self, fields: Mapping[str, Field]) -> Iterator[Chunk]:
        with self._opened() as stream, closing(_ahead(_blocks(stream))) as blocks:
            first = self._next(blocks, 0)
            if first is None or first.isspace():
                raise InputError(f"{self} is empty: line 1 must be a header; download it again")
            line, _, rest = first.partition(b"\n")
            header = header_of(line, f"{self}, line 1")
            check_names(header, fields, f"{self}, line 1")
            row = 0
            block: bytes | None = rest
            while block is not None:
                following = self._next(blocks, row + 1)
                if following is None:
                    block = block.rstrip(b"\r\n")  # blank lines at the end are no rows
                if block:
                    chunk = self._chunk(block, header, fields, row)
                    yield chunk
                    row += len(chunk)
                block = following

    def _chunk(
        self, block: bytes, header: list[str], fields: Mapping[str, Field], row: int
    ) -> Chunk:
        parsed = parse_block(block, header, fields)
        if parsed is None:
            at, line = first_bad_line(block, lambda part: parse_block(part, header, fields) is None)
            column, reason, remedy = explain(line, header, fields)
            raise self.fault(row + at, column, reason, remedy)
        return Chunk({name: filled(parsed[name], field) for name, field in fields.items()}, row)

    def _next(self, blocks: Iterator[bytes], lines: int) -> bytes | None:
        """The next block; a damaged archive is an error that says how far it could be read."""
        try:
            return next(blocks, None)
        except (zlib.error, zipfile.BadZipFile, EOFError, OSError) as error:
            raise InputError(
                f"{self} is damaged or cut off: {error} (it reads well up to about line "
                f"{lines}, in every column); download it again"
            ) from None

    @contextmanager
    def _opened(self) -> Iterator[BufferedIOBase]:
        with ExitStack() as stack:
            try:
                if self.member is not None:
                    archive = stack.enter_context(zipfile.ZipFile(self.path))
                    stream: Any = archive.open(self.member)
                elif self.path.suffix.lower() == ".gz":
                    stream = gzip.GzipFile(self.path)
                else:
                    stream = open(self.path, "rb")  # noqa: SIM115 (the stack closes it)
            except (OSError, RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
                # zipfile says RuntimeError for encrypted members.
                raise InputError(f"{self} cannot be opened: {error}; unpack it by hand") from None
            yield stack.enter_context(stream)

    def _parquet(self, fields: Mapping[str, Field]) -> Iterator[Chunk]:
        import polars as pl

        try:
            check_names(list(pl.read_parquet_schema(self.path)), fields, str(self))
            frame = pl.read_parquet(self.path, columns=list(fields), glob=False)
        except (pl.exceptions.PolarsError, OSError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"{self} cannot be read as Parquet: {reason}; download it again"
            ) from None
        columns = {}
        for name, field in fields.items():
            column, bad = typed(frame[name], field)
            if bad is not None:
                value = frame[name][bad]
                reason = "is missing" if value is None else f"{value!r} is not {field.words}"
                raise self.fault(bad, name, reason, "correct the value")
            columns[name] = filled(column, field)
        if frame.height:
            yield Chunk(columns, 0)


def find_file(folder: str | Path, name: str) -> RawFile:
    """The raw table ``name`` (such as ``train.csv``): a file itself, or in a folder.

    In a folder it may be plain, ``name.zip``, ``name.gz``, ``stem.zip``, ``stem.parquet``, or a
    member of another zip there; the first of these is taken.

    >>> find_file("no/such/folder", "train.csv")
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: there is no file or folder no/such/folder; check the path
    """
    folder = Path(folder)
    if folder.is_file():
        return _opened_as(folder, name)
    if not folder.is_dir():
        raise InputError(f"there is no file or folder {folder}; check the path")
    stem = Path(name).stem
    for candidate in (name, f"{name}.zip", f"{name}.gz", f"{stem}.zip", f"{stem}.parquet"):
        if (folder / candidate).is_file():
            return _opened_as(folder / candidate, name)
    for archive in sorted(folder.glob("*.zip")):
        if zipfile.is_zipfile(archive) and (member := _member(archive, name)) is not None:
            return RawFile(archive, member)
    there = ", ".join(sorted(path.name for path in folder.iterdir())[:12]) or "nothing"
    raise InputError(
        f"{folder} has no {name} (nor {name}.zip, {name}.gz, {stem}.parquet); it has: {there}; "
        "download the file into it"
    )


def _opened_as(path: Path, name: str) -> RawFile:
    if path.suffix.lower() != ".zip":
        return RawFile(path)
    try:
        member = _member(path, name)
    except (zipfile.BadZipFile, OSError):
        raise InputError(
            f"{path} is not a whole zip: it is cut off or damaged before line 1 can be read, in "
            "every column; download it again"
        ) from None
    if member is None:
        raise InputError(f"{path} does not contain {name}; unpack it, or give its folder")
    return RawFile(path, member)


def _member(archive: Path, name: str) -> str | None:
    with zipfile.ZipFile(archive) as opened:
        names = [one for one in opened.namelist() if not one.startswith("__MACOSX/")]
    return next((one for one in names if one.rpartition("/")[2] == name), None)


def _blocks(stream: BufferedIOBase) -> Iterator[bytes]:
    """The stream in blocks of whole lines; the last line may lack its newline."""
    while block := stream.read(BLOCK):
        yield block if block.endswith(b"\n") else block + stream.readline()


def _ahead(items: Iterator[bytes]) -> Generator[bytes, None, None]:
    """The same items, each made in a thread while the one before is worked on."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item
