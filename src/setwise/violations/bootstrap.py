"""Means over sets, with intervals by the bootstrap: sets are drawn again, with replacement.

Where one person makes many choices, people are drawn instead, each with all of their sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from setwise._arguments import checked, instance, whole
from setwise._arguments import number as a_number
from setwise._arguments import seed as check_seed
from setwise._errors import InputError
from setwise._page import notebook_html
from setwise.violations.capacity import Violations
from setwise.violations.clusters import Group, error_of_mean, numbered

Interval = tuple[float, float]
Sums = Float[np.ndarray, "sets *rest"]


@dataclass(frozen=True, eq=False)
class SetMean:
    """A mean over sets that knows its values.

    >>> found = SetMean(np.array([0.0, 1.0, np.nan, 1.0]), None)
    >>> round(found.mean, 4), found.sets
    (0.6667, 3)
    >>> found.interval(level=0.8)
    (0.3333333333333333, 1.0)
    """

    of_sets: Float[np.ndarray, " sets"]
    weight: Float[np.ndarray, " sets"] | None
    group: Shaped[np.ndarray, " sets"] | None = None
    """Who made the choice, where people and not sets are independent."""

    @property
    def sets(self) -> int:
        """How many sets count: those with a value."""
        return int((~np.isnan(self.of_sets)).sum())

    @property
    def mean(self) -> float:
        """By the sets' weights; NaN over none."""
        values, weight, _ = _counted(self)
        return float(values @ weight / weight.sum()) if len(values) else float("nan")

    @property
    def standard_error(self) -> float:
        """Of the mean, over independent sets; with a group, over independent people."""
        values, weight, group = _counted(self)
        return error_of_mean(values, weight / weight.sum(), group)

    def interval(
        self,
        level: float = 0.95,
        resamples: int = 1000,
        seed: int = 0,
        group: Group | None = None,
    ) -> Interval:
        """As :func:`bootstrap_interval`."""
        return bootstrap_interval(self, level, resamples, seed, group)

    def __repr__(self) -> str:
        low, high = self.interval()
        return f"SetMean({self.mean:.4f}, 95% from {low:.4f} to {high:.4f}; {self.sets:,} sets)"


@dataclass(frozen=True, eq=False)
class LevelMatrix:
    """A number for every pair of alternatives, with 95% bootstrap intervals over sets.

    ``values[k, l]`` is what happens to alternative k because of l. NaN: l is nowhere to be seen.
    """

    names: tuple[str, ...]
    values: Float[np.ndarray, "levels levels"]
    low: Float[np.ndarray, "levels levels"]
    high: Float[np.ndarray, "levels levels"]

    @classmethod
    def ratio(
        cls,
        names: Sequence[str],
        above: Float[np.ndarray, "sets k l"],
        below: Float[np.ndarray, "sets k_or_one l_or_one"],
        group: Group | None = None,
    ) -> "LevelMatrix":
        """Sums over sets of ``above`` over those of ``below``, entry by entry.

        With ``group``, one value a set, the intervals are over people.

        >>> above, below = np.array([[[1.0]], [[2.0]]]), np.array([[[2.0]], [[4.0]]])
        >>> print(LevelMatrix.ratio(["car"], above, below))
                car
        car  0.5000
        """
        below = np.broadcast_to(below, above.shape)
        low, high = bootstrap(above, below, group=group)
        return cls(tuple(names), _over(above.sum(0), below.sum(0)), low, high)

    def to_frame(self, of: str = "alternative", because_of: str = "because_of") -> Any:
        """A Polars frame, one row per pair: alternative, because_of, value, low, high.

        ``of`` and ``because_of`` are other names for the first two columns.
        """
        import polars as pl

        changed, cause = np.indices(self.values.shape)
        names = np.array(self.names, object)
        columns = {
            of: pl.Series(names[changed.ravel()].tolist(), dtype=pl.String),
            because_of: pl.Series(names[cause.ravel()].tolist(), dtype=pl.String),
            "value": self.values.ravel(), "low": self.low.ravel(), "high": self.high.ravel(),
        }  # fmt: skip
        return pl.DataFrame(columns, nan_to_null=True)

    def _repr_html_(self) -> str:
        return self.html()

    def html(self, title: str = "") -> str:
        """The matrix as a notebook shows it, with a line above."""
        rows = [
            [name, *("" if one != one else f"{one:.4f}" for one in row)]
            for name, row in zip(self.names, self.values, strict=True)
        ]
        note = "Rows: what changes. Columns: because of which alternative."
        return notebook_html(["", *self.names], rows, title=title, note=note)

    def __str__(self) -> str:
        width = max(len(name) for name in self.names)
        column = max(width, 7)
        lines = [" " * width + "".join(f" {name:>{column}}" for name in self.names)]
        for name, row in zip(self.names, self.values, strict=True):
            lines.append(f"{name:<{width}}" + "".join(f" {value:>{column}.4f}" for value in row))
        return "\n".join(lines)


