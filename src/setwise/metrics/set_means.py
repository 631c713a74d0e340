"""Means over sets, with standard errors and bootstrap intervals.

The bootstrap draws sets with replacement. Where one person makes many choices, their sets are not
independent: errors and intervals are then clustered, and the bootstrap draws people, each with all
of their sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from setwise import _segments
from setwise._arguments import checked, instance, whole
from setwise._arguments import number as a_number
from setwise._arguments import seed as check_seed
from setwise._errors import InputError
from setwise._shapes import Float, Int, Shaped
from setwise.choices import Choices, open_table
from setwise.choices.choices import Column
from setwise.choices.validation import Grouping
from setwise.metrics.measures import Group, error_of_mean, numbered

Interval = tuple[float, float]
Sums = Float[np.ndarray, "sets *rest"]


@dataclass(frozen=True, eq=False)
class SetMean:
    """A weighted mean over sets, with the value of each set.

    >>> found = SetMean(np.array([0.0, 1.0, np.nan, 1.0]), None)
    >>> round(found.mean, 4), found.sets
    (0.6667, 3)
    >>> found.interval(level=0.8)
    (0.3333333333333333, 1.0)
    """

    of_sets: Float[np.ndarray, " sets"]
    """The value of each set; NaN where a set has none and does not count."""
    weight: Float[np.ndarray, " sets"] | None
    """The weight of each set; None if all count alike."""
    group: Shaped[np.ndarray, " sets"] | None = None
    """Who made each choice, where people and not sets are independent."""

    @property
    def sets(self) -> int:
        """The number of sets that count: those with a value."""
        return int((~np.isnan(self.of_sets)).sum())

    @property
    def mean(self) -> float:
        """The mean over the sets that count, by their weights; NaN if there are none."""
        values, weight, _ = self._counted()
        return float(values @ weight / weight.sum()) if len(values) else float("nan")

    @property
    def standard_error(self) -> float:
        """The standard error of the mean over independent sets, or people if there is a group.

        For shares p_i of the weights it is sqrt(m/(m - 1) sum_i p_i^2 (v_i - mean)^2). With a
        group, the sum of p_i (v_i - mean) over each person's sets is squared instead.
        """
        values, weight, group = self._counted()
        return error_of_mean(values, weight / weight.sum(), group)

    def interval(
        self,
        level: float = 0.95,
        resamples: int = 1000,
        seed: int = 0,
        group: Group | None = None,
    ) -> Interval:
        """The bootstrap interval of the mean; see :func:`bootstrap_interval`."""
        return bootstrap_interval(self, level, resamples, seed, group)

    def _counted(
        self,
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"], Shaped[np.ndarray, " m"] | None]:
        """Values, weights and group of the sets that count."""
        counted = ~np.isnan(self.of_sets)
        values = self.of_sets[counted]
        weight = np.ones(len(values)) if self.weight is None else self.weight[counted]
        return values, weight, None if self.group is None else self.group[counted]

    def __repr__(self) -> str:
        low, high = self.interval()
        return f"SetMean({self.mean:.4f}, 95% from {low:.4f} to {high:.4f}; {self.sets:,} sets)"


@checked(
    measure=instance(SetMean, "make one with setwise.violation_capacity(...)"),
    level=a_number(above=0, below=1),
    resamples=whole(),
    seed=check_seed,
)
def bootstrap_interval(
    measure: SetMean,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    group: Group | None = None,
) -> Interval:
    """The percentile bootstrap interval of a weighted mean over sets.

    Each resample draws as many sets as count, with replacement. The interval holds the middle
    ``level`` of the resampled means. Sets are taken as independent: where one person makes k
    choices, that interval is too narrow, by a factor of up to sqrt(k). With a group, each resample
    draws as many people as there are, each with all of their sets.

    Args:
        measure: the mean, such as :func:`~setwise.violations.violation_capacity` returns.
        level: the share of the resampled means in the interval.
        resamples: the number of resamples.
        seed: of the draws; the same seed gives the same interval.
        group: who made each choice, one value per set, such as ``choices.group``; by default the
            group of the measure, if it has one.

    >>> bootstrap_interval(SetMean(np.zeros(5), None))
    (0.0, 0.0)
    >>> alike = SetMean(np.repeat([0.0, 0.5, 1.0], 100), None)
    >>> low, high = bootstrap_interval(alike)
    >>> wider_low, wider_high = bootstrap_interval(alike, group=np.repeat([1, 2, 3], 100))
    >>> wider_low < low < high < wider_high
    True
    """
    if group is not None:
        measure = replace(measure, group=numbered(group, len(measure.of_sets)))
    values, weight, who = measure._counted()
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
    """Percentile intervals of the sum over sets of ``above``, divided by that of ``below``.

    With ``group``, one value per set, all sets of one value are drawn together.

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
    means = quotient(*np.hsplit(drawn, 2))
    tails = [(1 - level) / 2, (1 + level) / 2]
    with np.errstate(invalid="ignore"):
        low, high = _quantiles(means, tails)
    return low.reshape(shape), high.reshape(shape)


