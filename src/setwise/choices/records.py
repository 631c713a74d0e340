"""Choice sets as plain values in the table's own columns: what a service takes, and a sample is."""

from typing import Any

import numpy as np

from setwise.choices.choices import Choices
from setwise.choices.columns import Column

SETS_IN_SAMPLE = 24
ROWS_IN_SAMPLE = 2_400


def few(choices: Choices, sets: int = SETS_IN_SAMPLE) -> Choices:
    """A few sets to show what the data look like: a random sample, always the same.

    Of large sets fewer are taken, so that there are no more than 2,400 rows or a single set.

    >>> import setwise as sw
    >>> few(sw.datasets.generate("mnl", sets=50, items=4, features=2).choices, 3)
    Choices(3 sets of 4 items, 12 rows; items: x0, x1)
    """
    drawn = choices.sample(sets)
    fits = int(np.searchsorted(drawn.offsets, ROWS_IN_SAMPLE, "right")) - 1
    return drawn if fits >= len(drawn) else drawn.take(np.arange(max(fits, 1)))


def records(choices: Choices) -> list[dict[str, Any]]:
    """Every set as ``{"items": [{column: value}], "context": {column: value}, "chosen": place}``.

    Values are numbers, text, dates as text, and None where missing. ``context`` is there if the
    choices have context columns, ``chosen`` if they say what was chosen: the place of the item, or
    None for the outside option.

    >>> import setwise as sw
    >>> records(sw.read({"trip": [7, 7], "cost": [3.0, 1.0], "mode": ["car", "bus"],
    ...                  "taken": [0, 1]}, set="trip", chosen="taken"))
    [{'items': [{'cost': 3.0, 'mode': 'car'}, {'cost': 1.0, 'mode': 'bus'}], 'chosen': 1}]
    """
    items = {name: _plain(column) for name, column in choices.columns.items()}
    context = {name: _plain(column) for name, column in choices.context.items()}
    found = []
    for number, size in enumerate(choices.sizes.tolist()):
        begin = int(choices.offsets[number])
        rows = range(begin, begin + size)
        one: dict[str, Any] = {
            "items": [{name: values[row] for name, values in items.items()} for row in rows]
        }
        if context:
            one["context"] = {name: values[number] for name, values in context.items()}
        if choices.chosen is not None:
            place = int(choices.chosen[number])
            one["chosen"] = place if place < size else None
        found.append(one)
    return found


def _plain(column: Column) -> list[Any]:
    if column.kind == "date":
        days = column.values.astype("datetime64[D]")
        whole = (days == column.values).all()
        return np.datetime_as_string(days if whole else column.values).tolist()
    values = column.text().astype(object)
    values[column.missing] = None
    return values.tolist()