@checked(
    measure=instance((SetMean, Violations), "make one with setwise.violation_capacity(...)"),
    level=a_number(above=0, below=1),
    resamples=whole(),
    seed=check_seed,
)
def bootstrap_interval(
    measure: SetMean | Violations,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    group: Group | None = None,
) -> Interval:
    """The percentile interval of a weighted mean over sets.

    So many times, as many sets as there are with a value are drawn with replacement; the interval
    holds the middle ``level`` of their means. Sets are taken as independent: where one person
    makes many choices, that interval is too narrow, up to sqrt(k) times with k choices each. With
    a group, people are drawn instead, as many as there are, each with all of their sets.

    Args:
        measure: such as what :func:`~setwise.violations.violation_capacity` returns.
        level: how much of the resampled means is in the interval.
        resamples: how many there are.
        seed: of the draws; the same seed gives the same interval.
        group: who made each choice, one value a set, such as ``choices.group``; else the group
            that the measure has, if any.

    >>> from setwise.violations import Violations
    >>> bootstrap_interval(Violations(np.zeros(5), None))
    (0.0, 0.0)
    >>> alike = Violations(np.repeat([0.0, 0.5, 1.0], 100), None)
    >>> low, high = bootstrap_interval(alike)
    >>> wider_low, wider_high = bootstrap_interval(alike, group=np.repeat([1, 2, 3], 100))
    >>> wider_low < low < high < wider_high
    True
    """
    if group is not None:
        measure = replace(measure, group=numbered(group, len(measure.of_sets)))
    values, weight, who = _counted(measure)
    if not len(values):
        return float("nan"), float("nan")
    low, high = bootstrap(values * weight, weight, level, resamples, seed, who)
    return float(low), float(high)


def bootstrap(
    above: Sums,
    below: Sums,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    group: Group | None = None,
) -> tuple[Float[np.ndarray, "*rest"], Float[np.ndarray, "*rest"]]:
    """Percentile intervals of the sum over sets of ``above`` over that of ``below``.

    With ``group``, one value a set, the sets of one value are drawn together.

    >>> low, high = bootstrap(np.array([1.0, 3.0]), np.ones(2), level=0.9)
    >>> float(low), float(high)  # means of two draws are 1, 2, 2 or 3
    (1.0, 3.0)
    """
    if not 0 < level < 1:
        raise InputError(f"level={level} must be between 0 and 1")
    if resamples < 1:
        raise InputError(f"resamples={resamples} must be at least 1")
    if seed < 0:
        raise InputError(f"seed={seed} must be at least 0")
    rng, shape = np.random.default_rng(seed), above.shape[1:]
    flat = np.hstack([one.reshape(len(above), -1) for one in (above, below)])
    if group is not None:
        flat = _summed(flat, numbered(group, len(above)))
    units = len(flat)
    drawn = np.empty((resamples, flat.shape[1]))
    for number in range(resamples):
        drawn[number] = np.bincount(rng.integers(units, size=units), minlength=units) @ flat
    means = _over(*np.hsplit(drawn, 2))
    tails = [(1 - level) / 2, (1 + level) / 2]
    with np.errstate(invalid="ignore"):
        low, high = _quantiles(means, tails)
    return low.reshape(shape), high.reshape(shape)


def _summed(
    flat: Float[np.ndarray, "sets m"], person: Int[np.ndarray, " sets"]
) -> Float[np.ndarray, "people m"]:
    """The sums of each person's sets."""
    order = np.argsort(person, kind="stable")
    return np.add.reduceat(flat[order], np.searchsorted(person[order], np.unique(person)))


def _quantiles(
    means: Float[np.ndarray, "resamples m"], tails: Sequence[float]
) -> Float[np.ndarray, "two m"]:
    """Of the resamples that have a value; NaN where none has."""
    found = np.full((2, means.shape[1]), np.nan)
    some = ~np.isnan(means).all(0)
    found[:, some] = np.nanquantile(means[:, some], tails, axis=0)
    return found


def _over(above: Float[np.ndarray, "*m"], below: Float[np.ndarray, "*m"]) -> np.ndarray:
    """The quotient; NaN over 0."""
    return np.divide(above, below, out=np.full(above.shape, np.nan), where=below != 0)


def _counted(
    measure: SetMean | Violations,
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"], Shaped[np.ndarray, " m"] | None]:
    """Of the sets that have a value: it, their weights, and who made the choice."""
    counted = ~np.isnan(measure.of_sets)
    values = measure.of_sets[counted]
    weight = np.ones(len(values)) if measure.weight is None else measure.weight[counted]
    return values, weight, None if measure.group is None else measure.group[counted]
