"""Which alternative each row is, and numbers for pairs of items of a set."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise._errors import InputError
from setwise._shapes import Bool, Int
from setwise.choices.choices import Choices, Column
from setwise.choices.tables import open_table

OUTSIDE = "outside option"
MISSING = "missing"
MOST = 100  # a larger matrix cannot be read by people, and fills the memory


@dataclass(frozen=True, eq=False)
class Alternatives:
    """Names, and for each row the place of its own among them.

    >>> import setwise as sw
    >>> table = {"trip": [1, 1, 2, 2], "cost": [3.0, 1.0, 2.0, 5.0],
    ...          "mode": ["car", "bus", "bus", "car"], "taken": [0, 1, 1, 0]}
    >>> choices = sw.read(table, set="trip", chosen="taken", items=["cost"])
    >>> found = Alternatives.of(table, choices, "mode")
    >>> found.names, found.codes.tolist()
    (('bus', 'car'), [1, 0, 0, 1])
    """

    names: tuple[str, ...]
    codes: Int[np.ndarray, " rows"]

    @classmethod
    def of(
        cls, data: Any, choices: Choices, by: str | Sequence[str], outside: bool = False
    ) -> "Alternatives":
        """The alternatives of choices read from ``data``, set after set.

        Args:
            data: what the choices were read from: its other columns may name alternatives too.
            choices: the same as choices.
            by: a column, whose levels are the alternatives; or several 0/1 columns (dummies), of
                which each row has exactly one at 1.
            outside: whether the model has an outside option: one more row at the end of each set,
                and one more alternative.
        """
        found = cls._named(data, choices, by)
        return found.with_outside(choices) if outside else found

    @classmethod
    def _named(cls, data: Any, choices: Choices, by: str | Sequence[str]) -> "Alternatives":
        if isinstance(by, str):
            return cls._levels(by, column_of(data, choices, by))
        dummies = np.stack([column_of(data, choices, name).values for name in by], 1)
        wrong = ((dummies != 0) & (dummies != 1)).any(1) | ((dummies == 1).sum(1) != 1)
        if wrong.any():
            row = int(choices.rows[np.argmax(wrong)])
            raise InputError(
                f"row {row} must have 1 in exactly one of the columns {', '.join(by)} and 0 in the "
                "others; give 0/1 columns that tell the alternatives apart, or one column of names",
                row=row,
            )
        return cls(tuple(by), np.argmax(dummies, 1))

    @classmethod
    def _levels(cls, name: str, column: Column) -> "Alternatives":
        if column.levels is None:
            values, codes = np.unique(column.values, return_inverse=True)
            names = tuple(MISSING if one != one else _text(one) for one in values)
        else:
            used = np.unique(column.values)
            codes = np.searchsorted(used, column.values)
            names = tuple(MISSING if code < 0 else column.levels[code] for code in used)
        if len(names) > MOST:
            raise InputError(
                f"column '{name}' has {len(names):,} different values, and each would be an "
                f"alternative of its own; give a column with at most {MOST}, such as bins of it",
                column=name,
            )
        return cls(names, codes.reshape(-1))

    def are(self, wanted: str | Sequence[str]) -> Bool[np.ndarray, " rows"]:
        """Which rows are one of these alternatives."""
        wanted = [wanted] if isinstance(wanted, str) else list(wanted)
        for one in wanted:
            if one not in self.names:
                raise InputError(
                    f"there is no alternative {one!r}; the alternatives are: {shown(self.names)}"
                )
        return np.isin(self.codes, [self.names.index(one) for one in wanted])

    def with_outside(self, choices: Choices) -> "Alternatives":
        """With one more row at the end of each set, for the outside option."""
        ends = choices.offsets[1:]
        return Alternatives((*self.names, OUTSIDE), np.insert(self.codes, ends, len(self.names)))


def shown(names: Sequence[str]) -> str:
    """Some names for an error message.

    >>> shown([str(number) for number in range(12)])
    '0, 1, 2, 3, 4, 5, 6, 7 and 4 more'
    """
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def column_of(data: Any, choices: Choices, name: str) -> Column:
    """A column with one value per row, set after set: a feature, or another of the table's."""
    if name in choices.columns:
        return choices.columns[name]
    if name in choices.context:
        return choices.context[name].take(np.repeat(np.arange(len(choices)), choices.sizes))
    if isinstance(data, Choices):
        known = ", ".join([*choices.columns, *choices.context])
        raise InputError(
            f"these choices have no column '{name}' (they have: {known}); Choices keep features "
            "only, so give the table itself, which may have others",
            column=name,
        )
    return open_table(data).column(name, "by").take(choices.rows)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, np.floating) else str(value)
