"""One raw column of any library, sorted into numbers, categories and dates, or refused."""

from datetime import date, datetime
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np

from setwise._errors import InputError
from setwise._shapes import Bool, Shaped
from setwise.choices.choices import Column
from setwise.choices.text_values import MistypedText, mistyped_text, sorts_as_time

EXACT = 2**53
"""Beyond, floats of 64 bits do not hold every whole number."""

FEATURES = "features are numbers, booleans, text or dates"
USABLE = ("item", "context", "alternative")
IDS = "ids are numbers, text or dates, so convert it, such as to text"

_KINDS = {"b": "number", "i": "number", "u": "number", "f": "number", "M": "date", "U": "text",
          "O": "text", "T": "text"}  # of NumPy's types  # fmt: skip

_REMEDIES = {  # for values of these types
    "Period": "convert it to dates (pandas: .dt.to_timestamp())",
    "Timedelta": "convert it to numbers (pandas: .dt.total_seconds())",
    "timedelta": "convert it to numbers, such as .total_seconds()",
    "Duration": "convert it to numbers (Polars: .dt.total_seconds(), pandas the same)",
    "timedelta64": "convert it to numbers, such as values / np.timedelta64(1, 's')",
    "Time": "convert it to a number such as the hour (Polars: .dt.hour())",
    "time": "convert it to a number such as the hour",
    "Interval": "convert it to numbers such as its middle (.mid), or to text",
    "bytes": "decode it to text, such as .decode('utf-8')",
    "Binary": "decode it to text (Polars: .cast(pl.String))",
    "dict": "give each key a column of its own (pandas: json_normalize)",
    "Struct": "give each field a column of its own (Polars: unnest)",
    "list": "give each element a column of its own",
    "tuple": "give each element a column of its own",
    "ndarray": "give each element a column of its own",
    "List": "give each element a column of its own (Polars: .list.to_struct and unnest)",
    "Array": "give each element a column of its own (Polars: .arr.to_struct and unnest)",
    "complex": "give its real and its imaginary part a column each",
    "complex128": "give its real and its imaginary part a column each",
}


class WrongType(InputError):
    """A column that is neither numbers nor categories nor dates, or was meant to be another type.

    Args:
        problem: what is wrong, without the remedy.
        remedy: what to do.
        meant: the column in the type it has; None if it has none.
        disguise: for text that seems to be numbers or dates, what was found.
        place: the row and the column (see :class:`InputError`).
    """

    def __init__(
        self,
        problem: str,
        remedy: str = "",
        meant: Column | None = None,
        disguise: MistypedText | None = None,
        **place: Any,
    ):
        super().__init__(f"{problem}; {remedy}" if remedy else problem, **place)
        self.problem, self.remedy, self.meant, self.disguise = problem, remedy, meant, disguise


def typed(
    name: str, series: Any, role: str, as_category: bool = False, names: bool = False
) -> Column:
    """Sort a raw column into numbers, categories and dates; :class:`WrongType` if it is none.

    Args:
        name: the column's name, for errors.
        series: a NumPy array or a narwhals series.
        role: the part it plays, as in "item"; only features may be names.
        as_category: whether the user says that the values are names.
        names: whether text is known to hold names, as in a model's training table.
    """
    allowed = FEATURES if role in USABLE else f"a {role} column holds numbers"
    if _holds_objects(series):
        series = _to_numpy(series)
        if series.dtype.kind == "O":
            series = _from_objects(name, series, as_category, allowed)
    dtype, declared = series.dtype, as_category or names
    if isinstance(series, np.ndarray):
        kind = _KINDS.get(dtype.kind, "")
    else:
        kind, named = _kind_of_series(dtype)
        declared = declared or named
    if not kind:
        raise WrongType(
            f"column '{name}' has type {dtype}, but {allowed}", _remedy(dtype), column=name
        )
    if kind == "date" and not as_category:
        if getattr(dtype, "time_zone", None):  # the day on the local calendar, not at Greenwich
            series = series.dt.replace_time_zone(None)
        return Column(_to_numpy(series).astype("datetime64[s]"))
    if kind == "number" and not as_category:
        return Column(_floats(name, series))
    column = categories(series)
    if declared:
        return column
    if column.missing.all():  # a file's empty column looks like text
        return Column(np.full(len(column.values), np.nan))
    found = mistyped_text(name, column, names_allowed=role in ("item", "context"))
    if found is not None:
        raise WrongType(
            found.message, found.remedy, column, found,
            row=found.row, column=name, also_rows=found.also_rows,
        )  # fmt: skip
    return column


