"""Checks of arguments: one sentence with the name, the value and what is allowed.

Each function makes a check for one kind of value. A check takes the argument's name and its value,
returns nothing, and raises :class:`setwise.InputError` if the value is not allowed. Estimators and
options list one check per argument; functions call checks directly.
"""

import functools
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from setwise._errors import InputError

Check = Callable[[str, Any], None]
Function = TypeVar("Function", bound=Callable[..., Any])

SEEDS = 2**32
"""Seeds are below this: JAX's generators take 32 bits."""
LARGEST = 2**31 - 1
"""The largest count that is taken where no other limit is known."""
BOOLEANS = (bool, np.bool_)
"""Python and NumPy count them among the numbers; arguments do not."""


@functools.cache
def whole(least: int = 1, most: int | None = None) -> Check:
    """A whole number below 2**31; booleans and floats such as 2.0 are not.

    >>> whole(least=1)("epochs", 2.5)
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: epochs=2.5 must be a whole number of at least 1
    """
    allowed = f"a whole number of at least {least}"
    allowed += "" if most is None else f" and at most {most}"

    def check(name: str, value: Any) -> None:
        if isinstance(value, BOOLEANS) or not isinstance(value, Integral):
            raise _refusal(name, value, allowed)
        if int(value) < least or (most is not None and int(value) > most):
            raise _refusal(name, value, allowed)
        if most is None and int(value) > LARGEST:  # no count of anything; arrays would overflow
            raise _refusal(name, value, f"{allowed} and at most {LARGEST}")

    return check


@functools.cache
def number(
    *,
    above: int | float | None = None,
    least: int | float | None = None,
    below: int | float | None = None,
    most: int | float | None = None,
) -> Check:
    """A finite number within these bounds.

    >>> number(above=0, most=1)("decay", 5)
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: decay=5 must be a number above 0 and at most 1
    """
    bounds = {"above": above, "of at least": least, "below": below, "at most": most}
    words = " and ".join(f"{word} {one:g}" for word, one in bounds.items() if one is not None)
    allowed = f"a number {words}".strip()

    def check(name: str, value: Any) -> None:
        if isinstance(value, BOOLEANS) or not isinstance(value, Real) or not math.isfinite(value):
            raise _refusal(name, value, f"{allowed}, and finite")
        size = float(value)
        if (
            (above is not None and not size > above)
            or (least is not None and not size >= least)
            or (below is not None and not size < below)
            or (most is not None and not size <= most)
        ):
            raise _refusal(name, value, allowed)

    return check


@functools.cache
def one_of(*known: str) -> Check:
    """One of these words.

    >>> one_of("joint", "shared")("wiring", "foo")
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: wiring='foo' must be one of: joint, shared
    """

    def check(name: str, value: Any) -> None:
        if not isinstance(value, str) or value not in known:
            raise _refusal(name, value, f"one of: {', '.join(known)}")

    return check


def sign(name: str, value: Any) -> None:
    """1 or -1.

    >>> sign("monotone['price']", 0)
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: monotone['price']=0 must be 1 or -1
    """
    if isinstance(value, BOOLEANS) or value not in (1, -1):
        raise _refusal(name, value, "1 or -1")


def flag(name: str, value: Any) -> None:
    """True or False; no other value stands for them.

    >>> flag("within_set", "no")
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: within_set='no' must be True or False
    """
    if not isinstance(value, BOOLEANS):
        raise _refusal(name, value, "True or False")


def text(name: str, value: Any) -> None:
    """A string that is not empty.

    >>> text("column", 3)
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: column=3 must be a string
    """
    if not isinstance(value, str) or not value:
        empty = " that is not empty" if isinstance(value, str) else ""
        raise _refusal(name, value, f"a string{empty}")


def columns(name: str, value: Any) -> None:
    """The name of a column, or a list of such names.

    >>> columns("by", 3)
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: by=3 must be the name of a column, or a list of names
    """
    names = value if isinstance(value, (list, tuple)) else [value]
    if not names or not all(isinstance(one, str) and one for one in names):
        raise _refusal(name, value, "the name of a column, or a list of names")


def path(name: str, value: Any) -> None:
    """A path of a file or folder: a string or ``pathlib.Path``.

    >>> path("checkpoint", 3)
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: checkpoint=3 must be a path, as a string or pathlib.Path
    """
    if not isinstance(value, (str, os.PathLike)) or not str(value):
        raise _refusal(name, value, "a path, as a string or pathlib.Path")
    if "\0" in str(value):
        raise _refusal(name, value, "a path without NUL characters")