def _summed(
    flat: Float[np.ndarray, "sets m"], person: Int[np.ndarray, " sets"]
) -> Float[np.ndarray, "people m"]:
    """The sums of each person's sets."""
    order = np.argsort(person, kind="stable")
    return _segments.sums(flat[order], _segments.offsets_of(np.bincount(person)))


def _quantiles(
    means: Float[np.ndarray, "resamples m"], tails: Sequence[float]
) -> Float[np.ndarray, "two m"]:
    """Quantiles over the resamples that have a value; NaN if none has."""
    found = np.full((2, means.shape[1]), np.nan)
    some = ~np.isnan(means).all(0)
    found[:, some] = np.nanquantile(means[:, some], tails, axis=0)
    return found


def quotient(above: Float[np.ndarray, "*m"], below: Float[np.ndarray, "*m"]) -> np.ndarray:
    """``above`` divided by ``below``; NaN where that is 0."""
    return np.divide(above, below, out=np.full(above.shape, np.nan), where=below != 0)


def respondents(choices: Choices, data: Any, group: str | Group) -> Int[np.ndarray, " sets"]:
    """The number of the respondent who made the choice of each set, from 0.

    Args:
        choices: the sets.
        data: what they were read from, which may be the choices themselves.
        group: the column that ``read(group=...)`` named, a context column, or, where ``data`` is a
            table, any of its columns that is constant within sets; or one value per set.

    >>> import setwise as sw
    >>> table = {"trip": [1, 1, 2, 2, 3, 3], "cost": [3.0, 1.0, 2.0, 5.0, 4.0, 6.0],
    ...          "taken": [0, 1, 1, 0, 1, 0], "who": ["Ann", "Ann", "Ann", "Ann", "Bob", "Bob"]}
    >>> choices = sw.read(table, set="trip", chosen="taken", items=["cost"], group="who")
    >>> respondents(choices, choices, "who").tolist()
    [0, 0, 1]
    """
    if not isinstance(group, str):
        return numbered(group, len(choices))
    if choices.group is not None and group == choices.roles.group:
        return numbered(choices.group, len(choices))
    if group in choices.context:
        return numbered(choices.context[group].text(), len(choices))
    if isinstance(data, Choices):
        known = [*([] if choices.group is None else [choices.roles.group]), *choices.context]
        raise InputError(
            f"these choices have no column '{group}' with one value per set for group= (they "
            f"have: {', '.join(map(str, known)) or 'none'}); read them with group='{group}', or "
            "give an array with one value per set"
        )
    _, codes = np.unique(open_table(data).ids(group, "group"), return_inverse=True)
    sets = Grouping(choices.roles.set, choices.rows, choices.offsets, choices.set_ids)
    return numbered(sets.once_per_set(Column(codes.reshape(-1)), group).values, len(choices))