def identifiers(name: str, series: Any, role: str) -> Shaped[np.ndarray, " rows"]:
    """A column of ids, or of moments to sort by: nothing missing, none equal by rounding."""
    values = _to_numpy(series)
    whose = f"{role} column '{name}'"
    if values.ndim != 1 or values.dtype.kind in "cV":
        raise InputError(f"{whose} has type {series.dtype}; {IDS}", column=name)
    absent = values != values if values.dtype.kind != "O" else is_none(values)
    if absent.any():
        row = int(np.argmax(absent))
        raise InputError(
            f"{whose} is missing at row {row}; every row needs a {role} value",
            row=row,
            column=name,
        )
    if values.dtype.kind == "O":
        values = _plain_ids(name, role, series, values)
    if values.dtype.kind == "f":
        _refuse_rounded(name, role, values)
    if values.dtype.kind == "U":
        _refuse_blanks(name, role, values)
    if role == "time" and values.dtype.kind == "U":
        wrong = sorts_as_time(np.unique(values).tolist())
        if wrong is not None:
            row = int(np.argmax(values == wrong))
            raise InputError(
                f"{whose} is text such as '{wrong}' at row {row}, which sorts letter by letter and "
                "not by time; convert it to dates or numbers, or write it as 2020-12-31",
                row=row,
                column=name,
            )
    return values


def _refuse_blanks(name: str, role: str, values: Shaped[np.ndarray, " n"]) -> None:
    """Refuse ids that are empty text, and those that differ in the blanks around them alone."""
    whose, bare = f"{role} column '{name}'", np.strings.strip(values)
    if (bare == "").any():
        row = int(np.argmax(bare == ""))
        raise InputError(
            f"{whose} is empty text at row {row}; every row needs a {role} value",
            row=row,
            column=name,
        )
    padded = bare != values
    if padded.any() and len(np.unique(bare)) < len(np.unique(values)):
        mixed = padded & np.isin(bare, values[~padded])
        row = int(np.argmax(mixed if mixed.any() else padded))
        raise InputError(
            f"{whose} is {str(values[row])!r} at row {row}, which differs from another id in "
            "blanks alone; strip the blanks",
            row=row,
            column=name,
        )


def categories(series: Any) -> Column:
    """Values of any type as levels in alphabetical order, and codes.

    >>> categories(np.array([12.0, 3.0, np.nan]))
    Column(values=array([ 0,  1, -1], dtype=int32), levels=('12', '3'))
    """
    text = _polars_text(series)
    if text is not None:
        return _text_categories(text)
    values = _to_numpy(series)
    if values.dtype.kind in "OT":
        absent = is_none(values)
    elif values.dtype.kind in "Mf":
        absent = values != values
    else:
        absent = np.zeros(len(values), bool)
    present = values[~absent]
    whole = present.dtype.kind == "f" and (present == np.floor(present)).all()
    if whole and (np.abs(present) < EXACT).all():  # an integer column with gaps: 3, not "3.0"
        present = present.astype(np.int64)
    if present.dtype.kind not in "biu":  # whole numbers are sorted faster than text
        present = present.astype(str)
    distinct, found = np.unique(present, return_inverse=True)
    levels = distinct.astype(str)
    order = np.argsort(levels)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    codes = np.full(len(values), -1, np.int32)
    codes[~absent] = rank[found.reshape(-1)]
    return Column(codes, tuple(levels[order].tolist()))


def _polars_text(series: Any) -> Any:
    """The Polars series of text behind a narwhals series; None for every other column."""
    if isinstance(series, np.ndarray):
        return None
    kind, _ = _kind_of_series(series.dtype)
    native = series.to_native()
    if kind != "text" or not type(native).__module__.startswith("polars"):
        return None
    import polars as pl

    return native.cast(pl.String)


def _text_categories(text: Any) -> Column:
    """Text of a Polars series as levels and codes; many times faster than in NumPy."""
    import polars as pl

    levels = text.drop_nulls().unique().sort()
    codes = text.cast(pl.Enum(levels)).to_physical().cast(pl.Int32).fill_null(-1)
    return Column(codes.to_numpy(), tuple(levels.to_list()))


def unmasked(values: Any) -> Shaped[np.ndarray, "..."]:
    """An array in which masked values are missing: NaN, NaT or None."""
    if not np.ma.isMaskedArray(values):
        array = np.asarray(values)
        return array.astype(object) if array.dtype.kind == "T" else array  # text of any length
    hidden, plain = np.ma.getmaskarray(values), np.asarray(values)
    if not hidden.any():
        return plain
    if plain.dtype.kind == "M":
        return np.where(hidden, np.datetime64("NaT"), plain)
    if plain.dtype.kind in "biuf":
        kept = plain[~hidden]
        if plain.dtype.kind not in "iu" or not _beyond(kept):
            return np.where(hidden, np.nan, plain.astype(np.float64))
    plain = plain.astype(object)
    plain[hidden] = None
    return plain


