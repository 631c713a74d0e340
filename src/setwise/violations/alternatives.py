"""Which alternative each row is, such as the mode of travel: from a column or a vector of names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Shaped

from setwise._errors import InputError
from setwise.choices import Choices

OUTSIDE = "outside option"

Names = str | Sequence[Any] | Shaped[np.ndarray, " rows"]
"""A feature column of the choices, or one name a row of the table that they were read from."""


@dataclass(frozen=True, eq=False)
class Alternatives:
    """The alternative of each encoded row, as a code into ``names``; the outside option is one.

    >>> import setwise as sw
    >>> choices = sw.read({"trip": [1, 1, 2, 2], "mode": ["bus", "car", "car", "air"],
    ...                    "taken": [0, 1, 1, 0]}, set="trip", chosen="taken")
    >>> found = Alternatives.of(choices, "mode")
    >>> found.names, found.codes.tolist()
    (('air', 'bus', 'car'), [1, 2, 2, 0])
    """

    names: tuple[str, ...]
    codes: Int[np.ndarray, " rows"]

    @classmethod
    def of(cls, choices: Choices, names: Names) -> "Alternatives":
        """Look the names up, and check that every row has one."""
        values = _column(choices, names) if isinstance(names, str) else _vector(choices, names)
        missing = np.array([one is None or one != one for one in values.tolist()], bool)
        if missing.any():
            row = int(choices.rows[int(np.argmax(missing))])
            raise InputError(
                f"row {row} of the table has no alternative ({int(missing.sum())} such rows in "
                "all); name it, or leave its set out"
            )
        labels = values.astype(str)
        if choices.outside:
            labels = np.insert(labels.astype(object), choices.offsets[1:], OUTSIDE).astype(str)
        distinct, codes = np.unique(labels, return_inverse=True)
        return cls(tuple(distinct.tolist()), codes.reshape(-1))

    def are(self, wanted: str | Sequence[str]) -> Bool[np.ndarray, " rows"]:
        """Which rows are one of these alternatives."""
        wanted = [wanted] if isinstance(wanted, str) else list(wanted)
        for one in wanted:
            if one not in self.names:
                raise InputError(f"drop={one!r} is no alternative; there are: {shown(self.names)}")
        return np.isin(self.codes, [self.names.index(one) for one in wanted])


def shown(names: Sequence[str]) -> str:
    """Some names for an error message.

    >>> shown([str(number) for number in range(12)])
    '0, 1, 2, 3, 4, 5, 6, 7 and 4 more'
    """
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def _column(choices: Choices, name: str) -> Shaped[np.ndarray, " rows"]:
    if name not in choices.columns:
        raise InputError(
            f"alternatives='{name}' is no item column of these choices (they have: "
            f"{', '.join(choices.columns)}); read it among items=, or give one name a row of the "
            "table as a vector"
        )
    return np.asarray(choices.columns[name].text())


def _vector(choices: Choices, names: Sequence[Any] | np.ndarray) -> Shaped[np.ndarray, " rows"]:
    values, rows = np.asarray(names), choices.rows
    if values.ndim != 1 or len(values) <= int(rows.max()):
        raise InputError(
            f"alternatives has shape {values.shape}, but the table that these choices were read "
            f"from has at least {int(rows.max()) + 1} rows; give one name for each of them"
        )
    return values[rows]
