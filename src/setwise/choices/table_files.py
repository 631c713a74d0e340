"""Tables in files: Parquet and CSV, read with Polars, which is imported when a file is read."""

import codecs
import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from setwise._arguments import one_of
from setwise._errors import InputError
from setwise.choices.stored import SUFFIX

ROWS_TO_LOOK_AT = 10_000
BYTES_TO_LOOK_AT = 1_000_000
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe", " ": "space"}
PLAIN = (".csv", ".tsv", ".txt")
OTHER_FORMATS = {
    b"PAR1": "a Parquet file",
    b"PK\x03\x04": "an Excel or zip file",
    b"\xd0\xcf\x11\xe0": "an Excel file",
    b"ARROW1": "an Arrow file",
    b"\x89HDF": "an HDF5 file",
    b"%PDF": "a PDF file",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"\x28\xb5\x2f\xfd": "a Zstandard file",
    b"7z\xbc\xaf": "a 7z file",
    b"\x80\x04": "a pickle file",
    b"\x80\x05": "a pickle file",
    b"<!DOCTYPE": "an HTML page",
    b"<!doctype": "an HTML page",
    b"<html": "an HTML page",
    b"<?xml": "an XML file",
    b'{"': "a JSON file",
    b"[{": "a JSON file",
    b"[\n": "a JSON file",
    b"{\n": "a JSON file",
    b"SQLite format 3": "a SQLite file",
}


@dataclass(frozen=True)
class CsvFormat:
    """How a CSV file is written, as far as the user says it; the names are those of pandas."""

    sep: str | None = None
    """What stands between values; by default a comma, in .tsv files a tab."""
    decimal: str | None = None
    """The decimal point: "." or ","."""
    encoding: str | None = None
    """How characters are encoded; by default UTF-8."""

    def __post_init__(self) -> None:
        if self.sep is not None:
            if not isinstance(self.sep, str) or (self.sep != r"\t" and not _is_separator(self.sep)):
                raise InputError(
                    f"sep={self.sep!r} must be one character between values, such as ';' or '\\t'"
                )
            object.__setattr__(self, "sep", "\t" if self.sep == r"\t" else self.sep)
        if self.decimal is not None:
            one_of(".", ",")("decimal", self.decimal)
        if self.encoding is not None:
            try:
                codec = codecs.lookup(self.encoding).name
                "a".encode(codec)  # which refuses codecs that are not of text, such as base64
            except (LookupError, TypeError, ValueError):
                raise InputError(
                    f"encoding={self.encoding!r} must be the name of an encoding, such as "
                    "'utf-8', 'latin-1', 'cp1252' or 'utf-16'"
                ) from None

    def separator(self, path: Path) -> str:
        """What stands between the values of this file."""
        tabs = path.name.lower().removesuffix(".gz").endswith(".tsv")
        return self.sep or ("\t" if tabs else ",")


def read_file(name: str | Path, csv_format: CsvFormat | None = None) -> Any:
    """A Polars frame from a Parquet or CSV file."""
    form = csv_format or CsvFormat()
    path = _existing(name)
    try:
        import polars as pl
    except ImportError:
        raise InputError(
            f"reading {path} needs the package polars: pip install polars, or give a mapping of "
            "arrays"
        ) from None
    suffix = path.suffix.lower()
    if suffix == SUFFIX:
        raise InputError(f"{path} is a data file, not a table; open it with setwise.open_choices")
    if suffix != ".parquet" and not is_csv(path):
        raise InputError(f"{path} is neither .parquet nor .csv; convert it to one of them")
    if suffix != ".parquet":
        return _read_csv(path, form)
    if form != CsvFormat():
        raise InputError(f"sep, decimal and encoding are for CSV files; {path} is a Parquet file")
    with readable(path):
        return pl.read_parquet(path, glob=False)


def is_there(name: str | Path) -> bool:
    """Whether there is a file or folder of this name; a name that cannot be one is not there."""
    try:
        return Path(name).exists()
    except (OSError, ValueError):
        return False


