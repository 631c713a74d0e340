"""Who made which choices: sets of one person are alike, and are drawn again together."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from setwise._errors import InputError
from setwise.choices import Choices, open_table
from setwise.choices.columns import Column
from setwise.choices.validation import Grouping
from setwise.metrics import standard_error

Group = Sequence[Any] | Shaped[np.ndarray, " sets"]
"""One value a set: the person who made the choice, or what else makes sets alike."""


def people(choices: Choices, data: Any, group: str | Group) -> Int[np.ndarray, " sets"]:
    """The number of each set's person, from 0.

    Args:
        choices: the sets.
        data: what they were read from, which may be the choices themselves.
        group: the column that ``read(group=...)`` named, a context column, or, where ``data`` is a
            table, any of its columns that is constant within sets; or one value a set.

    >>> import setwise as sw
    >>> table = {"trip": [1, 1, 2, 2, 3, 3], "cost": [3.0, 1.0, 2.0, 5.0, 4.0, 6.0],
    ...          "taken": [0, 1, 1, 0, 1, 0], "who": ["Ann", "Ann", "Ann", "Ann", "Bob", "Bob"]}
    >>> choices = sw.read(table, set="trip", chosen="taken", items=["cost"], group="who")
    >>> people(choices, choices, "who").tolist()
    [0, 0, 1]
    """
    if not isinstance(group, str):
        return numbered(group, len(choices))
    if choices.group is not None and group == choices.roles.group:
        return numbered(choices.group, len(choices))
    if group in choices.context:
        return numbered(choices.context[group].text(), len(choices))
    if isinstance(data, Choices):
        known = [*([] if choices.group is None else [choices.roles.group]), *choices.context]
        raise InputError(
            f"group='{group}' is no column of these choices with one value a set (they have: "
            f"{', '.join(map(str, known)) or 'none'}); read them with group='{group}', or give "
            "an array with one value a set"
        )
    _, codes = np.unique(open_table(data).ids(group, "group"), return_inverse=True)
    sets = Grouping(choices.roles.set, choices.rows, choices.offsets, choices.set_ids)
    return numbered(sets.once_per_set(Column(codes.reshape(-1)), group).values, len(choices))


def numbered(group: Group, sets: int) -> Int[np.ndarray, " sets"]:
    """The values as numbers from 0, in their order; none may be missing.

    >>> numbered(["Bob", "Ann", "Bob"], 3).tolist()
    [1, 0, 1]
    """
    values = np.asarray(group)
    if values.shape != (sets,):
        raise InputError(
            f"group has shape {values.shape}, but there are {sets} sets; give one value a set"
        )
    missing = np.array([one is None or one != one for one in values.tolist()], bool)
    if missing.any():
        raise InputError(
            f"group is missing at set number {int(np.argmax(missing))} ({int(missing.sum())} such "
            "sets in all); say who chose, or leave these sets out"
        )
    known = values.astype(str) if values.dtype.kind == "O" else values
    return np.unique(known, return_inverse=True)[1].reshape(-1)


def error_of_mean(
    values: Float[np.ndarray, " sets"],
    share: Float[np.ndarray, " sets"],
    group: Shaped[np.ndarray, " sets"] | None,
) -> float:
    """The standard error of a weighted mean v = sum_i p_i v_i over G independent people.

        sqrt(G/(G - 1) sum over people of (sum over their sets i of p_i (v_i - v))^2)

    Without a group every set counts as a person of its own.

    >>> values = np.array([0.0, 1.0, 1.0])
    >>> round(error_of_mean(values, np.full(3, 1 / 3), None), 4)
    0.3333
    >>> round(error_of_mean(np.repeat(values, 4), np.full(12, 1 / 12), np.arange(12) // 4), 4)
    0.3333
    """
    if group is None:
        return standard_error(values, share)
    sums = np.bincount(numbered(group, len(values)), share * (values - values @ share))
    if len(sums) < 2:
        return float("nan")
    return float(np.sqrt(sums @ sums * len(sums) / (len(sums) - 1)))
