"""The distribution of a number: skew and outliers, and the transform that cures them.

A column that is 0 in many rows, such as a cost that counts for one mode only, is judged by its
other values: among so many zeros all of them would look far out.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from setwise.doctor.examination import Finding, counted
from setwise.doctor.examined import Examined, transformed

FEWEST_VALUES = 20
FEWEST_DISTINCT = 10
SKEWED = 2.0
FAR = 10.0
MANY_ZEROS = 0.25
ROBUST = 1.4826  # a normal distribution's standard deviation in median absolute deviations


def skew(one: Examined) -> Iterator[Finding]:
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


def outliers(one: Examined) -> Iterator[Finding]:
    """Values further than 10 robust standard deviations from the median."""
    if not _continuous(one):
        return
    judged = _judged(one.sample)
    centre, spread = _robust(judged)
    if spread == 0:
        return
    low, high = centre - FAR * spread, centre + FAR * spread
    if len(judged) < len(one.sample):  # then 0 is no outlier either
        low, high = min(low, 0.0), max(high, 0.0)
    if one.sample.min() >= low and one.sample.max() <= high and len(one.sample) >= len(one.values):
        return
    seen = np.full(len(one.values), np.nan)
    fine = np.isfinite(one.values) & _has_value(one)
    seen[fine] = transformed(one.values[fine], one.feature.transform)
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


def _continuous(one: Examined) -> bool:
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


def _has_value(one: Examined) -> np.ndarray:
    transform = one.feature.transform
    if transform == "none":
        return np.ones(len(one.values), bool)
    return one.values > 0 if transform == "log" else one.values >= 0


def _as_seen(one: Examined) -> str:
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


def _cure(one: Examined) -> str:
    """The transform that leaves the least skew, if one helps."""
    name = one.name
    least = one.lowest.min()  # of all rows: a transform that one of them has not is no cure
    if one.feature.transform != "none" or least < 0:
        return f"clip {name} or transform it before reading"
    options = ("log", "sqrt") if least > 0 else ("log1p", "sqrt")
    judged = _judged(one.sample)
    left = {option: abs(_skewness(transformed(judged, option))) for option in options}
    best = min(left, key=lambda option: left[option])
    if left[best] >= abs(_skewness(judged)):
        return f"clip {name} or transform it before reading"
    return f"use {best}({name})"