def is_csv(path: Path) -> bool:
    """Whether the name is that of a CSV file, which may be compressed."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return bool(suffixes) and (
        suffixes[-1] in PLAIN
        or (suffixes[-1] == ".gz" and (len(suffixes) == 1 or suffixes[-2] in PLAIN))
    )


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Errors of reading a file as one sentence that names it."""
    import polars as pl

    try:
        yield
    except pl.exceptions.NoDataError:
        raise InputError(f"{path} is empty; a table needs a header and at least one set") from None
    except (pl.exceptions.PolarsError, OSError, EOFError, zlib.error) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{path} cannot be read as a table: {reason}; write it again as Parquet or CSV"
        ) from error


def check_csv(path: Path, form: CsvFormat | None = None) -> None:
    """Refuse a file whose first lines show that it would be read wrongly."""
    form = form or CsvFormat()
    with readable(path), _opened(path) as file:
        head = file.read(BYTES_TO_LOOK_AT)
    other = next((what for start, what in OTHER_FORMATS.items() if head.startswith(start)), None)
    if other is not None:
        raise InputError(f"{path} is {other}, not CSV; name it so, or write it again as CSV")
    text = _decoded(path, head, form.encoding).lstrip("\r\n")
    if not text.strip():
        raise InputError(f"{path} is empty; a table needs a header and at least one set")
    if "\n" not in text and "\r" in text:
        raise InputError(
            f"{path} has lines that end in carriage returns alone; write it again with line feeds"
        )
    sep = form.separator(path)
    header = next(csv.reader(io.StringIO(text, newline=""), delimiter=sep), [])
    _check_separator(path, text.splitlines()[:3], len(header), form, sep)
    _check_header(path, header)


def _check_header(path: Path, header: list[str]) -> None:
    """Refuse names that stand for several columns, and first lines that are not a header."""
    if header[0].lower().startswith("sep="):
        raise InputError(
            f"{path} begins with the line {_cut(','.join(header))} for Excel; remove this line"
        )
    twice = next((name for name, count in Counter(header).items() if count > 1), None)
    if twice is not None:
        numbers = [place + 1 for place, name in enumerate(header) if name == twice]
        named = f"columns named '{twice}'" if twice else "columns without a name"
        values = twice.replace(".", "", 1).isdigit()
        remedy = "add a header line" if values else "rename one"
        if not twice:
            remedy = "name them, or remove the lines above the header"
        raise InputError(
            f"{path} has several {named} (numbers {', '.join(map(str, numbers))}); {remedy}"
        )


def _check_separator(path: Path, lines: list[str], found: int, form: CsvFormat, sep: str) -> None:
    """Refuse a header that another character divides into more columns."""
    line = lines[0]
    others = [one for one in SEPARATORS if one not in (sep, " ")]
    if found == 1 and len({len(one.split()) for one in lines}) == 1:
        others.append(" ")
    most = max(others, key=line.count)
    count = line.count(most) + 1
    if found > 1 and (form.sep is not None or count <= found):
        return
    if count == 1:
        raise InputError(
            f"{path} has one column only, {_cut(line)}; a table has at least a set column and a "
            "feature, so remove lines above the header, or name the character between columns with "
            "sep="
        )
    shown = r"\t" if most == "\t" else most
    raise InputError(
        f"{path} looks {SEPARATORS[most]}-separated: its header is {_cut(line)}; read it with "
        f'sep="{shown}" (on the command line --sep "{shown}")'
    )


def _cut(line: str) -> str:
    return repr(line if len(line) <= 60 else f"{line[:57]}...")


def _existing(name: str | Path) -> Path:
    """The path of a file, or an error that says what is there instead."""
    text = str(name)
    if "://" in text:
        raise InputError(
            f"{text} is an address; download the file first, or read it with Polars "
            "(pl.read_csv, pl.read_parquet) and give the frame"
        )
    if "\n" in text:
        raise InputError(
            "the table is a text of several lines, not a path; write it to a file, or read it "
            "with pl.read_csv(io.StringIO(text)) and give the frame"
        )
    path = Path(name)
    try:
        exists = path.exists() and text != ""
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{_cut(text)} cannot be a path: {reason}; check the path") from None
    if not exists:
        raise InputError(f"there is no file {text or repr(text)}; check the path")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a Parquet or CSV file in it")
    return path


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The bytes of a file, decompressed if they are gzip's."""
    with path.open("rb") as plain:
        if plain.read(2) != b"\x1f\x8b":
            plain.seek(0)
            yield plain
            return
    with gzip.open(path) as packed:
        yield packed