def seed(name: str, value: Any) -> None:
    """A seed: a whole number from 0 to 2**32 - 1.

    >>> seed("seed", None)
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: seed=None must be a whole number of at least 0 and at most \
4294967295
    """
    whole(0, SEEDS - 1)(name, value)


@functools.cache
def optional(check: Check) -> Check:
    """The value may also be None."""

    def check_or_none(name: str, value: Any) -> None:
        if value is not None:
            check(name, value)

    return check_or_none


def or_word(word: str, check: Check) -> Check:
    """The value may also be this word.

    >>> or_word("auto", whole())("classes", "many")
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: classes='many' must be a whole number of at least 1, or 'auto'
    """

    def check_or_word(name: str, value: Any) -> None:
        if isinstance(value, str) and value == word:
            return
        try:
            check(name, value)
        except InputError as error:
            whole_value = str(error).startswith(f"{name}=")  # and not one of its parts
            raise InputError(f"{error}, or {word!r}" if whole_value else str(error)) from None

    return check_or_word


def each(check: Check, least: int = 1) -> Check:
    """A list or tuple of at least so many values, each of which passes the check.

    >>> each(number(least=0))("weight_decays", ())
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: weight_decays=() must be a list or tuple of at least 1 value
    """

    def check_each(name: str, value: Any) -> None:
        listed = isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes))
        if not listed or getattr(value, "ndim", 1) == 0 or len(value) < least:
            plural = "s" if least != 1 else ""
            raise _refusal(name, value, f"a list or tuple of at least {least} value{plural}")
        for place, one in enumerate(value):
            check(f"{name}[{place}]", one)

    return check_each


def instance(kind: type | tuple[type, ...], remedy: str) -> Check:
    """An object of this class, or of one of these; ``remedy`` says how to get one.

    >>> instance(dict, "write {}")("space", 3)
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: space=3 must be of type dict; write {}
    """

    kinds = kind if isinstance(kind, tuple) else (kind,)
    words = " or ".join(one.__name__ for one in kinds)

    def check(name: str, value: Any) -> None:
        if not isinstance(value, kinds):
            raise InputError(f"{name}={shown(value)} must be of type {words}; {remedy}")

    return check


def by_name(check: Check, least: int = 1) -> Check:
    """A mapping from at least so many names to values, each of which passes the check.

    >>> by_name(whole())("a", [3])
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: a=[3] must be a mapping, such as a dictionary, of at least 1 name
    """

    def check_mapping(name: str, value: Any) -> None:
        named = isinstance(value, Mapping) and all(isinstance(one, str) for one in value)
        if not named or len(value) < least:
            plural = "s" if least != 1 else ""
            least_of = f" of at least {least} name{plural}" if least else ""
            raise _refusal(name, value, f"a mapping, such as a dictionary,{least_of}".rstrip(","))
        for key, one in value.items():
            check(f"{name}[{key!r}]", one)

    return check_mapping


def anything(name: str, value: Any) -> None:
    """Whatever it is: something else checks it."""


def callback(name: str, value: Any) -> None:
    """A function to call.

    >>> callback("on_epoch", 3)
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: on_epoch=3 must be a function
    """
    if not callable(value):
        raise _refusal(name, value, "a function")


def check_all(checks: Mapping[str, Check], values: Mapping[str, Any]) -> None:
    """Check every value that has a check."""
    for name, check in checks.items():
        if name in values:
            check(name, values[name])


def checked(**checks: Check) -> Callable[[Function], Function]:
    """Check arguments of a function, those that a call gives, before it runs.

    >>> @checked(times=whole())
    ... def repeated(word, times=2):
    ...     return word * times
    >>> repeated("ab", times="3")
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: times='3' must be a whole number of at least 1
    """

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def checking(*args: Any, **kwargs: Any) -> Any:
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError:  # what Python says of a call that does not fit
                given = {}
            check_all(checks, given)
            return function(*args, **kwargs)

        return checking  # type: ignore[return-value]

    return decorate


def plain(value: Any) -> Any:
    """Numbers and arrays of NumPy as Python's, which JSON can hold.

    >>> plain((np.int64(3), np.float32(0.5)))
    (3, 0.5)
    """
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return type(value)(plain(one) for one in value)
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value


def _refusal(name: str, value: Any, allowed: str) -> InputError:
    return InputError(f"{name}={shown(value)} must be {allowed}")


def shown(value: Any) -> str:
    """The value on one line, cut where it is long."""
    line = " ".join(repr(value).split())
    return line if len(line) <= 60 else f"{line[:57]}..."
