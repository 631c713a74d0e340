"""Alternatives of a test of IIA, such as modes of travel: from a column or a vector of names."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Shaped

from setwise._errors import InputError
from setwise.choices import Choices
from setwise.choices.alternatives import Alternatives

Names = str | Sequence[Any] | Shaped[np.ndarray, " rows"]
"""A feature column of the choices, or one name a row of the table that they were read from."""


def named_alternatives(choices: Choices, names: Names) -> Alternatives:
    """The alternative of each encoded row; the outside option is one, and none may be missing.

    >>> import setwise as sw
    >>> choices = sw.read({"trip": [1, 1, 2, 2], "mode": ["bus", "car", "car", "air"],
    ...                    "taken": [0, 1, 1, 0]}, set="trip", chosen="taken")
    >>> found = named_alternatives(choices, "mode")
    >>> found.names, found.codes.tolist()
    (('air', 'bus', 'car'), [1, 2, 2, 0])
    """
    values = _column(choices, names) if isinstance(names, str) else _vector(choices, names)
    missing = np.array([one is None or one != one for one in values.tolist()], bool)
    if missing.any():
        row = int(choices.rows[int(np.argmax(missing))])
        raise InputError(
            f"row {row} of the table has no alternative ({int(missing.sum())} such rows in "
            "all); name it, or leave its set out"
        )
    distinct, codes = np.unique(values.astype(str), return_inverse=True)
    found = Alternatives(tuple(distinct.tolist()), codes.reshape(-1))
    return found.with_outside(choices) if choices.outside else found


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
