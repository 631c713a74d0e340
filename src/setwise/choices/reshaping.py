"""From a wide table to a long one: one row per alternative that is available.

Columns are typed in the wide table, so that errors name its rows and columns. Everything else is
checked where long tables are.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from setwise._errors import InputError
from setwise._shapes import Bool, Int, Shaped
from setwise.choices.choices import Column
from setwise.choices.features import Feature, Roles
from setwise.choices.layout import ALT, WideLayout, numbered
from setwise.choices.rankings import rank_column
from setwise.choices.tables import Table, listed
from setwise.choices.validation import Irregular, refuse

NO_CHOICE = ("", "0")
"""Values of a choice column that stand for no alternative, unless one has this name or code."""


@dataclass(frozen=True, eq=False)
class Cells:
    """The alternatives that are available, row after row: each is a row of the long table.

    >>> from setwise.choices.tables import open_table
    >>> layout = WideLayout(("bus", "car"), (("cost", "cost.{alt}"),), available="{alt}_AV")
    >>> cells = Cells.of(layout, open_table({"cost.bus": [1, 2], "cost.car": [3, 4],
    ...                                      "car_AV": [1, 0]}))
    >>> cells.rows.tolist(), cells.places.tolist()
    ([0, 0, 1], [0, 1, 0])
    """

    rows: Int[np.ndarray, " cells"]
    """The row of the wide table."""
    places: Int[np.ndarray, " cells"]
    """The place of the alternative."""

    @classmethod
    def of(cls, layout: WideLayout, table: Table) -> "Cells":
        """The cells of a wide table; a row without any is an error."""
        available = _available(layout, table)
        empty = ~available.any(1)
        if empty.any():
            row = int(np.argmax(empty))
            raise InputError(
                f"row {row} has no available alternative ({int(empty.sum()):,} such rows in all); "
                "correct its availability, or leave it out",
                row=row,
            )
        rows, places = np.nonzero(available)
        return cls(rows, places)


class LongTable(Table):
    """A wide table as a long one, with the columns that the roles name.

    Args:
        roles: of the columns, with their layout in ``roles.wide``.
        table: the wide table.
        irregular: what to do with rows that chose no alternative.
        outside: whether choosing nothing is an alternative of its own.
        names: columns whose text is known to be names.
    """

    def __init__(
        self,
        roles: Roles,
        table: Table,
        irregular: Irregular,
        outside: bool = False,
        names: Collection[str] = (),
    ):
        assert roles.wide is not None
        self.layout, self._roles = roles.wide, roles
        self.cells = Cells.of(self.layout, table)
        rows = self.cells.rows
        made: dict[str, Column] = {}
        for feature in roles.items:
            if feature.column != roles.alternative:
                made[feature.column] = self._stacked(feature, table, feature.column in names)
        for feature in roles.context:
            around, known = feature.column, feature.column in names
            made[around] = table.column(around, "context", feature.category, known).take(rows)
        if roles.weight is not None:
            made.setdefault(roles.weight, table.column(roles.weight, "weight").take(rows))
        if roles.alternative is not None:
            made[roles.alternative] = Column(self.cells.places, self.layout.alternatives)
        if roles.chosen is not None:
            needed = _needs_choice(irregular, outside)
            made[roles.chosen] = self._marked(_chosen(roles, table, "chosen", needed), roles.chosen)
        if roles.worst is not None:
            needed = _needs_choice(irregular, outside)
            made[roles.worst] = self._marked(_chosen(roles, table, "worst", needed), roles.worst)
        if roles.rank is not None:
            made[roles.rank] = self._ranks(table)
        ids = {roles.set: self._sets(table)[rows]}
        for role, name in (("group", roles.group), ("time", roles.time)):
            if name is not None and name != roles.set:
                ids[name] = table.ids(name, role)[rows]
        super().__init__({**made, **ids}, len(rows))

    def column(
        self, name: str, role: str, as_category: bool = False, names: bool = False
    ) -> Column:
        """A column, which already has its type."""
        column: Column = self.series(name, role)
        return column

    def ids(self, name: str, role: str) -> Shaped[np.ndarray, " rows"]:
        """A column of identifiers, which were checked."""
        values: np.ndarray = self.series(name, role)
        return values

    @property
    def numbers(self) -> Int[np.ndarray, " rows"]:
        """The number of each cell, which says its row and its alternative."""
        return self.cells.rows * self.layout.width + self.cells.places

    @contextmanager
    def naming_wide(self) -> Iterator[None]:
        """Errors about rows and columns of this table become errors about the wide table."""
        try:
            yield
        except InputError as error:
            found = error.moved(self.cells.rows)
            if error.row is not None:
                found = self.layout.about(found, int(self.numbers[error.row]))
            raise found from None

    def _stacked(self, feature: Feature, table: Table, names: bool) -> Column:
        """The columns of a feature, one per alternative, as one column."""
        parts: list[Column | None] = []
        wide = [self.layout.column(feature.column, at) for at in range(self.layout.width)]
        missing = [name for name in wide if name not in table.names]
        if missing and (self.layout.fill is None or len(missing) == len(wide)):
            raise _no_columns(self.layout, feature.column, missing, table.names)
        pattern = dict(self.layout.columns)[feature.column]
        for name in wide:
            known = name in table.names
            parts.append(_typed(table, name, pattern, feature.category, names) if known else None)
        kind = _common_kind(wide, parts, pattern)
        if kind == "category":
            return self._categories(parts, pattern)
        values = np.full((table.rows, len(parts)), np.nan)
        if kind == "date":
            values = np.full(values.shape, np.datetime64("NaT"), "datetime64[s]")
        for at, part in enumerate(parts):
            if part is None:
                values[:, at] = self._filled(kind, pattern)
            elif part.kind == kind:
                values[:, at] = part.values
        return Column(values[self.cells.rows, self.cells.places])

    def _marked(self, chosen: Int[np.ndarray, " wide"], name: str) -> Column:
        """1 for the cells of the alternatives that a column names."""
        self._check_available(chosen, name)
        return Column((chosen[self.cells.rows] == self.cells.places).astype(np.float64))

    def _ranks(self, table: Table) -> Column:
        """The columns of ranks as one; an alternative without such a column was not ranked."""
        pattern = self.layout.rank
        assert pattern is not None
        wide = [pattern.replace(ALT, one) for one in self.layout.alternatives]
        if not any(name in table.names for name in wide):
            raise InputError(
                f"rank='{pattern}' fits no column of the alternatives "
                f"{listed(self.layout.alternatives)}; the table has: {listed(table.names)}"
            )
        values = np.full((table.rows, len(wide)), np.nan)
        for at, name in enumerate(wide):
            if name in table.names:
                values[:, at] = rank_column(table, name)
        return Column(values[self.cells.rows, self.cells.places])

    def _categories(self, parts: Sequence[Column | None], pattern: str) -> Column:
        levels = sorted(
            {level for part in parts if part is not None for level in part.levels or ()}
        )
        place = {level: code for code, level in enumerate(levels)}
        rows = next(len(part.values) for part in parts if part is not None)
        codes = np.full((rows, len(parts)), -1, np.int32)
        for at, part in enumerate(parts):
            if part is None:
                self._filled("category", pattern)
            elif part.levels is not None:
                own = np.array([*(place[level] for level in part.levels), -1], np.int32)
                codes[:, at] = own[part.values]
        return Column(codes[self.cells.rows, self.cells.places], tuple(levels))

    def _filled(self, kind: str, pattern: str) -> int | float:
        fill = self.layout.fill
        if kind != "number" or fill is None:
            raise InputError(
                f"fill={fill} is a number, but the columns of '{pattern}' hold "
                f"{'text' if kind == 'category' else 'dates'}; add the columns that are missing"
            )
        return fill

    def _sets(self, table: Table) -> Shaped[np.ndarray, " wide"]:
        if not self.layout.has_set:
            return np.arange(table.rows)
        name = self._roles.set
        ids = table.ids(name, "set")
        _, first = np.unique(ids, return_index=True)
        again = np.ones(len(ids), bool)
        again[first] = False
        if again.any():
            row = int(np.argmax(again))
            before = int(np.argmax(ids == ids[row]))
            raise InputError(
                f"set '{name}'={ids[row]} is at row {before} and again at row {row}, but each row "
                "of a wide table is a choice of its own; leave set= out (a person who chooses "
                "several times goes in group=)",
                row=before,
                column=name,
                set=ids[row],
                also_rows=[row],
            )
        return ids

    def _check_available(self, chosen: Int[np.ndarray, " wide"], name: str) -> None:
        here = np.zeros((len(chosen), self.layout.width), bool)
        here[self.cells.rows, self.cells.places] = True
        wrong = (chosen >= 0) & ~here[np.arange(len(chosen)), chosen]
        if wrong.any():
            row = int(np.argmax(wrong))
            one = self.layout.alternatives[chosen[row]]
            column = (self.layout.available or "").replace(ALT, one)
            raise InputError(
                f"column '{name}' says at row {row} that '{one}' was chosen, but '{column}' says "
                f"that it is not available ({int(wrong.sum()):,} such rows in all); correct one of "
                "them, or leave such rows out",
                row=row,
                column=name,
            )


def _typed(table: Table, name: str, pattern: str, as_category: bool, names: bool) -> Column:
    """A column of the wide table; a remedy is about all columns of its pattern."""
    try:
        return table.column(name, "item", as_category, names)
    except InputError as error:
        raise InputError(
            str(error).replace(f"({name})", f"({pattern})"),
            row=error.row,
            column=error.column,
            also_rows=error.also_rows,
        ) from None


def _needs_choice(irregular: Irregular, outside: bool) -> bool:
    return irregular.on_none == "error" and not outside


def _available(layout: WideLayout, table: Table) -> Bool[np.ndarray, "rows alternatives"]:
    found = np.ones((table.rows, layout.width), bool)
    if layout.available is None:
        return found
    known = [layout.available.replace(ALT, one) for one in layout.alternatives]
    if not any(name in table.names for name in known):
        raise InputError(
            f"available='{layout.available}' fits no column of the alternatives "
            f"{listed(layout.alternatives)}; the table has: {listed(table.names)}"
        )
    for at, name in enumerate(known):
        if name in table.names:
            column = table.column(name, "availability")
            remedy = "availability is 0 or 1"
            numbers = column.values if column.kind == "number" else np.full(table.rows, np.nan)
            refuse(name, ~np.isin(numbers, (0, 1)), "neither 0 nor 1", remedy)
            found[:, at] = numbers == 1
    return found


def _no_columns(
    layout: WideLayout, name: str, missing: Sequence[str], names: Sequence[str]
) -> InputError:
    pattern = dict(layout.columns)[name]
    these = listed([one for one in layout.alternatives if pattern.replace(ALT, one) in missing])
    if len(missing) == layout.width:
        remedy = "correct the pattern, or name the alternatives with alternatives="
    else:
        remedy = (
            f"add {listed(missing)}, say with fill=0 what they get, or leave alternatives out with "
            "alternatives="
        )
    return InputError(
        f"pattern '{pattern}' has no column for {these} (the table has: {listed(names)}); {remedy}",
        column=missing[0],
    )


def _common_kind(wide: Sequence[str], parts: Sequence[Column | None], pattern: str) -> str:
    """The kind of the columns of a feature; those in which nothing is fit any kind."""
    kinds = {
        name: part.kind
        for name, part in zip(wide, parts, strict=True)
        if part is not None and not part.missing.all()
    }
    first = next(iter(kinds), None)
    for name, kind in kinds.items():
        if first is not None and kind != kinds[first]:
            raise InputError(
                f"column '{first}' is a {kinds[first]}, but '{name}' is a {kind}; the columns of "
                f"'{pattern}' are one feature: make them one type, or use category({pattern})",
                column=name,
            )
    return "number" if first is None else kinds[first]


def _chosen(
    roles: Roles, table: Table, role: Literal["chosen", "worst"], needed: bool
) -> Int[np.ndarray, " rows"]:
    """The place of the alternative that each row chose, -1 where it chose none."""
    layout, name = roles.wide, getattr(roles, role)
    assert layout is not None
    column = table.column(name, role, as_category=True)
    place = {one: at for at, one in enumerate(layout.alternatives)}
    if layout.codes:
        meaning = {plain(code): -1 if one is None else place[one] for code, one in layout.codes}
    else:
        meaning = {plain(one): at for one, at in place.items()}
    levels = [plain(level) for level in column.levels or ()]
    none = dict.fromkeys(NO_CHOICE, -1)
    unknown = [level for level in levels if level not in none | meaning]
    if unknown:
        code = levels.index(unknown[0])
        raise _no_alternative(layout, name, levels, code, int(np.argmax(column.values == code)))
    codes = np.array([*((none | meaning)[level] for level in levels), -1], np.int64)
    chosen = codes[column.values]
    if needed and (chosen < 0).any():
        row = int(np.argmax(chosen < 0))
        value = column.text()[row]
        count = int((chosen < 0).sum()) - 1
        raise InputError(
            f"column '{name}' is {'missing' if value is None else value or 'empty'} at row {row}"
            f"{f' (and {count:,} more)' if count else ''}, which is not an alternative (expected: "
            f'{listed(list(meaning))}); use on_none="drop" to skip such rows, or '
            'on_none="outside" if choosing nothing was possible',
            row=row,
            column=name,
        )
    return chosen


def _no_alternative(
    layout: WideLayout, name: str, levels: Sequence[str], code: int, row: int
) -> InputError:
    """What to say of a value in the choice column that no alternative has."""
    expected = [str(one) for one, _ in layout.codes] or list(layout.alternatives)
    numbers = [level for level in levels if level.isdecimal() and level != "0"]
    remedy = "correct it, or leave such rows out"
    if not layout.codes and len(numbers) == len([one for one in levels if one not in NO_CHOICE]):
        pairs = list(zip(numbers, layout.alternatives, strict=False))
        if len(numbered(layout.alternatives)) < layout.width:
            said = ", ".join(f"{one}: {other!r}" for one, other in pairs)
            option = ",".join(f"{one}={other}" for one, other in pairs)
            remedy = (
                f"say which code is which, such as alternatives={{{said}}} (on the command line "
                f'--alternatives "{option}")'
            )
    elif layout.codes:
        remedy = (
            f"add it to alternatives=, with None ({levels[code]!r}: None) if it means no choice"
        )
    return InputError(
        f"column '{name}' is {levels[code]!r} at row {row}, which is not an alternative (found: "
        f"{listed(levels)}; expected: {listed(expected)}); {remedy}",
        row=row,
        column=name,
    )


def plain(value: Any) -> str:
    """A value of the choice column, or a code for one, as text: 2, 2.0 and "2" are the same.

    >>> [plain(one) for one in (2, 2.0, "2.0", "car")]
    ['2', '2', '2', 'car']
    """
    said = str(value)
    try:
        number = float(said)
    except ValueError:
        return said
    return str(int(number)) if number.is_integer() else said
