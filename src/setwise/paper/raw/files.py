"""Raw files as they are downloaded: found in a folder, opened, and read with strict types.

A CSV may be plain, ``.gz`` or inside a ``.zip``, and is read as a stream of blocks of whole lines:
nothing is unpacked on disk, and only one block of text is in memory. A block is first read at full
speed; if anything in it is wrong, the first bad line is found, and the error names the line, the
column, the reason and the remedy.
"""

import csv
import gzip
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Int, Shaped

from setwise._errors import InputError

Type = Literal["int8", "int16", "int32", "int64", "float32", "text", "date"]
NULLS = ("NULL", "\\N")
MOMENT = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True)
class Field:
    """A wanted column: its type, what a missing value becomes (None: none may be missing), and
    the least value that it may have.

    A date is a moment such as 2013-04-04 08:32:15 and becomes ``datetime64[s]``.
    """

    type: Type
    missing: int | float | str | None = None
    least: int | None = None

    @property
    def words(self) -> str:
        """What a value of the column must be, in words."""
        if self.type.startswith("int"):
            limits = np.iinfo(self.type)
            least = limits.min if self.least is None else self.least
            return f"a whole number from {least} to {limits.max}"
        number = "a finite number" + ("" if self.least is None else f" of at least {self.least}")
        other = {"float32": number, "text": "text"}
        return other.get(self.type, "a moment like 2013-04-04 08:32:15")


def polars_type(field: Field) -> Any:
    """The Polars type in which the column is read; dates are parsed afterwards."""
    import polars as pl

    types = {
        "int8": pl.Int8, "int16": pl.Int16, "int32": pl.Int32, "int64": pl.Int64,
        "float32": pl.Float32,
    }  # fmt: skip
    return types.get(field.type, pl.String)


def header_of(line: bytes, place: str) -> list[str]:
    """The names in a header line."""
    try:
        return next(csv.reader([line.decode("utf-8-sig").rstrip("\r\n")]), [])
    except (UnicodeDecodeError, csv.Error):
        raise InputError(
            f"{place}: the header is not text with commas; if the file is packed, its name must "
            "end in .zip or .gz"
        ) from None


def check_names(names: list[str], wanted: Iterable[str], place: str) -> None:
    """Refuse a table in which a wanted column is not there, or is there twice."""
    wanted = list(wanted)
    for name in wanted:
        if names.count(name) > 1:
            raise InputError(f"{place}, column '{name}': named twice; rename one of them")
    absent = [f"'{name}'" for name in wanted if name not in names]
    if absent:
        raise InputError(
            f"{place}: there is no column {', '.join(absent)}; the columns are: "
            f"{', '.join(names[:60])}; take the file as it was published"
        )


def parse_block(
    block: bytes, header: list[str], fields: Mapping[str, Field]
) -> dict[str, Any] | None:
    """The columns of a block of whole lines, or None if any line is wrong.

    Polars fills short rows with nulls, and lets quoted text run over lines: the separators and
    lines are counted as well.
    """
    import polars as pl

    places = {name: header.index(name) for name in fields}
    schema = {f"{i}": pl.String for i in range(len(header))}
    schema |= {f"{place}": polars_type(fields[name]) for name, place in places.items()}
    # With its last column read, Polars refuses rows that are too long.
    taken = sorted({*places.values(), len(header) - 1})
    try:
        frame = pl.read_csv(
            block, has_header=False, schema=schema, columns=taken, null_values=list(NULLS)
        )
    except pl.exceptions.PolarsError:
        return None
    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    if frame.height != lines or not _whole(block, lines, len(header)):
        return None
    columns = {}
    for name, field in fields.items():
        columns[name], bad = typed(frame[f"{places[name]}"], field)
        if bad is not None:
            return None
    return columns


def _whole(block: bytes, lines: int, columns: int) -> bool:
    """Whether the lines together have as many separators as they must."""
    if b'"' not in block:
        return block.count(b",") == lines * (columns - 1)
    text = block.decode("utf-8", errors="replace").removesuffix("\n").split("\n")
    if any(line.count('"') % 2 for line in text):  # which versions of Polars take differently
        return False
    try:
        return all(len(row) == columns for row in csv.reader(text))
    except csv.Error:  # a field of more than 128 KiB
        return False


