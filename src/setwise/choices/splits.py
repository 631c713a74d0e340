"""Training, validation and test parts: whole sets, never rows."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from setwise._arguments import each, number, one_of
from setwise._arguments import seed as check_seed
from setwise._errors import InputError
from setwise._shapes import Float, Int
from setwise.choices.choices import Choices, generator


def split(
    choices: Choices,
    sizes: Sequence[int | float] = (0.5, 0.25, 0.25),
    seed: int = 0,
    by: Literal["set", "group", "time"] = "set",
) -> tuple[Choices, ...]:
    """Split into parts of these relative sizes.

    Args:
        choices: what to split; a table has to be read first (:func:`setwise.read`).
        sizes: one positive share per part: fractions that add up to 1, or whole numbers such as
            (50, 25, 25), the paper's train, validation and test.
        seed: of the random order; the same seed gives the same parts.
        by: "set" shuffles sets (the stages of a ranking stay together); "group" shuffles groups
            (``read(group=...)``), so that the same user is never on both sides; "time" cuts in
            order of ``read(time=...)``, training first, and never between two sets of the same
            moment.

    >>> import setwise as sw
    >>> choices = sw.datasets.generate("mnl", sets=100, seed=0).choices
    >>> [len(part) for part in split(choices)]
    [50, 25, 25]
    """
    if not isinstance(choices, Choices):
        raise InputError(
            f"split needs Choices, not {type(choices).__name__}, whose rows would be torn from "
            "their sets; make them with setwise.read(table, set=..., chosen=...)"
        )
    check_sizes(sizes)
    check_seed("seed", seed)
    one_of("set", "group", "time")("by", by)
    sizes, seed = tuple(sizes), int(seed)
    if by == "set":
        units = choices.units
        order = generator(seed).permutation(int(units.max(initial=-1)) + 1)
        cuts = np.maximum(1, np.round(_wanted(len(order), sizes)).astype(np.int64))
        parts = np.split(order, cuts)
        if choices.ranking is not None:
            parts = [np.flatnonzero(np.isin(units, part)) for part in parts]
        what = f"{len(order)} {'sets' if choices.ranking is None else 'rankings'}"
        return _taken(choices, parts, sizes, what)
    if by == "group":
        _, units = np.unique(_column(choices, "group"), return_inverse=True)
        shuffled = generator(seed).permutation(int(units.max()) + 1)
        order = np.argsort(shuffled[units], kind="stable")
    else:
        _, units = np.unique(_column(choices, "time"), return_inverse=True)
        order = np.argsort(units, kind="stable")
    what = f"{len(choices)} sets in {int(units.max()) + 1} units of {by}"
    return _taken(choices, np.split(order, _cuts(units[order], sizes)), sizes, what)


def check_sizes(sizes: Any) -> None:
    """Refuse parts that are no shares: fractions that leave sets over, or that ask for too many.

    >>> check_sizes((0.6, 0.2))
    Traceback (most recent call last):
    ...
    setwise._errors.InputError: sizes=(0.6, 0.2) add up to 0.8; fractions must add up to 1, or \
give whole numbers such as (50, 25, 25)
    """
    each(number(above=0, most=1e9))("sizes", sizes)
    total = float(np.sum(sizes))
    if any(one % 1 for one in sizes) and abs(total - 1) > 1e-6:
        raise InputError(
            f"sizes={tuple(float(one) for one in sizes)} add up to {total:g}; fractions must add "
            "up to 1, or give whole numbers such as (50, 25, 25)"
        )


def _taken(
    choices: Choices, parts: Sequence[np.ndarray], sizes: Sequence[int | float], what: str
) -> tuple[Choices, ...]:
    if any(len(part) == 0 for part in parts):
        raise InputError(
            f"a part of the split is empty: {what} cannot be divided as {tuple(sizes)}; "
            "use fewer parts or more data"
        )
    return tuple(choices.take(np.sort(part)) for part in parts)


def _column(choices: Choices, name: Literal["group", "time"]) -> np.ndarray:
    values = getattr(choices, name)
    if values is None:
        raise InputError(
            f'to split by {name}, name its column when reading: read({name}="..."), '
            f"on the command line --{name}"
        )
    return values


def _cuts(
    units: Int[np.ndarray, " sets"], sizes: Sequence[int | float]
) -> Int[np.ndarray, " parts"]:
    """Where to cut the ordered sets: at the wanted shares, moved on to the next unit's start."""
    wanted = _wanted(len(units), sizes)
    starts = np.append(np.flatnonzero(np.diff(units)) + 1, len(units))
    return starts[np.minimum(np.searchsorted(starts, np.round(wanted)), len(starts) - 1)]


def _wanted(sets: int, sizes: Sequence[int | float]) -> Float[np.ndarray, " parts"]:
    """Where the shares end, as numbers of sets."""
    return np.cumsum(sizes)[:-1] / np.sum(sizes) * sets
