"""Which way a column should move the probability of its item: as given, or by its name."""

import re
from collections.abc import Mapping

from setwise._errors import InputError
from setwise.choices import Schema
from setwise.consequences.elasticities import place_of

PRICES = ("price", "cost", "fare", "fee", "toll", "rent")
LESS = (*PRICES, "time", "duration", "wait", "waiting", "distance", "delay", "ivt", "ovt",
        "headway", "transfers")  # fmt: skip
MORE = ("stars", "star", "starrating", "rating", "score", "quality", "review")


def signs_by_name(schema: Schema) -> dict[str, int]:
    """The signs that names of number columns suggest; other columns have none.

    >>> import setwise as sw
    >>> signs_by_name(sw.Schema.fit(sw.datasets.load("modecanada")))
    {'cost': -1, 'ivt': -1, 'ovt': -1}
    """
    found = {}
    for name in numbers(schema):
        words = _words(name)
        if words & set(LESS):
            found[name] = -1
        elif words & set(MORE):
            found[name] = 1
    return found


def price_by_name(schema: Schema) -> str | None:
    """The column of prices, if just one number column has a name of one."""
    found = [name for name in numbers(schema) if _words(name) & set(PRICES)]
    return found[0] if len(found) == 1 else None


def numbers(schema: Schema) -> list[str]:
    """The number columns of the items, as in the table."""
    named = [one.feature.column for one in schema.items if one.kind == "number"]
    return list(dict.fromkeys(named))


def check_signs(signs: Mapping[str, int], schema: Schema) -> None:
    """Refuse a sign of what is not a number column of the items."""
    for column in signs:
        if column not in numbers(schema):
            place_of(schema, column)  # says why not, and what there is
            raise InputError(f"column '{column}' is no number among the items")


def _words(name: str) -> set[str]:
    """The words of a name, in small letters.

    >>> sorted(_words("travelTime_min"))
    ['min', 'time', 'travel']
    """
    parts = re.split(r"[^a-zA-Z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name))
    return {one.lower() for one in parts if one}