def collapsed(whole: Shaped[np.ndarray, " n"]) -> bool:
    """Whether some of these whole numbers are different, but the same as floats of 64 bits.

    >>> collapsed(np.array([2**60, 2**60 + 1])), collapsed(np.array([2**60, 2**61]))
    (True, False)
    """
    distinct = np.unique(whole)
    return len(np.unique(distinct.astype(np.float64))) < len(distinct)


def is_none(values: Shaped[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """True for None, NaN and pandas' NA (the only values that are not equal to themselves)."""
    return np.array([value is None or not _same(value) for value in values], bool)


def _same(value: Any) -> bool:
    try:
        return bool(value == value)
    except TypeError:  # pandas' NA refuses to be a boolean
        return False
    except ValueError:  # arrays have no single answer
        return True


def _to_numpy(series: Any) -> Shaped[np.ndarray, "..."]:
    if isinstance(series, np.ndarray):
        return series
    if _is_wide(series.dtype):  # NumPy has no integers of 128 bits
        import narwhals as nw

        return series.cast(nw.String).to_numpy()
    return series.to_numpy()


def _is_wide(dtype: Any) -> bool:
    return type(dtype).__name__ in ("Int128", "UInt128")


def _holds_objects(series: Any) -> bool:
    if isinstance(series, np.ndarray):
        return series.dtype.kind == "O"
    import narwhals as nw

    return series.dtype in (nw.Object, nw.Unknown)


def _kind_of_series(dtype: Any) -> tuple[str, bool]:
    """What a frame's column holds, and whether its type says that these are names."""
    import narwhals as nw

    if dtype.is_numeric() or dtype == nw.Boolean:
        return "number", False
    if dtype in (nw.Date, nw.Datetime):
        return "date", False
    named = dtype in (nw.Categorical, nw.Enum)
    return ("text" if named or dtype == nw.String else ""), named


def _remedy(dtype: Any) -> str:
    name = type(dtype).__name__ if not isinstance(dtype, np.dtype) else dtype.type.__name__
    name = name.removesuffix("_")
    return _REMEDIES.get(name, "convert it or leave it out of items")


def family(kind: type) -> str:
    """What values of a Python type are: "text", "numbers", "dates", or "" for anything else."""
    if issubclass(kind, str):
        return "text"
    if issubclass(kind, (Real, Decimal, np.bool_)):
        return "numbers"
    return "dates" if issubclass(kind, (date, np.datetime64)) else ""


def _families(
    name: str,
    whose: str,
    values: Shaped[np.ndarray, " n"],
    absent: Bool[np.ndarray, " n"],
    allowed: str,
) -> dict[str, int]:
    """What Python objects are, each with the first row of it; others than the known are refused."""
    first_of: dict[type, int] = {}
    for row, value in enumerate(values):
        if not absent[row]:
            first_of.setdefault(type(value), row)
    found: dict[str, int] = {}
    for kind, first in first_of.items():
        what = family(kind)
        if not what:
            remedy = _REMEDIES.get(kind.__name__.removesuffix("_"), "convert it or leave it out")
            raise WrongType(
                f"{whose} has a value of type {kind.__name__} at row {first}, but {allowed}",
                remedy, row=first, column=name,
            )  # fmt: skip
        found[what] = min(first, found.get(what, first))
    return found


def _from_objects(
    name: str, values: Shaped[np.ndarray, " n"], as_category: bool, allowed: str = FEATURES
) -> Shaped[np.ndarray, " n"]:
    """Python objects as numbers or dates where they all are, missing ones as NaN or NaT."""
    absent = is_none(values)
    families = _families(name, f"column '{name}'", values, absent, allowed)
    if len(families) > 1 and not as_category:
        (one, first), (other, second) = sorted(families.items(), key=lambda found: found[1])[:2]
        raise WrongType(
            f"column '{name}' mixes {one} ({values[first]!r} at row {first}) and {other} "
            f"({values[second]!r} at row {second})",
            f"make it one type, or use category({name}) if they are names",
            row=first, column=name, also_rows=(second,),
        )  # fmt: skip
    if families.keys() <= {"numbers"}:
        large = [
            row
            for row, value in enumerate(values)
            if not absent[row] and isinstance(value, Integral) and abs(int(value)) > EXACT
        ]
        if large and as_category:
            text = np.array([str(value) for value in values], object)
            text[absent] = None
            return text
        pairs = zip(values, absent, strict=True)
        floats = np.array([np.nan if gone else _float(value) for value, gone in pairs])
        if large and np.isfinite(floats[large]).all():  # infinite ones are refused as such
            _refuse_collapsed(name, values[large], floats, large[0], values[large[0]])
        return floats
    if families.keys() == {"dates"}:
        dates = np.full(len(values), "NaT", "datetime64[s]")
        dates[~absent] = _moments(values[~absent])
        return dates
    return values


def _float(value: Any) -> float:
    """A number as a float; whole numbers beyond the largest float are infinite."""
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def _moments(values: Shaped[np.ndarray, " n"]) -> list[Any]:
    """Dates and times of objects, on their own calendars."""
    return [
        value.replace(tzinfo=None) if isinstance(value, datetime) else value for value in values
    ]


def _plain_ids(
    name: str, role: str, series: Any, values: Shaped[np.ndarray, " n"]
) -> Shaped[np.ndarray, " n"]:
    """Ids that are Python objects, as text or numbers."""
    whose = f"{role} column '{name}'"
    nested = next((v for v in values if isinstance(v, (list, tuple, dict, np.ndarray))), None)
    if nested is not None:
        raise InputError(f"{whose} has type {series.dtype}; {IDS}", column=name)
    absent = np.zeros(len(values), bool)
    families = _families(name, whose, values, absent, "ids are numbers, text or dates")
    if families.keys() == {"numbers"}:
        return _plain_numbers(values)
    if families.keys() == {"dates"} and role == "time":
        return np.array(_moments(values), "datetime64[us]")
    text = values.astype(str)
    if len(families) > 1:  # 1 and "1" would become one
        kinds = np.array([family(type(value)) for value in values])
        pairs = np.unique(np.stack([text, kinds]), axis=1)[0]
        twice = pairs[1:][pairs[1:] == pairs[:-1]]
        if len(twice):
            row = int(np.argmax(text == twice[0]))
            raise InputError(
                f"{whose} has {twice[0]} both as text and as a number or date, at row {row} and "
                "others; make it one type",
                row=row,
                column=name,
            )
    return text


def _plain_numbers(values: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, " n"]:
    """Number objects as whole numbers where they all are, as text if these are very large."""
    rounded = any(
        isinstance(one, (float, np.floating)) and abs(float(one)) > EXACT for one in values
    )
    if rounded or not all(value == value // 1 for value in values):
        return values.astype(np.float64)
    whole = [int(value) for value in values]
    for dtype in (np.int64, np.uint64):
        if np.iinfo(dtype).min <= min(whole) and max(whole) <= np.iinfo(dtype).max:
            return np.array(whole, dtype)
    return np.array([str(value) for value in whole])


def _refuse_rounded(name: str, role: str, values: Shaped[np.ndarray, " n"]) -> None:
    """Refuse floats that cannot be ids: infinite ones, and those that stand for several numbers."""
    whose, wrong = f"{role} column '{name}'", ~(np.abs(values) < EXACT)
    if wrong.any():
        row = int(np.argmax(wrong))
        if np.isinf(values[row]):
            raise InputError(
                f"{whose} is infinite at row {row}; give each set an id of its own",
                row=row,
                column=name,
            )
        raise InputError(
            f"{whose} is {values[row]:.17g} at row {row}, and floats cannot tell ids beyond 2**53 "
            "apart; give it as whole numbers or text",
            row=row,
            column=name,
        )


def _floats(name: str, series: Any) -> Shaped[np.ndarray, " n"]:
    """Floats, NaN where missing; float32 stays as it is, everything else becomes float64."""
    if not isinstance(series, np.ndarray) and _is_wide(series.dtype):
        exact = np.array([None if v is None else int(v) for v in _to_numpy(series)], object)
        return _from_objects(name, exact, as_category=False)
    values = _to_numpy(series)
    if values.dtype.kind == "O":  # pandas' nullable booleans and integers, decimals
        values = np.where(is_none(values), np.nan, values)
    floats = values if values.dtype == np.float32 else values.astype(np.float64)
    whole = values.dtype.kind in "iu" or (
        not isinstance(series, np.ndarray) and series.dtype.is_integer()
    )
    beyond = np.abs(floats) > EXACT if whole else np.zeros(0, bool)
    if beyond.any():
        row = int(np.argmax(beyond))
        exact = values if values.dtype.kind in "iu" else series.drop_nulls().to_numpy()
        _refuse_collapsed(name, exact, floats, row, int(series[row]))
    return floats


def _refuse_collapsed(
    name: str,
    whole: Shaped[np.ndarray, " n"],
    floats: Shaped[np.ndarray, " rows"],
    row: int,
    example: int,
) -> None:
    """Refuse whole numbers that are different, but the same as floats."""
    if collapsed(whole):
        raise WrongType(
            f"column '{name}' has whole numbers beyond 2**53, such as {example} at row {row}, of "
            "which some are equal when they become floats",
            f"subtract a constant from them, or use category({name}) if they are names",
            Column(floats), row=row, column=name,
        )  # fmt: skip


def _beyond(whole: Shaped[np.ndarray, " n"]) -> bool:
    return bool(len(whole)) and (int(whole.max()) > EXACT or int(whole.min()) < -EXACT)