def typed(series: Any, field: Field) -> tuple[Any, int | None]:
    """A column in the field's type, and the first row whose value does not fit (None: all fit)."""
    import polars as pl

    if field.type == "date" and not series.dtype.is_temporal():
        text = series.cast(pl.String)
        result = text.str.to_datetime(MOMENT, time_unit="ms", strict=False)
    else:
        wanted = pl.Datetime("ms") if field.type == "date" else polars_type(field)
        result = series.cast(wanted, strict=False)
    bad = None
    if result.null_count() > (0 if field.missing is None else series.null_count()):
        bad = result.is_null() if field.missing is None else result.is_null() & series.is_not_null()
    elif field.type == "float32" and not result.is_finite().all():
        bad = ~result.is_finite()
    elif field.type.startswith("int") and series.dtype.is_float():
        bad = result.cast(series.dtype) != series
    elif field.least is not None:
        bad = result < field.least
    rows = [] if bad is None else bad.arg_true().to_list()
    return result, rows[0] if rows else None


def filled(series: Any, field: Field) -> Any:
    """A typed column as an array, missing values filled; text stays a Polars series."""
    if field.type == "date":
        return series.to_numpy().astype("datetime64[s]")
    if field.missing is not None and series.null_count():
        series = series.fill_null(field.missing)
    return series.rechunk() if field.type == "text" else series.to_numpy()


REPAIR = "correct or delete the line, or download the file again"


def first_bad_line(block: bytes, is_bad: Callable[[bytes], bool]) -> tuple[int, bytes]:
    """The number (from 0) and the text of the first line that makes a block of lines bad.

    Halves the block until one line is left: about as much work as reading it twice more.

    >>> first_bad_line(b"1\\n2\\nx\\n4\\ny\\n", lambda part: b"x" in part or b"y" in part)
    (2, b'x')
    """
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + 1
    if not len(ends) or ends[-1] != len(block):
        ends = np.append(ends, len(block))
    starts = np.concatenate([[0], ends[:-1]])
    low, high = 0, len(ends)
    while high - low > 1:
        middle = (low + high) // 2
        if is_bad(block[starts[low] : ends[middle - 1]]):
            high = middle
        else:
            low = middle
    return low, block[starts[low] : ends[low]].rstrip(b"\r\n")


def explain(line: bytes, header: list[str], fields: Mapping[str, Field]) -> tuple[str, str, str]:
    """The column, the reason and the remedy for a line that cannot be read.

    >>> explain(b"7,x", ["id", "clicked"], {"clicked": Field("int8")})[:2]
    ('clicked', "'x' is not a whole number from -128 to 127")
    """
    text = line.decode("utf-8", errors="replace")
    if not text:
        return header[0], "the line is empty", "delete it"
    try:
        values = next(csv.reader([text]))
    except csv.Error as error:
        return header[0], f"the line cannot be split into fields: {error}", REPAIR
    last = header[min(len(values), len(header)) - 1]
    if text.count('"') % 2:
        return last, "a quote opens and does not close", "delete the quote"
    if len(values) < len(header):
        reason = f"the line ends early: {len(values)} fields where the header has {len(header)}"
        return header[len(values)], reason, REPAIR
    if len(values) > len(header):
        reason = f"the line has {len(values)} fields where the header has {len(header)}"
        return last, reason, REPAIR
    for name, value in zip(header, values, strict=True):
        if name in fields and (reason := _unfit(value, fields[name])):
            return name, reason, REPAIR
    odd = next((i for i, value in enumerate(values) if '"' in value or "\ufffd" in value), 0)
    return header[odd], f"{values[odd][:60]!r} cannot be read", REPAIR


