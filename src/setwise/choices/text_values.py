"""Numbers and dates that are written as text, in the formats that people and programs use.

Taken for names they would become a level each, and the model would learn next to nothing from
them. So reading refuses them, with the format and the remedy, and ``setwise check`` tells of them.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from setwise._shapes import Bool, Int
from setwise.choices.choices import Column

LEVELS_LOOKED_AT = 1000
MANY_LEVELS = 20_000
MANY_NUMBERS = 10
"""So many numbers with the same words behind them are a measure, not names such as "2 doors"."""

_CURRENCY = (
    r"[A-Z]{0,2}[$€£¥₹₽₩₺₫₪₴₦฿¢₿]|USD|EUR|GBP|CHF|JPY|CNY|RMB|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF"
    r"|BRL|MXN|ZAR|KRW|TRY|HKD|SGD|ILS|kr\.?|zł|Kč|Ft|Rs\.?|Fr\.?"
)
_UNIT = (
    r"°[CF]?|mins?\.?|minutes?|h|hrs?\.?|hours?|secs?\.?|seconds?|ms|days?|weeks?|months?|years?"
    r"|km|cm|mm|mi|miles?|ft|kg|mg|lbs?|oz|ml|kWh?|MWh?|km/h|kmh|mph|[kMGT]B|px|bps"
)
_SINGLE_LETTER_UNIT = r"[msgl]"  # only after a space: "4g" is a network
_SPACES = " \u00a0\u2009\u202f"
_BODY = {
    "plain": r"\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+",
    "thousands commas": r"\d{1,3}(?:,\d{3})+",
    "thousands commas and points": r"\d{1,3}(?:,\d{3})+\.\d+|\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?",
    "decimal commas": r"\d*,\d+",
    "thousands points and decimal commas": r"\d{1,3}(?:\.\d{3})+,\d+",
    "thousands points": r"\d{1,3}(?:\.\d{3}){2,}",
    "thousands spaces": rf"\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?:[.,]\d+)?",
    "thousands apostrophes": r"\d{1,3}(?:['’]\d{3})+(?:[.,]\d+)?",
}
_BODIES = {name: re.compile(pattern) for name, pattern in _BODY.items()}
_DRESSED = re.compile(
    rf"(?P<open>\()?(?P<sign>[-+−])?\s?(?P<before>{_CURRENCY})?\s?(?P<inner>[-−])?"
    r"(?P<body>[\d.,](?:.*\d)?\.?)"
    rf"(?:\s?(?P<percent>[%‰])|\s?(?P<after>{_CURRENCY})|\s?(?P<unit>{_UNIT})"
    rf"|\s?(?P<k>[kK])|\s(?P<letter>{_SINGLE_LETTER_UNIT}))?(?P<close>\))?"
)
_MEASURE = re.compile(  # the number, and what is around it
    r"(?P<before>[~≈=\"'’]*)(?P<number>[-+−]?\d[\d.,/ ]*(?::\d\d){0,2})"
    r"(?P<after>[^\d.,/: ][^\d]*| [^\d]+)?"
)
_DURATION = re.compile(r"(?:\d+\s?[dhms]\w*\s?){2,}")
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_TIME = r"(?:[ T,]+\d{1,2}:\d{2}.*)?"
_DATES = re.compile(
    rf"(?:\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|(\d{{1,2}})[-/.](\d{{1,2}})[-/.]\d{{4}}"
    rf"|(\d\d)[-/.](\d\d)[-/.]\d\d|\d{{1,2}}[-. ]+(?:{_MONTHS})[a-z]*[-., ]+\d{{2,4}}"
    rf"|(?:{_MONTHS})[a-z]*\.? \d{{1,2}},? \d{{4}}){_TIME}",
    re.IGNORECASE,
)
_SORTABLE = re.compile(
    r"\d{4}(?:-?(?:Q[1-4]|W\d\d)|-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?)?)?"
    r"|\d{6}|\d{8}(?:\d{4}|\d{6})?"
)

_FORMATS = {  # what a value has: how to say it, and the remedy
    "decimal commas": ("decimal commas", 'read the file with decimal="," or write points'),
    "thousands points and decimal commas": (
        "points between thousands and decimal commas",
        'remove the points and read the file with decimal=","',
    ),
    "thousands commas and points": ("commas between thousands", "remove the commas"),
    "commas": (
        "commas that may be decimal or stand between thousands",
        'remove the commas between thousands, or read the file with decimal="," if they are '
        "decimal",
    ),
    "thousands points": ("points between thousands", "remove the points"),
    "thousands spaces": ("spaces between thousands", "remove the spaces"),
    "thousands apostrophes": ("apostrophes between thousands", "remove the apostrophes"),
    "currency": ("a currency sign", "strip the currency sign"),
    "percent": ("a percent sign", "strip the percent sign"),
    "unit": ("a unit", "strip the unit"),
    "k": ("'k' for thousands", "write the thousands out"),
    "parentheses": ("parentheses for negative numbers", "write them with a minus sign"),
    "minus": ("a typographic minus sign", "write '-' instead"),
    "blanks": ("blanks around them", "remove the blanks"),
}


@dataclass(frozen=True)
class MistypedText:
    """Why text is not names: what it seems to be, where, and what to do."""

    kind: str
    """ "numbers" or "dates"."""
    message: str
    remedy: str
    row: int
    readable: Bool[np.ndarray, " levels"]
    """The levels that are plain numbers."""
    also_rows: tuple[int, ...] = ()
    """Further rows that the message names."""


def mistyped_text(name: str, column: Column, names_allowed: bool = True) -> MistypedText | None:
    """What the text of a column seems to be, if most of it is numbers or nearly all dates.

    Args:
        name: the column's name.
        column: text, as levels and codes.
        names_allowed: whether ``category(name)`` is a way out.

    >>> column = Column(np.array([0, 1, 0]), ("12,50", "3,10"))
    >>> found = mistyped_text("price", column)
    >>> found.message
    "column 'price' holds numbers as text with decimal commas, such as '12,50' at row 0"
    >>> mistyped_text("room", Column(np.array([0, 1]), ("3-star", "A1"))) is None
    True
    """
    levels, codes = column.levels or (), column.values[column.values >= 0]
    if not len(codes):
        return None
    names = f", or use category({name}) if they are names" if names_allowed else ""
    if len(levels) > MANY_LEVELS and _few_are_numbers(levels, codes):  # all take seconds
        return _dates(name, levels, column, np.zeros(len(levels), bool), names)
    formats = [number_format(level) for level in levels]
    numeric = np.array([one is not None for one in formats], bool)
    plain = np.array([_is_number(level) for level in levels], bool)
    if max(numeric.mean(), numeric[codes].mean()) <= 0.5:
        dates = _dates(name, levels, column, plain, names)
        return dates or _measures(name, levels, column, plain, names)
    if any(formats):
        return _foreign(name, formats, column, plain, names)
    return _spoiled(name, levels, column, plain, names)


def _few_are_numbers(levels: Sequence[str], codes: Int[np.ndarray, " n"]) -> bool:
    """Whether hardly any of some levels is a number, and none of the most frequent ones."""
    looked_at = levels[:: len(levels) // LEVELS_LOOKED_AT]
    numbers = sum(number_format(level) is not None for level in looked_at)
    frequent = np.argsort(np.bincount(codes))[-100:].tolist()
    return numbers < 0.05 * len(looked_at) and not any(
        number_format(levels[code]) is not None for code in frequent
    )


def number_format(text: str) -> frozenset[str] | None:
    """What a number has apart from digits, a point and a sign; None for text that is not a number.

    >>> sorted(number_format("€ 1.234,50"))
    ['currency', 'thousands points and decimal commas']
    >>> number_format("12.5")
    frozenset()
    >>> number_format("3-star") is None
    True
    """
    blanks = {"blanks"} if text != text.strip() else set()
    text = text.strip()
    if _is_number(text):
        return frozenset(blanks)
    match = _DRESSED.fullmatch(text)
    if match is None or (match["open"] is None) != (match["close"] is None):
        return None
    number = match["body"]
    body = next((name for name, pattern in _BODIES.items() if pattern.fullmatch(number)), None)
    if body is None or (body == "thousands spaces" and match["sign"] == "+"):  # a telephone
        return None
    found = {
        body: body != "plain",
        "decimal commas": body in ("thousands spaces", "thousands apostrophes") and "," in number,
        "currency": match["before"] or match["after"],
        "percent": match["percent"],
        "unit": match["unit"] or match["letter"],
        "k": match["k"],
        "parentheses": match["open"],
        "minus": "−" in (match["sign"], match["inner"]),
    }
    if body == "decimal commas":
        found[body] = True
    return frozenset({name for name, has in found.items() if has} | blanks)


def look_alikes(name: str, levels: Sequence[str]) -> str | None:
    """What is odd in the levels of a column: a blank one, or two that differ in case or blanks.

    >>> look_alikes("brand", ["Ibis", "ibis ", "Ritz"])
    "levels 'Ibis' and 'ibis ' of column 'brand' differ in case or blanks alone; write them alike \
if they are the same"
    """
    if len(levels) > MANY_LEVELS:  # some look alike anyway
        return None
    seen: dict[str, str] = {}
    for level in levels:
        plain = level.strip().casefold()
        if not plain:
            return f"column '{name}' has the empty level {level!r}; fill it, or make it missing"
        if plain in seen:
            return (
                f"levels {seen[plain]!r} and {level!r} of column '{name}' differ in case or blanks "
                "alone; write them alike if they are the same"
            )
        seen[plain] = level
    return None


def sorts_as_time(values: Sequence[str]) -> str | None:
    """The first text that does not sort as moments do; None if all are written as ISO 8601 does.

    >>> sorts_as_time(["2020-01-31", "2020-02-01"]) is None
    True
    >>> sorts_as_time(["2020-01-31", "31.12.2020"])
    '31.12.2020'
    """
    wrong = next((one for one in values if _SORTABLE.fullmatch(one) is None), None)
    digits = {len(one) for one in values if one.isdigit()}
    if wrong is None and digits and (len(digits) > 1 or not all(one.isdigit() for one in values)):
        return str(values[0])  # 202012 and 20201231 or 2020-12
    return wrong


def _spoiled(
    name: str,
    levels: Sequence[str],
    column: Column,
    plain: Bool[np.ndarray, " levels"],
    names: str,
) -> MistypedText:
    """Text that is mostly plain numbers is a number column with a bad value."""
    if plain.all():
        message = f"column '{name}' holds numbers written as text"
        remedy = f"convert it to numbers (in a CSV file, check decimal=){names}"
        return MistypedText("numbers", message, remedy, 0, plain)
    row, value = _first(column, ~plain)
    return MistypedText(
        "numbers",
        f"column '{name}' is text, but most of its values are numbers; row {row} has '{value}'",
        f"correct it{names}",
        row,
        plain,
    )


def _foreign(
    name: str,
    formats: Sequence[frozenset[str] | None],
    column: Column,
    plain: Bool[np.ndarray, " levels"],
    names: str,
) -> MistypedText:
    """Text that is mostly numbers in formats that are not Python's."""
    numeric = np.array([one is not None for one in formats], bool)
    found = {part for one in formats for part in one or ()}
    if "thousands commas" in found:
        decimal = {"decimal commas", "thousands points and decimal commas"} & found
        proven = "thousands commas and points" in found
        found.discard("thousands commas")
        if not decimal:  # "1,234" alone may be either
            found.add("thousands commas and points" if proven else "commas")
    if "thousands points and decimal commas" in found:
        found.discard("decimal commas")
    listed = [_FORMATS[one] for one in _FORMATS if one in found]
    parts = np.array([len(one or ()) for one in formats])
    row, value = _first(column, parts == parts.max())  # the value that shows most
    message = (
        f"column '{name}' holds numbers as text with {' and '.join(how for how, _ in listed)}, "
        f"such as '{value}' at row {row}"
    )
    also: tuple[int, ...] = ()
    if not numeric.all():
        other, odd = _first(column, ~numeric)
        message += f" (and '{odd}' at row {other}, which is not a number)"
        also = (other,)
    remedy = "; ".join(to_do for _, to_do in listed) + names
    return MistypedText("numbers", message, remedy, row, plain, also)


