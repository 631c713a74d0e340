"""Checks of a single column: what reading refuses, and what a model should not use as it is.

A column that is 0 in many rows, such as a cost that counts for one mode only, is judged by its
other values: among so many zeros all of them would look far out.
"""

import re
from collections.abc import Iterator

import numpy as np

from setwise import _segments
from setwise._shapes import Float
from setwise.choices.features import TRANSFORMS
from setwise.doctor.columns import ExaminedFeature
from setwise.doctor.report import Finding, counted, percent

MOSTLY = 0.95


def wrong_type(one: ExaminedFeature) -> Iterator[Finding]:
    """A type that cannot be a feature, and numbers or dates that are written as text."""
    trouble = one.trouble
    if trouble is None:
        return
    rows = () if trouble.row is None else (trouble.row,)
    yield Finding(
        "error", trouble.code, trouble.message, trouble.remedy, one.name, rows, count=trouble.count,
    )  # fmt: skip


def wrong_transform(one: ExaminedFeature) -> Iterator[Finding]:
    """A logarithm or a root of numbers that have none."""
    transform, name = one.feature.transform, one.name
    if transform == "none" or (one.trouble is not None and one.trouble.code == "type"):
        return
    if one.kind != "number":
        message = f"feature '{one.feature}' needs numbers, but column '{name}' is a {one.kind}"
        yield Finding("error", "wrong-transform", message, f"use {name} as it is", name)
        return
    function = TRANSFORMS[transform]
    bad = function.undefined(one.values)
    if bad.any():
        helps = function.domain == "positive" and not (one.values < 0).any()
        yield Finding(
            "error", "wrong-transform",
            f"column '{name}' is {function.outside} in {counted(int(bad.sum()), 'row', len(bad))}, "
            f"so that '{one.feature}' has no value there",
            f"use log1p({name})" if helps else f"use {name} as it is, or correct it",
            name, **one.sets.rows_where(bad),
        )  # fmt: skip


def missing(one: ExaminedFeature) -> Iterator[Finding]:
    """Values that are absent, and not imputed."""
    if not one.any_missing or (one.trouble is not None and one.trouble.code == "type"):
        return
    name, feature = one.name, one.feature
    bad = one.missing
    number = int(bad.sum())
    what = "missing or not a number" if one.kind == "number" else "missing"
    share = counted(number, "row", len(bad))
    place = one.sets.rows_where(bad)
    if feature.impute and one.kind != "date":
        if one.empty:
            yield Finding(
                "warning", "empty", f"column '{name}' has no value at all to impute from",
                "leave it out: training refuses it", name, **place,
            )  # fmt: skip
        else:
            yield Finding(
                "note", "missing", f"column '{name}' is {what} in {share}",
                f"nothing to do: '{feature}' fills it", name, **place,
            )  # fmt: skip
        return
    if one.empty:
        remedy = f"leave it out of {_roles(one)}: it has no value at all"
    elif one.kind == "date":
        remedy = f"fill it, or leave it out of {_roles(one)}"
    else:
        remedy = f"use impute({feature}), or fill it"
        if number > MOSTLY * len(bad):
            remedy += f"; with so few values, leaving it out of {_roles(one)} may serve better"
    yield Finding(
        "error", "missing", f"column '{name}' is {what} in {share}", remedy, name, **place
    )


def infinite(one: ExaminedFeature) -> Iterator[Finding]:
    """Infinite numbers."""
    bad = np.isinf(one.values)
    if one.kind == "number" and bad.any():
        yield Finding(
            "error", "infinite",
            f"column '{one.name}' is infinite in {counted(int(bad.sum()), 'row', len(bad))}",
            f"replace it by a number, or by nothing and use impute({one.feature})",
            one.name, **one.sets.rows_where(bad),
        )  # fmt: skip


def early_dates(one: ExaminedFeature) -> Iterator[Finding]:
    """Dates whose year was written with two digits."""
    if one.kind != "date":
        return
    bad = one.column.values < np.datetime64("1000-01-01")
    if bad.any():
        yield Finding(
            "error", "early-dates",
            f"column '{one.name}' is before the year 1000 in "
            f"{counted(int(bad.sum()), 'row', len(bad))}",
            "write years with four digits", one.name, **one.sets.rows_where(bad),
        )  # fmt: skip


def varying_context(one: ExaminedFeature) -> Iterator[Finding]:
    """Features of the whole set that differ within one."""
    if one.role != "context" or not one.differs.any():
        return
    yield Finding(
        "error", "context-varies",
        f"column '{one.name}' is in context, but differs within "
        f"{counted(int(one.differs.sum()), 'set', len(one.sets))}",
        f"put {one.feature} into items", one.name, **one.sets.sets_where(one.differs),
    )  # fmt: skip


def _roles(one: ExaminedFeature) -> str:
    return "items" if one.role == "item" else "context"


FEWEST_VALUES = 20
FEWEST_DISTINCT = 10
SKEWED = 2.0
FAR = 10.0
MANY_ZEROS = 0.25
ROBUST = 1.4826  # a normal distribution's standard deviation in median absolute deviations


def skew(one: ExaminedFeature) -> Iterator[Finding]:
    """A long tail: |E (x - mean)^3 / sd^3| above 2."""
    if not _continuous(one):
        return
    skewness = _skewness(_judged(one.sample))
    if abs(skewness) <= SKEWED:
        return
    yield Finding(
        "note", "skew",
        f"column '{one.name}'{_as_seen(one)} is skewed: its skewness is {skewness:.1f}",
        _cure(one), one.name,
    )  # fmt: skip