def _unfit(value: str, field: Field) -> str:
    """Why a value is not of the field's type; empty if it is."""
    if value in ("", *NULLS):
        return "" if field.missing is not None else "the value is missing"
    if "\ufffd" in value:
        return f"{value[:60]!r} is not UTF-8 text"
    try:
        if field.type.startswith("int"):
            limits = np.iinfo(field.type)
            least = limits.min if field.least is None else field.least
            fits = least <= int(value) <= limits.max
        elif field.type == "float32":
            number = np.float32(value)
            fits = bool(np.isfinite(number) and (field.least is None or number >= field.least))
        else:
            fits = field.type == "text" or bool(datetime.strptime(value, MOMENT))
    except ValueError:
        fits = False
    return "" if fits else f"{value[:60]!r} is not {field.words}"


def codes_of(series: Any, levels: dict[str, int]) -> Int[np.ndarray, " n"]:
    """Text (a Polars series) as codes; a level that ``levels`` does not have is added to it.

    >>> import polars as pl
    >>> levels = {"US": 0}
    >>> codes_of(pl.Series(["DE", "US", "DE"]), levels).tolist(), levels
    ([1, 0, 1], {'US': 0, 'DE': 1})
    """
    import polars as pl

    here = series.unique(maintain_order=True)
    codes = np.array([levels.setdefault(level, len(levels)) for level in here], np.int32)
    return codes[series.cast(pl.Enum(here)).to_physical().to_numpy()]


def first_repeat(values: Shaped[np.ndarray, " n"]) -> int | None:
    """The first place whose value has occurred before, or None.

    >>> first_repeat(np.array([4, 5, 4, 5]))
    2
    """
    _, firsts = np.unique(values, return_index=True)
    if len(firsts) == len(values):
        return None
    repeated = np.ones(len(values), bool)
    repeated[firsts] = False
    return int(np.argmax(repeated))


BLOCK = 16 * 2**20
OnStep = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class RawChunk:
    """Some rows of a raw table, one array per column; text stays a Polars series."""

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

    def refuse_repeats(self, column: str, ids: Shaped[np.ndarray, " rows"], what: str) -> None:
        """Refuse a table in which two rows have the same id."""
        row = first_repeat(ids)
        if row is not None:
            reason = f"{what} {ids[row]} is there already"
            raise self.fault(row, column, reason, f"keep one line per {what}")

    def chunks(self, fields: Mapping[str, Field]) -> Iterator[RawChunk]:
        """The wanted columns, some millions of rows at a time, with every value checked."""
        found = 0
        for chunk in self._parquet(fields) if self.is_parquet else self._csv(fields):
            found += 1
            yield chunk
        if not found:
            raise InputError(
                f"{self} has columns but no rows (it ends after line 1); download it again"
            )

    def read(
        self, fields: Mapping[str, Field], levels: Mapping[str, dict[str, int]] | None = None
    ) -> dict[str, Shaped[np.ndarray, " rows"]]:
        """The wanted columns whole, as arrays; text as codes, whose levels are added to those."""
        levels = levels or {}
        parts: dict[str, list[Any]] = {name: [] for name in fields}
        for chunk in self.chunks(fields):
            for name, values in chunk.columns.items():
                parts[name].append(codes_of(values, levels[name]) if name in levels else values)
        return {name: np.concatenate(parts.pop(name)) for name in fields}

    def _csv(self, fields: Mapping[str, Field]) -> Iterator[RawChunk]:
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
                    block = block.rstrip(b"\r\n")  # blank lines at the end do not count as rows
                if block:
                    chunk = self._chunk(block, header, fields, row)
                    yield chunk
                    row += len(chunk)
                block = following

    def _chunk(
        self, block: bytes, header: list[str], fields: Mapping[str, Field], row: int
    ) -> RawChunk:
        parsed = parse_block(block, header, fields)
        if parsed is None:
            at, line = first_bad_line(block, lambda part: parse_block(part, header, fields) is None)
            column, reason, remedy = explain(line, header, fields)
            raise self.fault(row + at, column, reason, remedy)
        return RawChunk({name: filled(parsed[name], field) for name, field in fields.items()}, row)

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

    def _parquet(self, fields: Mapping[str, Field]) -> Iterator[RawChunk]:
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
            yield RawChunk(columns, 0)


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