def _decoded(path: Path, data: bytes, encoding: str | None) -> str:
    """The text of these first bytes of a file, in which the last character may be cut off."""
    if encoding is None:
        encoding = "utf-8-sig"
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in data:
            _refuse_nul(path, data)
    try:
        return codecs.getincrementaldecoder(encoding)().decode(data)
    except UnicodeError as error:
        place = getattr(error, "start", 0)
        line = data.count(b"\n", 0, place) + 1
        remedy = 'encoding="latin-1" or "cp1252"'
        if not encoding.startswith("utf-8"):
            remedy = "its own encoding, such as encoding='utf-8'"
        raise InputError(
            f"{path} is not encoded as {encoding.removesuffix('-sig').upper()} (line {line}); "
            f"read it with {remedy}"
        ) from None


def _refuse_nul(path: Path, data: bytes) -> None:
    wide = data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    even, odd = data[0:2000:2].count(0), data[1:2000:2].count(0)
    if wide or max(even, odd) > 0.4 * min(len(data), 2000) / 2:
        name = "utf-16" if wide else "utf-16-be" if even > odd else "utf-16-le"
        if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
            name = "utf-32"
        raise InputError(f'{path} is encoded as {name[:6].upper()}; read it with encoding="{name}"')
    line = data.count(b"\n", 0, data.index(b"\0")) + 1
    raise InputError(f"{path} has a NUL byte in line {line}; remove it, or write the file again")


def _read_csv(path: Path, form: CsvFormat) -> Any:
    """A Polars frame of a CSV file, whose columns have the types that all of their rows allow.

    A column may be whole for long before its first 1.5. To look at all rows before reading takes
    minutes with millions of them, so the first are looked at, and all only if that was not enough.
    """
    import polars as pl

    check_csv(path, form)
    source: Any = path if form.encoding is None else _in_utf8(path, form.encoding)
    options = csv_options(path, form)

    def read(rows: int | None, **more: Any) -> Any:
        if isinstance(source, io.BytesIO):
            source.seek(0)
        found = {"try_parse_dates": True, "infer_schema_length": rows} | options | more
        return pl.read_csv(source, **found)

    with readable(path), _naming_lines(path, form):
        try:
            frame = read(ROWS_TO_LOOK_AT)
        except pl.exceptions.ComputeError:
            frame = read(None)
        looked_at = frame.head(ROWS_TO_LOOK_AT)
        late = [  # what begins with gaps alone looks like text
            name
            for name in frame.columns
            if looked_at[name].null_count() == len(looked_at)
            and frame[name].null_count() < len(frame)
        ]
        frame = _without_empty_end(read(None) if late else frame)
    if frame[:, -1].null_count() and _may_be_short(path, form, frame.width):
        _refuse_uneven(path, form, short=True)
    _refuse_ambiguous_dates(path, frame, read)
    return frame


def ends_empty(path: Path) -> bool:
    """Whether the last line of a file may hold no value: it is blank, or has commas alone."""
    with _opened(path) as file:
        if isinstance(file, gzip.GzipFile):  # whose end is known once all of it is read
            return True
        file.seek(0, io.SEEK_END)
        file.seek(max(0, file.tell() - 4096))
        last = file.read().removesuffix(b"\n").removesuffix(b"\r").rpartition(b"\n")[2]
    return not last.strip(b"\r ,;\t")


def _without_empty_end(frame: Any) -> Any:
    """The frame without the rows at its end in which nothing is: blank lines, or Excel's ",,,"."""
    import polars as pl

    if not len(frame) or any(one is not None for one in frame.row(-1)):
        return frame
    full = frame.select(pl.any_horizontal(pl.all().is_not_null())).to_series()
    return frame.head(int(full.arg_true().max() or 0) + 1) if full.any() else frame.head(0)


