"""Columns that a model can read but should not use as they are."""

import re
from collections.abc import Iterator

import numpy as np

from setwise.doctor.examination import Finding, counted, percent
from setwise.doctor.examined import Examined

NEARLY_ALL = 0.95
FEWEST_SETS = 5
MANY_LEVELS = 50
LONG_RANGE = 1000
EVEN = 0.1
_ID = re.compile(r"(?:^|_|[a-z](?=I))(?:id|ID|Id|code|zip|postcode|uuid|key)$")


def constant(one: Examined) -> Iterator[Finding]:
    """One value everywhere, or one value within every set: nothing to compare items by."""
    if one.empty or (one.any_missing and one.differs.any()):
        return
    if one.highest.max() == one.lowest.min() and not one.any_missing:
        yield Finding(
            "warning", "constant", f"column '{one.name}' has the same value in every row",
            "leave it out: it tells nothing", one.name,
        )  # fmt: skip
    elif one.role == "item" and not one.differs.any():
        yield Finding(
            "warning", "constant-within-sets",
            f"column '{one.name}' is the same for all items of every set, so that no model of "
            "items alone can use it",
            f"put {one.feature} into context, or leave it out", one.name,
        )  # fmt: skip


def position(one: Examined) -> Iterator[Finding]:
    """Places in a list: distinct small whole numbers from 0 or 1 in nearly every set."""
    sets = one.sets
    if one.role != "item" or one.kind != "number" or one.any_missing:
        return
    larger = sets.sizes > 2
    if larger.sum() < FEWEST_SETS:
        return
    fits = larger & np.isin(one.lowest, (0, 1)) & (one.highest < 2 * sets.sizes)
    if fits.sum() < NEARLY_ALL * larger.sum() or not one.whole:
        return
    # Every set that fits has a slot for each value it may hold; no slot is taken twice.
    slots = np.where(fits, 2 * sets.sizes, 0)
    first = np.cumsum(slots) - slots
    rows = sets.spread(fits)
    taken = np.bincount(sets.spread(first)[rows] + one.values[rows].astype(np.int64))
    twice = np.searchsorted(np.cumsum(slots), np.flatnonzero(taken > 1), side="right")
    fits[twice] = False
    if fits.sum() < NEARLY_ALL * larger.sum():
        return
    share = percent(fits.sum() / larger.sum())
    yield Finding(
        "warning", "position",
        f"column '{one.name}' counts the items in {share} of the sets: "
        "it may be their place on the screen, by which people choose whatever stands there",
        f"leave it out; if it names the alternative instead, use category({one.name})", one.name,
        count=int(fits.sum()),
    )  # fmt: skip


def identifier(one: Examined) -> Iterator[Finding]:
    """Whole numbers that are names: their order means nothing, and yet a model would use it."""
    if one.kind != "number" or not one.whole:
        return
    distinct = len(np.unique(one.sample))
    named = _ID.search(one.name) is not None
    if distinct < 3 or not (named or (distinct > LONG_RANGE and _evenly_spread(one))):
        return
    why = "by its name" if named else "spread evenly over a long range"
    many = distinct > MANY_LEVELS
    of_items = f"use popularity({one.name}), or leave it out"
    of_many = of_items if one.role == "item" and one.differs.any() else "leave it out"
    yield Finding(
        "warning" if named else "note", "identifier",
        f"column '{one.name}' looks like an identifier ({why}; "
        f"{counted(distinct, 'distinct whole number')}): their order means nothing",
        of_many if many else f"use category({one.name}), or leave it out", one.name, count=distinct,
    )  # fmt: skip


def _evenly_spread(one: Examined) -> bool:
    """Whether the distribution function is nearly a straight line."""
    grid = np.linspace(0, 1, 21)
    quantiles = np.quantile(one.sample, grid)
    span = quantiles[-1] - quantiles[0]
    return bool(np.abs((quantiles - quantiles[0]) / span - grid).max() < EVEN)


def rare_levels(one: Examined) -> Iterator[Finding]:
    """Levels of a category that are too rare to learn, and are grouped."""
    if one.kind != "category" or one.empty or one.feature.popularity:
        return
    codes = one.column.values
    counts = np.bincount(codes[codes >= 0])
    rare = (counts > 0) & (counts < one.rare * len(codes))
    if not rare.any():
        return
    levels, rows = int((counts > 0).sum()), int(counts[rare].sum())
    mostly = rows > 0.5 * len(codes)
    once = int((counts == 1).sum())
    yield Finding(
        "warning" if mostly else "note", "rare-levels",
        f"column '{one.name}' has {counted(levels, 'level')}, {int(rare.sum()):,} of them in fewer "
        f"than {percent(one.rare)} of the rows and {once:,} in one row only; "
        f"{percent(rows / len(codes))} of the rows become 'other'",
        "merge levels into larger groups, or leave it out"
        if mostly
        else f"merge levels, lower rare (--rare), or use other({one.name}) to take new levels too",
        one.name, count=int(rare.sum()),
    )  # fmt: skip