def outliers(one: ExaminedFeature) -> Iterator[Finding]:
    """Values further than 10 robust standard deviations from the median."""
    if not _continuous(one):
        return
    judged = _judged(one.sample)
    centre, spread = _robust(judged)
    if spread == 0:
        return
    low, high = centre - FAR * spread, centre + FAR * spread
    if len(judged) < len(one.sample):  # then 0 is not an outlier either
        low, high = min(low, 0.0), max(high, 0.0)
    if one.sample.min() >= low and one.sample.max() <= high and len(one.sample) >= len(one.values):
        return
    seen, function = np.full(len(one.values), np.nan), TRANSFORMS[one.feature.transform]
    fine = np.isfinite(one.values) & ~function.undefined(one.values)
    seen[fine] = function(one.values[fine])
    far = (seen < low) | (seen > high)
    if not far.any():
        return
    furthest = one.values[np.nanargmax(np.abs(seen - centre))]
    yield Finding(
        "warning", "outliers",
        f"column '{one.name}'{_as_seen(one)} is more than {FAR:g} robust standard deviations from "
        f"its median in {counted(int(far.sum()), 'row', len(far))}; the furthest is {furthest:g}",
        f"correct them if they are mistakes; else {_cure(one)}", one.name,
        **one.sets.rows_where(far),
    )  # fmt: skip


def _continuous(one: ExaminedFeature) -> bool:
    """A number with enough different values to speak of a distribution."""
    if one.kind != "number" or len(one.sample) < FEWEST_VALUES:
        return False
    few = _judged(one.sample)
    if len(few) < FEWEST_VALUES:
        return False
    return len(np.unique(few[:: -(-len(few) // 10_000)])) > FEWEST_DISTINCT


def _judged(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " some"]:
    """The values, without zeros where many of them are."""
    other = values[values != 0]
    return other if len(other) < (1 - MANY_ZEROS) * len(values) else values


def _as_seen(one: ExaminedFeature) -> str:
    return "" if one.feature.transform == "none" else f", as {one.feature.transform},"


def _skewness(values: Float[np.ndarray, " n"]) -> float:
    # Scaled first, since cubes of large numbers overflow.
    values = values / (np.abs(values).max() or 1.0)
    centred = values - values.mean()
    squared = centred * centred
    deviation = float(np.sqrt(squared.mean()))
    return 0.0 if deviation < 1e-12 else float((squared * centred).mean()) / deviation**3


def _robust(values: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """Median and robust standard deviation; by quartiles where half of the values are equal."""
    low, centre, high = np.quantile(values, (0.25, 0.5, 0.75))
    spread = ROBUST * float(np.median(np.abs(values - centre)))
    return float(centre), spread or float(high - low) * ROBUST / 2


def _cure(one: ExaminedFeature) -> str:
    """The transform that leaves the least skew, if one helps."""
    name = one.name
    least = one.lowest.min()  # of all rows: a transform must be defined for each of them
    if one.feature.transform != "none" or least < 0:
        return f"clip {name} or transform it before reading"
    options = ("log", "sqrt") if least > 0 else ("log1p", "sqrt")
    judged = _judged(one.sample)
    left = {option: abs(_skewness(TRANSFORMS[option].defined(judged))) for option in options}
    best = min(left, key=lambda option: left[option])
    if left[best] >= abs(_skewness(judged)):
        return f"clip {name} or transform it before reading"
    return f"use {best}({name})"


NEARLY_ALL = 0.95
FEWEST_SETS = 5
MANY_LEVELS = 50
LONG_RANGE = 1000
EVEN = 0.1
_ID = re.compile(r"(?:^|_|[a-z](?=I))(?:id|ID|Id|code|zip|postcode|uuid|key)$")


def constant(one: ExaminedFeature) -> Iterator[Finding]:
    """One value everywhere, or one value within every set: nothing to compare items by."""
    if one.empty or (one.any_missing and one.differs.any()):
        return
    if one.highest.max() == one.lowest.min() and not one.any_missing:
        yield Finding(
            "warning", "constant", f"column '{one.name}' has the same value in every row",
            "leave it out: it has no information", one.name,
        )  # fmt: skip
    elif one.role == "item" and not one.differs.any():
        yield Finding(
            "warning", "constant-within-sets",
            f"column '{one.name}' is the same for all items of every set, so that no model of "
            "items alone can use it",
            f"put {one.feature} into context, or leave it out", one.name,
        )  # fmt: skip


def position(one: ExaminedFeature) -> Iterator[Finding]:
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
    rows = _segments.spread(fits, sets.offsets)
    firsts = _segments.spread(first, sets.offsets)[rows]
    taken = np.bincount(firsts + one.values[rows].astype(np.int64))
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


def identifier(one: ExaminedFeature) -> Iterator[Finding]:
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


def _evenly_spread(one: ExaminedFeature) -> bool:
    """Whether the distribution function is nearly a straight line."""
    grid = np.linspace(0, 1, 21)
    quantiles = np.quantile(one.sample, grid)
    span = quantiles[-1] - quantiles[0]
    return bool(np.abs((quantiles - quantiles[0]) / span - grid).max() < EVEN)


def rare_levels(one: ExaminedFeature) -> Iterator[Finding]:
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