def _measures(
    name: str,
    levels: Sequence[str],
    column: Column,
    plain: Bool[np.ndarray, " levels"],
    names: str,
) -> MistypedText | None:
    """Many numbers with the same words around them, fractions, or times: "5 stars", "1:30"."""
    looked_at = levels[:: max(1, len(levels) // LEVELS_LOOKED_AT)]
    around = Counter(found for level in looked_at if (found := _around(level)) is not None)
    if not around:
        return None
    frequent, count = around.most_common(1)[0]
    if count < MANY_NUMBERS or count <= 0.5 * len(looked_at):
        return None
    value = next(level for level in looked_at if _around(level) == frequent)
    row = int(np.argmax(column.values == list(levels).index(value)))
    return MistypedText(
        "numbers",
        f"column '{name}' is text that looks like numbers, such as '{value}' at row {row}",
        f"convert it to numbers{names}",
        row,
        plain,
    )


def _around(text: str) -> tuple[str, str] | None:
    """What stands before and behind the number of a text; None if it is not one number.

    Ranges such as 18-25 and limits such as >65 are names of classes.

    >>> _around("12.5 USD/night"), _around("1:30"), _around("1h 30m")
    (('', 'USD/night'), ('', ':'), ('', 'h m'))
    >>> _around("18-25"), _around("Hotel 12"), _around("12 Main St 4")
    (None, None, None)
    """
    text = text.strip()
    if _DURATION.fullmatch(text):
        return "", " ".join(re.findall(r"[^\d\s]+", text))
    match = _MEASURE.fullmatch(text)
    if match is None:
        return None
    signs = "".join(sign for sign in ":/" if sign in match["number"])
    before, after = match["before"], (match["after"] or "").strip()
    return (before, signs + after) if before or signs or after else None


def _dates(
    name: str,
    levels: Sequence[str],
    column: Column,
    plain: Bool[np.ndarray, " levels"],
    names: str,
) -> MistypedText | None:
    looked_at = levels[:: max(1, len(levels) // LEVELS_LOOKED_AT)]
    dates = [level for level in looked_at if is_date(level)]
    if len(dates) <= 0.9 * len(looked_at):
        return None
    row = int(np.argmax(column.values == list(levels).index(dates[0])))
    return MistypedText(
        "dates",
        f"column '{name}' is text that looks like dates, such as '{dates[0]}' at row {row}",
        f"parse them first (Polars: str.to_date, pandas: to_datetime){names}",
        row,
        plain,
    )


def is_date(text: str) -> bool:
    """Whether text is a day as people write it.

    >>> is_date("31/12/2020"), is_date("2020-12-31"), is_date("1.2.3"), is_date("40/13/2020")
    (True, True, False, False)
    """
    match = _DATES.fullmatch(text.strip())
    if match is None:
        return False
    parts = [int(part) for part in match.groups() if part is not None]
    return not parts or (1 <= min(parts) <= 12 and max(parts) <= 31)


def _first(column: Column, wanted: Bool[np.ndarray, " levels"]) -> tuple[int, str]:
    """The first row with one of these levels, and the level."""
    known: Int[np.ndarray, " n"] = column.values
    row = int(np.argmax((known >= 0) & wanted[known]))
    return row, (column.levels or ())[known[row]]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
