"""What is wrong with a raw file: the first bad line, its column, the reason and the remedy."""

import csv
from collections.abc import Callable, Mapping
from datetime import datetime

import numpy as np

from setwise.datasets.raw.fields import MOMENT, NULLS, Field

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
