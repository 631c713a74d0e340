"""One item at a time is changed, all else stays: how sets respond, for any model.

Each item gets a copy of its set in which it alone is different. Elasticities of models with steps
are made of it, and the audit's steps in a column.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from setwise._segments import offsets_of
from setwise.choices import Choices, Encoded
from setwise.choices.choices import Column, rows_of
from setwise.estimators import Estimator

ROWS_AT_A_TIME = 1 << 17


class Responded(NamedTuple):
    """Sets in which one item was changed, for some of the items; rows are flat, set after set."""

    some: Int[np.ndarray, " copies"]
    """Which of the items that were asked for."""
    sets: Int[np.ndarray, " copies"]
    sizes: Int[np.ndarray, " copies"]
    logs: list[Float[np.ndarray, " rows"]]
    """log P after each of the changes."""

    @property
    def first(self) -> Int[np.ndarray, " copies"]:
        """Where each copy begins."""
        return offsets_of(self.sizes)[:-1]


def one_by_one(
    estimator: Estimator,
    encoded: Encoded,
    rows: Int[np.ndarray, " items"],
    ends: Sequence[Float[np.ndarray, "items d"]],
) -> Iterator[Responded]:
    """For these rows, log P of their sets when the row alone is as in each of ``ends``.

    Args:
        estimator: a fitted model.
        encoded: the sets.
        rows: which of their rows to change, one after the other.
        ends: what each of these rows becomes.
    """
    of_set = np.searchsorted(encoded.offsets, rows, "right") - 1
    parts = np.cumsum(encoded.sizes[of_set]) // ROWS_AT_A_TIME
    for some in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(parts)) + 1):
        sets = of_set[some]
        logs = [
            estimator.row_log_probabilities(_with_each(encoded, rows[some], end[some])).astype(
                np.float64
            )
            for end in ends
        ]
        yield Responded(some, sets, encoded.sizes[sets], logs)


def _with_each(
    encoded: Encoded, rows: Int[np.ndarray, " copies"], changed: Float[np.ndarray, "copies d"]
) -> Encoded:
    """For each of these rows, a copy of its set in which it is as in ``changed``."""
    sets = np.searchsorted(encoded.offsets, rows, "right") - 1
    sizes = encoded.sizes[sets]
    offsets = offsets_of(sizes)
    items = encoded.items[rows_of(encoded.offsets[sets], sizes)]
    items[offsets[:-1] + rows - encoded.offsets[sets]] = changed
    return Encoded(items, encoded.context[sets], offsets, None, None)


def own_log_probabilities(
    estimator: Estimator,
    choices: Choices,
    column: str,
    rows: Int[np.ndarray, " items"],
    values: Float[np.ndarray, "ends items"],
) -> Float[np.ndarray, "ends items"]:
    """log P of items after their own value of a column, and nothing else, became another.

    Args:
        estimator: a fitted model.
        choices: the sets, in memory.
        column: a number column of the items.
        rows: the items to change, by their row in the choices.
        values: what each becomes, one row per change. The terms of a utility follow the column.

    >>> import setwise as sw
    >>> choices = sw.read({"set": [1, 1], "price": [1.0, 2.0], "taken": [1, 0]}, set="set",
    ...                   chosen="taken")
    >>> same = own_log_probabilities(sw.RandomChoice().fit(choices), choices, "price",
    ...                              np.array([0]), np.array([[1.0], [9.0]]))
    >>> np.exp(same).round(2).tolist()
    [[0.5], [0.5]]
    """
    schema = estimator.schema_
    encoded = schema.encode(choices)
    real = np.flatnonzero(schema.real_rows(encoded))  # the choices' rows among the encoded ones
    old = choices.columns[column].values.astype(np.float64)
    ends = []
    for value in values:
        new = old.copy()
        new[rows] = value
        changed = replace(choices, columns={**choices.columns, column: Column(new)})
        ends.append(schema.encode(changed).items[real[rows]])
    found = np.empty(values.shape)
    for one in one_by_one(estimator, encoded, real[rows], ends):
        at = one.first + real[rows[one.some]] - encoded.offsets[one.sets]
        for end, logs in enumerate(one.logs):
            found[end, one.some] = logs[at]
    return found