def _refuse_ambiguous_dates(path: Path, frame: Any, read: Callable[..., Any]) -> None:
    """Refuse dates such as 01/02/2020 where no day above 12 tells days from months."""
    import polars as pl

    dates = [
        name
        for name in frame.columns
        if frame[name].dtype in (pl.Date, pl.Datetime) and (frame[name].dt.day().max() or 13) <= 12
    ]
    if not dates:
        return
    text = read(None, columns=dates, infer_schema=False, try_parse_dates=False)
    for name in dates:
        first = text[name].str.extract(r"^\s*(\d{1,2})[-/]\d{1,2}[-/]\d").cast(pl.Int64)
        unclear = (first.is_not_null() & (first != frame[name].dt.month())).fill_null(False)
        row = unclear.arg_max() if unclear.any() else None
        if row is not None:
            raise InputError(
                f"column '{name}' of {path} has dates such as '{text[name][row]}' at row {row}, "
                f"which may be day/month or month/day; write them as {frame[name].dt.date()[row]}",
                row=row,
                column=name,
            )


def csv_options(path: Path, form: CsvFormat | None = None) -> dict[str, Any]:
    """How Polars is to read this file."""
    form = form or CsvFormat()
    decimal = {"decimal_comma": True} if form.decimal == "," else {}
    return {"glob": False, "separator": form.separator(path)} | decimal


@contextmanager
def _naming_lines(path: Path, form: CsvFormat) -> Iterator[None]:
    """What Polars says of lines with too many values and of bytes, with the line and the remedy."""
    import polars as pl

    try:
        yield
    except pl.exceptions.ComputeError as error:
        if "more fields" in str(error):
            _refuse_uneven(path, form, short=False)
        if "utf-8" in str(error):
            with _opened(path) as file:
                _decoded(path, file.read(), form.encoding)
        _refuse_open_quote(path, form)
        raise


def _may_be_short(path: Path, form: CsvFormat, width: int) -> bool:
    """Whether a line may have fewer values than the header: a quick look without quotes' rules."""
    import polars as pl

    if form.encoding is not None:
        return True
    with readable(path):
        lines = pl.read_csv(
            path, glob=False, has_header=False, infer_schema=False, separator="\x01",
            quote_char=None, truncate_ragged_lines=True,
        )  # fmt: skip
    line = pl.col(lines.columns[0])
    few = line.str.count_matches(form.separator(path), literal=True) < width - 1
    return bool(lines.select((few | line.str.contains('"', literal=True)).any()).item())


def _refuse_uneven(path: Path, form: CsvFormat, short: bool) -> None:
    """Refuse the first line with more values than the header has, or with fewer."""
    with _opened(path) as file:
        text = io.TextIOWrapper(file, form.encoding or "utf-8-sig", newline="")
        reader = csv.reader(text, delimiter=form.separator(path))
        try:
            header = next(reader)
            for record in reader:
                wrong = 0 < len(record) < len(header) if short else len(record) > len(header)
                if wrong:
                    quotes = ", or put values that hold the separator in quotes"
                    remedy = "correct it" + ("" if short else quotes)
                    raise InputError(
                        f"line {reader.line_num} of {path} has {len(record)} values, but its "
                        f"header has {len(header)}; {remedy}"
                    )
        except (csv.Error, UnicodeError):
            return  # Polars says what it found


def _refuse_open_quote(path: Path, form: CsvFormat) -> None:
    """Refuse a value whose quote is never closed, so that it takes in the rest of the file."""
    with _opened(path) as file:
        data = file.read()
    if data.count(b'"') % 2:
        text = io.StringIO(data.decode(form.encoding or "utf-8", "replace"), newline="")
        reader, line = csv.reader(text, delimiter=form.separator(path)), 1
        for _ in reader:
            line, last = reader.line_num + 1, line
        raise InputError(f"{path} has a quote that is never closed in line {last}; close it")


def _in_utf8(path: Path, encoding: str) -> io.BytesIO:
    with readable(path), _opened(path) as file:
        data = file.read()
    try:
        return io.BytesIO(data.decode(encoding).removeprefix("\ufeff").encode())
    except UnicodeError:
        _decoded(path, data, encoding)  # which says where
        raise InputError(f"{path} is not encoded as {encoding}; name its own encoding") from None


def _is_separator(text: str) -> bool:
    return len(text) == 1 and text.isascii() and text not in '"\n\r\0' and not text.isalnum()
