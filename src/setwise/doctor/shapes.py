"""What shape a table seems to have, and the call that would read it.

A wide table has groups of columns whose names differ in the alternative alone, and a column that
names the alternative that was chosen. A long table has a 0/1 column with one 1 in each set.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from setwise.choices.layout import ALT, SEPARATORS, alternatives_in, feature_name
from setwise.choices.reshaping import NO_CHOICE, plain
from setwise.doctor.source import open_source

if TYPE_CHECKING:
    import polars as pl

    from setwise.doctor.source import Source

Columns = Mapping[str, "pl.Series"]
CHOICE = re.compile(r"choice|chosen|chose|mode|select|pick", re.IGNORECASE)
AVAILABLE = re.compile(r"av|avail|available|availability", re.IGNORECASE)
PERSON = re.compile(r"(.*[_.])?id|person|people|respondent|individual|user", re.IGNORECASE)
MOST_CONTEXT = 6


@dataclass(frozen=True)
class Call:
    """A call that reads a table: the function and its arguments.

    >>> call = Call("read", {"set": "trip", "chosen": "taken"})
    >>> call.python("trips.csv")
    'sw.read("trips.csv", set="trip", chosen="taken")'
    >>> call.command("trips.csv")
    'setwise fit trips.csv --out model.setwise --set trip --chosen taken'
    """

    function: str
    arguments: Mapping[str, Any]

    def python(self, table: str) -> str:
        """As it is written in Python."""
        first = f'"{table}"' if "." in table else "table"
        return f"sw.{self.function}({', '.join([first, *self._given()])})"

    def command(self, table: str) -> str:
        """As it is written on the command line."""
        parts = [f"setwise fit {table if '.' in table else 'TABLE'} --out model.setwise"]
        for name, value in self.arguments.items():
            text = value
            if isinstance(value, dict):
                text = ",".join(f"{code}={one}" for code, one in value.items())
            elif isinstance(value, list):
                text = ",".join(value)
            quote = '"' if re.search(r"[^\w.-]", text) else ""
            parts.append(f"--{name.replace('_', '-')} {quote}{text}{quote}")
        return " ".join(parts)

    def written(self, table: str) -> str:
        """In both ways, with a word about what is only guessed."""
        check = " (check which code is which)" if "alternatives" in self.arguments else ""
        return f"{self.python(table)}{check}, on the command line: {self.command(table)}"

    def _given(self) -> Iterator[str]:
        for name, value in self.arguments.items():
            if isinstance(value, dict):
                pairs = (f"{one}: {_quoted(other)}" for one, other in value.items())
                yield f"{name}={{{', '.join(pairs)}}}"
            elif isinstance(value, list):
                yield f"{name}=[{', '.join(map(_quoted, value))}]"
            else:
                yield f"{name}={_quoted(value)}"


def suggestion(table: Any, label: str) -> str:
    """The end of an error that says how the table could be read; empty if nothing fits.

    >>> table = {"mode": ["car", "bus", "car"], "cost.bus": [2, 1, 3], "cost.car": [3, 4, 5]}
    >>> suggestion(table, "a table")
    '; it looks like a wide table, with one row per choice: sw.read_wide(table, chosen="mode", \
items=["cost.{alt}"]), on the command line: setwise fit TABLE --out model.setwise --chosen mode \
--items "cost.{alt}"'
    """
    call = guess(open_source(table))
    if call is None:
        return ""
    shape = "wide table, with one row per choice" if call.function == "read_wide" else "long table"
    return f"; it looks like a {shape}: {call.written(label)}"


def guess(source: "Source") -> Call | None:
    """The call that seems to read this table."""
    columns = source.head()
    if not source.rows:
        return None
    return _long(columns) or wide(columns)


def wide(columns: Columns) -> Call | None:
    """The call that reads a wide table; None if the columns have no such pattern."""
    found = _patterns(list(columns))
    best: tuple[tuple[int, int], list[str], str, dict[str, str] | None] | None = None
    for of_pattern in found.values():
        alternatives = list(of_pattern)
        same = [one for one in found.values() if one.keys() == of_pattern.keys()]
        taken = {name for one in same for name in one.values()}
        rest = {name: series for name, series in columns.items() if name not in taken}
        choice = _choice(rest, alternatives)
        if choice is None:
            continue
        name, codes = choice
        score = (2 if codes is None else 1, len(same) * len(alternatives))
        if best is None or score > best[0]:
            best = score, alternatives, name, codes
    if best is None:
        return None
    return Call("read_wide", _arguments(columns, found, *best[1:]))


def _patterns(names: list[str]) -> dict[str, dict[str, str]]:
    """Every pattern that fits several columns, with the column of each alternative."""
    found: dict[str, dict[str, str]] = {}
    for name in names:
        for match in re.finditer(f"[{re.escape(SEPARATORS)}]+|\\d+", name):
            before, after = name[: match.start()], name[match.end() :]
            if match[0].isdecimal():
                if before or after:
                    found.setdefault(f"{before}{ALT}{after}", {})[match[0]] = name
            elif before and after:
                found.setdefault(f"{before}{match[0]}{ALT}", {})[after] = name
                found.setdefault(f"{ALT}{match[0]}{after}", {})[before] = name
    return {pattern: columns for pattern, columns in found.items() if len(columns) > 1}


def _choice(columns: Columns, alternatives: list[str]) -> tuple[str, dict[str, str] | None] | None:
    """The column that says what was chosen, and its codes where it does not name alternatives."""
    coded = None
    for name in sorted(columns, key=lambda name: not CHOICE.search(name)):
        series = columns[name]
        values = _values(series, 3 * len(alternatives))
        known = [one for one in values if one not in NO_CHOICE]
        if len(known) > 1 and {*known} <= {plain(one) for one in alternatives}:
            return name, None
        numbers = sorted(known, key=lambda one: (len(one), one))
        numeric = len(known) == len(alternatives) and all(map(str.isdecimal, known))
        if CHOICE.search(name) and numeric:
            coded = coded or (name, dict(zip(numbers, alternatives, strict=True)))
    return coded


def _arguments(
    columns: Columns,
    found: Mapping[str, Mapping[str, str]],
    alternatives: list[str],
    chosen: str,
    codes: dict[str, str] | None,
) -> dict[str, Any]:
    same = {pattern: one for pattern, one in found.items() if {*one} == {*alternatives}}
    partly = {pattern: one for pattern, one in found.items() if {*one} <= {*alternatives}}
    available = next(
        (
            pattern
            for pattern, of_pattern in partly.items()
            if AVAILABLE.fullmatch(feature_name(pattern))
            and all({*_values(columns[name], 4)} <= {"0", "1"} for name in of_pattern.values())
        ),
        None,
    )
    given: dict[str, Any] = {"chosen": chosen}
    given["items"] = [pattern for pattern in same if pattern != available]
    if codes is not None:  # in the order of the columns that are read
        in_order = [
            one
            for one in alternatives_in(given["items"], list(columns), ())
            if one in codes.values()
        ]
        given["alternatives"] = dict(zip(codes, in_order, strict=True))
    if available is not None:
        given["available"] = available
    taken = {name for one in partly.values() for name in one.values()} | {chosen}
    rest = [name for name in columns if name not in taken]
    person = next((name for name in rest if PERSON.fullmatch(name)), None)
    if person is not None:
        repeats = columns[person].n_unique() < len(columns[person])
        given["group" if repeats else "set"] = person
    context = [name for name in rest if name != person and columns[name].null_count() == 0]
    if 0 < len(context) <= MOST_CONTEXT:
        given["context"] = context
    if {*NO_CHOICE} & {*_values(columns[chosen], 100)} or columns[chosen].null_count():
        given["on_none"] = "drop"
    return given


def _long(columns: Columns) -> Call | None:
    """The first set and chosen columns for which every set but the last has one choice."""
    import polars as pl

    marked = [name for name, series in columns.items() if {*_values(series, 3)} == {"0", "1"}]
    marked.sort(key=lambda name: not CHOICE.search(name))
    for chosen in marked:
        ones = columns[chosen].cast(pl.Int64, strict=False)
        for name, series in columns.items():
            if name in marked or series.dtype.is_float():
                continue
            sets = pl.DataFrame({"set": series, "ones": ones}).filter(pl.col("set") != series[-1])
            each = sets.group_by("set").agg(pl.col("ones").sum(), pl.len())
            if len(each) > 1 and (each["ones"] == 1).all() and (each["len"] > 1).all():
                return Call("read", {"set": name, "chosen": chosen})
    return None


def _values(series: "pl.Series", most: int) -> list[str]:
    """The different values as text, in order; nothing if there are more than ``most``."""
    import polars as pl

    if series.dtype == pl.Boolean:
        series = series.cast(pl.Int64)
    values = series.drop_nulls().unique(maintain_order=True)
    return [plain(one) for one in values.to_list()] if len(values) <= most else []


def _quoted(text: Any) -> str:
    return f'"{text}"'
