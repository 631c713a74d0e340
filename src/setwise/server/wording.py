"""Errors of shape as sentences: msgspec says what is wrong, the client is told where and how."""

import re
from collections.abc import Sequence

from setwise.server.refusals import Refused

_WORDS = {
    "str": "text", "int": "a whole number", "float": "a number", "bool": "true or false",
    "null": "null", "array": "a list", "object": "an object", "bool | float": "a number",
    "bool | float | null": "a number or null", "str | null": "text or null",
    "bool | int | float | str": "text or a number", "int | null": "a whole number or null",
    "bool | int | float | str | null": "text, a number or null",
}  # fmt: skip


def wrong_shape(error: str, columns: Sequence[str], context: Sequence[str]) -> Refused:
    """msgspec's error as a refusal that names set, item and column.

    >>> error = "Expected `bool | float`, got `str` - at `$.sets[3].items[0].price`"
    >>> refused = wrong_shape(error, ["price", "stars"], [])
    >>> refused.message
    "'price' of item 0 of set 3 is text; give a number"
    >>> refused.where
    'sets[3].items[0].price'
    """
    found = re.fullmatch(r"(.*?)(?: - at `\$\.?(.*)`)?", error, re.DOTALL)
    assert found is not None
    what, path = found[1], found[2] or ""
    if match := re.fullmatch(
        r"Object (?:missing required|contains (unknown)) field `(.*)`", what, re.DOTALL
    ):
        path = f"{path}.{match[2]}" if path else match[2]
        why = "is not known; leave it out" if match[1] else "is missing; add it"
        sentence = f"{why} ({_known(path, columns, context)})"
    elif match := re.fullmatch("Expected `(.*)`, got `(.*)`", what):
        wanted, given = (_WORDS.get(word, word) for word in match.groups())
        sentence = f"is {given}; give {wanted}"
    elif "of length >= 1" in what:
        sentence = "is empty; give at least one"
    elif "out of range" in what:
        sentence = "is too large a number; correct it"
    else:
        sentence = f"cannot be taken ({what}); correct it"
    return Refused(422, f"{_named(path)} {sentence}", path or None)


def _split(path: str) -> tuple[str | None, str | None, bool, str]:
    """Set, item, whether it is in the context, and the name at the end of a path."""
    match = re.fullmatch(
        r"(?:sets\[(\d+)\]\.?)?(?:items\[(\d+)\]\.?|(context\.))?(.*)", path, re.DOTALL
    )
    assert match is not None
    return match[1], match[2], match[3] is not None, match[4]


def _named(path: str) -> str:
    number, item, around, name = _split(path)
    parts = [f"'{name}'"] if name else []
    parts += [f"item {item}"] if item else []
    parts += ["the context"] if around else []
    parts += [f"set {number}"] if number else []
    return " of ".join(parts) or "the body"


def _known(path: str, columns: Sequence[str], context: Sequence[str]) -> str:
    _, item, around, _ = _split(path)
    if around:
        return f"the model's context is: {', '.join(context)}" if context else "it has no context"
    if item:
        return f"the model's columns are: {', '.join([*columns, *context])}"
    return "a set has 'items' and may have 'context'; a body has 'sets', or one set, and 'beside'"
