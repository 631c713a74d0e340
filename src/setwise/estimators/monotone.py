"""The argument ``monotone``: which encoded columns must not raise, or lower, a probability."""

from collections.abc import Mapping

from setwise._arguments import by_name, optional, sign
from setwise._errors import InputError
from setwise.choices import Schema
from setwise.choices.directions import direction

is_monotone = optional(by_name(sign))
"""Check the argument: None, or 1 or -1 by column."""


def encoded_signs(monotone: Mapping[str, int] | None, schema: Schema) -> dict[int, int]:
    """The sign of each encoded item column, by its place.

    A name is that of a number column of the items in the table, or of one encoded number such as
    ``log(price)``. Every encoded column, or term of a utility, that is made of the table's column
    gets a sign: the same where it rises with the column, as logarithms do, and the other where it
    falls. A term that does now the one and now the other is refused.

    >>> import setwise as sw
    >>> choices = sw.datasets.load("modecanada").with_utility("log1p(cost) + I(-ivt / 60)")
    >>> encoded_signs({"cost": -1, "ivt": -1}, sw.Schema.fit(choices))
    {0: -1, 1: 1}
    """
    found: dict[int, int] = {}
    for name, one in (monotone or {}).items():
        places = _places(name, schema)
        for place, towards in places.items():
            wanted = int(one) * towards
            if found.get(place, wanted) != wanted:
                raise InputError(
                    f"monotone= gives '{schema.item_names[place]}' both signs, as part of two "
                    "columns; name one of them"
                )
            found[place] = wanted
    return found


def _places(name: str, schema: Schema) -> dict[int, int]:
    """The encoded columns that are made of a column: 1 if it rises with it, -1 if it falls."""
    raw = [one.feature.column for one in schema.items if one.kind == "number"]
    found: dict[int, int] = {}
    if schema.terms is not None and name in raw:
        for place in schema.terms.depend_on(name):
            term = schema.terms.terms[place]
            towards = direction(term.expression, name)
            if towards is None:
                raise InputError(
                    f"monotone= names '{name}', and the term '{term.name}' of the utility need "
                    "not go one way where it rises, so that no sign of its coefficient is right; "
                    f"leave '{name}' out of monotone=, or write the term with rising functions and "
                    "factors that are never negative"
                )
            found[place] = towards
        return found
    begin, numbers = 0, list(dict.fromkeys(raw))
    for encoder in schema.model_items:
        if encoder.kind == "number" and name in (encoder.feature.column, encoder.names[0]):
            found[begin] = 1
        begin += len(encoder.names)
    if not found:
        raise InputError(
            f"monotone= names '{name}'; it takes columns of numbers among the items: "
            f"{', '.join(numbers) or 'there are none'}"
        )
    return found
