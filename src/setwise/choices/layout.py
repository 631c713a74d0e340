"""The layout of a wide table: which of its columns belong to which feature and alternative.

A pattern is the name of a column with ``{alt}`` where the alternative stands: ``price.{alt}``,
``{alt}_TT``, ``pf{alt}``.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from setwise._arguments import check_all, each, flag, number, optional, text
from setwise._errors import InputError

ALT = "{alt}"
SEPARATORS = "._-: "


@dataclass(frozen=True)
class WideLayout:
    """How one row of a wide table holds a choice set.

    Args:
        alternatives: as they stand in the names of columns, in order.
        columns: the name of each item feature, and the pattern of its columns.
        available: the pattern of the 0/1 columns that say whether an alternative is available.
        fill: what a feature is where an alternative has no column for it.
        codes: values of the choice column and the alternative of each, None for no choice.
        has_set: whether the table has a set column; otherwise sets have the numbers of the rows.
        rank: the pattern of the columns that hold the rank of each alternative.

    >>> layout = WideLayout(("bus", "car"), (("cost", "cost.{alt}"),))
    >>> layout.column("cost", 1), layout.number_of(5)
    ('cost.car', 2)
    """

    alternatives: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    available: str | None = None
    fill: int | float | None = None
    codes: tuple[tuple[Any, str | None], ...] = ()
    has_set: bool = False
    rank: str | None = None

    @property
    def width(self) -> int:
        """The number of alternatives. Cell ``row * width + place`` is an alternative of a row."""
        return len(self.alternatives)

    def number_of(self, cell: int) -> int:
        """The row of the table to which a cell belongs."""
        return cell // self.width if cell >= 0 else cell

    def column(self, name: str, alternative: int) -> str:
        """The column of the wide table that holds a feature of an alternative."""
        return dict(self.columns)[name].replace(ALT, self.alternatives[alternative])

    def columns_of(self, names: Iterable[str]) -> list[str]:
        """The columns of the wide table that hold these item features."""
        known = dict(self.columns)
        return [
            self.column(name, place)
            for name in names
            if name in known
            for place in range(self.width)
        ]

    def is_shape_of(
        self, names: Collection[str], items: Collection[str], needed: Collection[str]
    ) -> bool:
        """Whether a table with these columns is wide.

        Args:
            names: the columns of the table.
            items: the item features that are read.
            needed: the columns that a long table would have.
        """
        is_long = all(one in names for one in needed)
        found = [one in names for one in self.columns_of(items)]
        if not found:  # constants alone
            return not is_long
        whole = any(found) if self.fill is not None else all(found)  # some need not be there
        return whole or (any(found) and not is_long)

    def about(self, error: InputError, cell: int) -> InputError:
        """An error about a feature of a cell as an error about a column of the wide table."""
        name = error.column
        if name not in dict(self.columns) or cell < 0:
            return error
        pattern, column = dict(self.columns)[name], self.column(name, cell % self.width)
        said = (
            str(error).replace(f"'{name}'", f"'{column}'", 1).replace(f"({name})", f"({pattern})")
        )
        return InputError(said, row=error.row, column=column, set=error.set)

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "WideLayout":
        """The layout of which a file has these values."""
        checks = {
            "alternatives": each(text, least=1), "available": optional(text),
            "fill": optional(number()), "has_set": flag, "rank": optional(text),
        }  # fmt: skip
        plain = {"rank": None} | dict(plain)  # older files have none
        check_all(checks, plain)
        pairs = {name: tuple(tuple(one) for one in plain[name]) for name in ("columns", "codes")}
        if not all(
            len(pair) == 2 and all(isinstance(one, str) for one in pair)
            for pair in pairs["columns"]
        ):
            raise InputError("the columns of a wide table are not names with patterns")
        if not all(
            len(pair) == 2 and isinstance(pair[1], (str, type(None))) for pair in pairs["codes"]
        ):
            raise InputError("the codes of a wide table are not values with alternatives")
        made = cls(**{**plain, "alternatives": tuple(plain["alternatives"]), **pairs})
        if not all(ALT in pattern for _, pattern in made.columns):
            raise InputError("a pattern of a wide table has no {alt}")
        return made


def feature_name(pattern: str) -> str:
    """What a pattern is without ``{alt}`` and the separators next to it.

    >>> [feature_name(one) for one in ("price.{alt}", "{alt}_TT", "pf{alt}", "q_{alt}_cost")]
    ['price', 'TT', 'pf', 'q_cost']
    """
    left, _, right = pattern.partition(ALT)
    first, last = left.rstrip(SEPARATORS), right.lstrip(SEPARATORS)
    between = (left[len(first) :] or right[: len(right) - len(last)])[:1]
    return f"{first}{between}{last}" if first and last else first or last


def alternatives_in(
    patterns: Sequence[str], names: Sequence[str], taken: Collection[str | None]
) -> list[str]:
    """The alternatives that columns name, in the order of the columns.

    A column belongs to the pattern that says the most about it: ``old_price_1`` to
    ``old_price_{alt}`` rather than to ``{alt}_price_1``. Columns that are ``taken`` have other
    roles.

    >>> alternatives_in(["{alt}_TT", "{alt}_CO"], ["ID", "SM_TT", "CAR_TT", "CAR_CO"], ["ID"])
    ['SM', 'CAR']
    """
    most_said_first = sorted(patterns, key=len, reverse=True)
    found: dict[str, None] = {}
    for name in names:
        matches = (alternative_of(pattern, name) for pattern in most_said_first)
        one = next((one for one in matches if one), None)
        if one is not None and name not in taken:
            found[one] = None
    return list(found)


def alternative_of(pattern: str, name: str) -> str | None:
    """The alternative of a column; None if the pattern does not fit.

    >>> alternative_of("{alt}_TT", "CAR_TT"), alternative_of("{alt}_TT", "CAR_CO")
    ('CAR', None)
    """
    left, _, right = (re.escape(part) for part in pattern.partition(ALT))
    match = re.fullmatch(f"{left}(.+){right}", name, re.DOTALL)
    return match[1] if match else None


def numbered(alternatives: Iterable[str]) -> list[str]:
    """Those that are only numbered.

    >>> numbered(["1", "2", "rest"])
    ['1', '2']
    """
    return [one for one in alternatives if one.isdecimal()]
